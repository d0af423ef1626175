"""What branch workers need of the rest of the reverser.

The controller fills it in; nothing in it waits for Git.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from windlass.kube.api import Api
from windlass.objects.names import Key
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.publisher import Delivery
from windlass.reverser.selection.rule_coverage import RuleCoverage


@dataclass(frozen=True, slots=True)
class WorkerHooks:
    """Services, queries and notifications of a branch worker."""

    api: Api
    """Confirms deletions by name."""
    metrics: MirrorMetrics
    """Counts skips, races, verdicts and pushes."""
    event_queue: EventQueue
    """Takes Events on destinations."""
    may_push: Callable[[], bool]
    """Whether the lease is held at this moment."""
    destinations: Callable[[], frozenset[str]]
    """Every GitDestination that exists, as `namespace/name`."""
    await_records: Callable[[float], Awaitable[None]]
    """Waits for the admission records of changes that were received until that monotonic time."""
    is_seeding: Callable[[Key], bool]
    """Whether first snapshots of a destination are still to come."""
    current_coverage: Callable[[Folder], Awaitable[RuleCoverage | None]]
    """What the rules of a folder's destination cover; None while that is in doubt."""
    folder_changed: Callable[[Key], None]
    """A folder was opened, closed or written, or got its first pending update; status follows."""
    resnapshot: Callable[[Key], None]
    """Every object of a destination must be listed and compared again."""
    push_acknowledged: Callable[[Delivery], None]
    """One folder's part of a push was acknowledged; writes metrics and the audit log."""
