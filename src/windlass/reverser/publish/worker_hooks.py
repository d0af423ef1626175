"""Callbacks through which branch workers query and notify the rest of the reverser.

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
    """Queries and notifications of a branch worker, keyed by destination."""

    may_push: Callable[[], bool]
    """Whether the lease is held at this moment."""
    is_seeding: Callable[[Key], bool]
    """Whether first snapshots of a destination are still to come."""
    is_deleted: Callable[[Identity], Awaitable[bool]]
    """Whether the API server confirms that an object does not exist."""
    current_coverage: Callable[[Key], Awaitable[RuleCoverage | None]]
    """What the rules of a destination cover; None while that is in doubt."""
    reread_object: Callable[[WriteTarget, FileUpdate], Awaitable[FileUpdate | None]]
    """An update with content again, from the live object; None if there is nothing to write."""
    destinations: Callable[[], frozenset[str]]
    """Every GitDestination that exists, as `namespace/name`."""
    destination_changed: Callable[[Key], None]
    """The status of a destination must be computed again."""
    resnapshot: Callable[[Key], None]
    """Every object of a destination must be listed and compared again."""
    push_acknowledged: Callable[[Delivery], None]
    """One folder's part of a push was acknowledged; writes metrics and the audit log."""
    count_verdict: Callable[[AuthorVerdict], None]
    """Counts how a pushed change was attributed."""
    count_skip: Callable[[Identity, SkipReason], None]
    """Counts an object that is not written, by reason."""
    count_race: Callable[[], None]
    """Counts a push that another writer preceded."""
    observe_push: Callable[[float], None]
    """Observes the seconds that an acknowledged push took."""
    record_event: Callable[[Key, OutcomeEvent, str], None]
    """Queues an Event for a destination; the last argument names the transition."""


def report_rewind(
    hooks: WorkerHooks, branch: RemoteBranch, folders: Iterable[tuple[WriterGroup, Folder]]
) -> None:
    """Record an Event on every destination of a branch whose history was rewritten."""
    tip = branch.base or ""
    event = events.history_rewritten(branch.name, tip, branch.last_pushed or "")
    for _, folder in folders:
        hooks.record_event(folder.target.key, event, tip)


def report_push(
    hooks: WorkerHooks, folder: Folder, tip: str, *, creates: bool, claims: bool
) -> None:
    """Record Events of an acknowledged push that created the branch or claimed the folder."""
    target = folder.target
    for event in events.push_events(
        target.branch, target.base_folder, creates=creates, claims=claims
    ):
        hooks.record_event(target.key, event, tip)
