"""Which commits a closed window becomes.

The operation is taken from the Git transition, not from the event: absent -> CREATE,
present and different -> UPDATE, present and unwanted -> DELETE (RUL-7). So masks mean
the same live, after a relist and after a restart. What changes nothing, or is masked,
leaves the window here, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from windlass.objects.names import Identity
from windlass.reverser.decide import transition, window
from windlass.reverser.decide.attribution import Miss, Tier
from windlass.reverser.decide.author import Author
from windlass.reverser.decide.cadence import Limits
from windlass.reverser.decide.transition import Operation, Prune
from windlass.reverser.decide.window import Change
from windlass.telemetry.reasons import SkipReason

_DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class Wanted:
    """One judged arrival: the state a path should have, and who asked for it."""

    path: str
    identity: Identity
    blob: str | None
    size: int
    mask: frozenset[Operation]
    author: Author
    tier: Tier
    user: str
    received: datetime
    reason: str = ""
    at: int = 0
    """Its position in the window."""
    miss: Miss = ""


@dataclass(frozen=True, slots=True)
class Publication:
    """The commits, in order, what was left out, and the paths that `prune` keeps."""

    commits: tuple[window.PlannedCommit, ...]
    skipped: tuple[tuple[Identity, SkipReason], ...]
    retained: frozenset[str] = frozenset()


def publication(
    wanted: Iterable[Wanted],
    index: Mapping[str, str],
    *,
    apart: bool = False,
    prune: Prune = "Always",
    limits: Limits = _DEFAULT,
) -> Publication:
    """Plan the commits that carry `wanted`, in order, onto a folder that holds `index`.

    With `apart` every event has a commit of its own; what a snapshot found is no event. No
    commit is larger than `limits` say.
    """
    changes: list[Change] = []
    skipped: list[tuple[Identity, SkipReason]] = []
    retained: set[str] = set()
    ahead: dict[str, str | None] = {}
    for item in wanted:
        present = ahead[item.path] if item.path in ahead else index.get(item.path)
        operation = transition.between(present, item.blob)
        observed = item.tier != "sync"
        reason = transition.skip(operation, item.mask, prune=prune, observed=observed)
        if reason is SkipReason.PRUNE_RETAINED:
            retained.add(item.path)
        if operation is None or reason is not None:
            skipped.append((item.identity, reason or SkipReason.STATUS_ONLY))
            continue
        ahead[item.path] = item.blob
        changes.append(_change(item, operation))
    planned = window.separate(changes, index) if apart else window.commits(changes, index)
    cut = window.capped(planned, files=limits.files, size_bytes=limits.size_bytes)
    return Publication(cut, tuple(skipped), frozenset(retained))


def _change(item: Wanted, operation: Operation) -> Change:
    return Change(
        path=item.path,
        identity=item.identity,
        blob=item.blob,
        size=item.size,
        author=item.author,
        tier=item.tier,
        user=item.user,
        received=item.received,
        op=operation,
        reason=item.reason,
        at=item.at,
        miss=item.miss,
    )
