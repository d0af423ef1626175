"""Prepares what waits in a folder for its commits.

Whatever is asked of the cluster or of Git on the way may fail; then the folder still
knows everything that it knew before.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.base.clock import Clock
from windlass.reverser import sweeping
from windlass.reverser.arrival import Arrival, Review
from windlass.reverser.branch import Branch
from windlass.reverser.decide import announcement
from windlass.reverser.folder import Folder, Gathered
from windlass.reverser.party import Party
from windlass.reverser.publisher import Batch, Publisher
from windlass.reverser.surroundings import Surroundings
from windlass.telemetry.reasons import SkipReason


async def recall(folder: Folder, publisher: Publisher, around: Surroundings, clock: Clock) -> None:
    """Read again the objects whose content was let go; what came anew meanwhile counts."""
    while folder.dirty:
        path, arrival = next(iter(folder.dirty.items()))
        fresh = await around.reread(folder.target, arrival)
        if folder.dirty.pop(path, None) is not None and fresh is not None:
            folder.offer(fresh, clock.monotonic())
        if folder.waiting.is_heavy:
            await publisher.stow(folder)


async def batch(
    folder: Folder, gathered: Gathered, branch: Branch, around: Surroundings, clock: Clock
) -> Batch:
    """A closed window with the removals that its sweeps prove, without paths that are taken."""
    received = clock.now()
    removals: list[Arrival] = []
    for sweep in gathered.sweeps:
        if isinstance(sweep, Review):
            selected = await around.selected(folder.target.key)
            removals += await sweeping.uncovered(folder, branch, selected, received)
            continue
        removals += await sweeping.orphans(folder, branch, sweep, around.gone, received)
    if exposed := await sweeping.exposed(folder, branch, gathered.arrivals):
        notice = announcement.exposed(tuple(one.identity for one in exposed))
        around.told(folder.target.key, notice, folder.index[exposed[0].path])
    blocked = await sweeping.occupied(folder, branch, gathered.arrivals)
    for path, identity in blocked.items():
        around.skipped(identity, SkipReason.PATH_OCCUPIED)
        folder.refuse(path, identity, SkipReason.PATH_OCCUPIED)
    return Batch(folder, gathered, tuple(removals), frozenset(blocked))


def let_go(taken: list[tuple[Folder, Gathered]], present: list[Folder]) -> None:
    """Drop from `taken` what may not be written any more since the branch moved.

    Whoever moved it may have claimed a folder; that one keeps what waits until it opens
    again. A destination may have been taken away meanwhile.
    """
    for folder, gathered in taken:
        if not folder.is_open:
            folder.put_back(gathered)
    taken[:] = [
        (folder, gathered)
        for folder, gathered in taken
        if folder.is_open and any(folder is each for each in present)
    ]


def shed(everyone: Iterable[tuple[Party, Folder]]) -> None:
    """Too much waits for a remote that is away: keep identities, re-read them later."""
    for party, folder in everyone:
        if party.trouble is not None:
            folder.shed()
