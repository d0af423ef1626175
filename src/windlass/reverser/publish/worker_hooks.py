"""Hooks through which branch workers query and notify the rest of the reverser.

The controller connects them; none of them waits for Git. `report_rewind` and `report_push`
record Events on the destinations of a branch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from windlass.objects.names import Identity, Key
from windlass.reverser import events
from windlass.reverser.attribution.record_join import AuthorVerdict
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.publisher import Delivery
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.writer_group import WriterGroup
from windlass.reverser.selection.rule_coverage import RuleCoverage
from windlass.runtime.outcome import OutcomeEvent
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class WorkerHooks:
    """Questions and messages; none of them waits for Git."""

    may_push: Callable[[], bool]
    is_seeding: Callable[[Key], bool]
    is_deleted: Callable[[Identity], Awaitable[bool]]
    current_coverage: Callable[[Key], Awaitable[RuleCoverage | None]]
    """What the rules of a destination cover; None while that cannot be told."""
    reread_object: Callable[[WriteTarget, FileUpdate], Awaitable[FileUpdate | None]]
    destinations: Callable[[], frozenset[str]]
    destination_changed: Callable[[Key], None]
    resnapshot: Callable[[Key], None]
    push_acknowledged: Callable[[Delivery], None]
    count_verdict: Callable[[AuthorVerdict], None]
    count_skip: Callable[[Identity, SkipReason], None]
    count_race: Callable[[], None]
    observe_push: Callable[[float], None]
    record_event: Callable[[Key, OutcomeEvent, str], None]
    """An event for a destination; the last argument names the transition."""


def report_rewind(
    hooks: WorkerHooks, branch: RemoteBranch, folders: Iterable[tuple[WriterGroup, Folder]]
) -> None:
    """The server's history was rewritten; every destination of the branch hears of it."""
    tip = branch.base or ""
    event = events.history_rewritten(branch.name, tip, branch.last_pushed or "")
    for _, folder in folders:
        hooks.record_event(folder.target.key, event, tip)


def report_push(
    hooks: WorkerHooks, folder: Folder, tip: str, *, creates: bool, claims: bool
) -> None:
    """A push was acknowledged that made the branch, or claimed the folder."""
    target = folder.target
    for event in events.push_events(
        target.branch, target.base_folder, creates=creates, claims=claims
    ):
        hooks.record_event(target.key, event, tip)
