"""Builds the batch of a closed window: its updates, proven removals and refused paths.

Called by the branch worker. Every request to the cluster or to Git on the way may fail; then
the folder still has everything that it had before.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.base.clock import Clock
from windlass.reverser import events
from windlass.reverser.publish import orphans
from windlass.reverser.publish.file_update import FileUpdate, FolderReview
from windlass.reverser.publish.folder import Folder, PendingWindow
from windlass.reverser.publish.publisher import FolderBatch, Publisher
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.writer_group import WriterGroup
from windlass.telemetry.reasons import SkipReason


async def reread_dropped(
    folder: Folder, publisher: Publisher, hooks: WorkerHooks, clock: Clock
) -> None:
    """Read dropped objects again; an update that arrives meanwhile takes precedence."""
    while folder.dropped:
        path, update = next(iter(folder.dropped.items()))
        fresh = await hooks.reread_object(folder.target, update)
        if folder.dropped.pop(path, None) is not None and fresh is not None:
            folder.add_update(fresh, clock.monotonic())
        if folder.window.is_heavy:
            await publisher.store_content(folder)


async def build_batch(
    folder: Folder, window: PendingWindow, branch: RemoteBranch, hooks: WorkerHooks, clock: Clock
) -> FolderBatch:
    """A closed window with the removals that its snapshots prove and the occupied paths."""
    received = clock.now()
    removals: list[FileUpdate] = []
    for snapshot in window.snapshots:
        if isinstance(snapshot, FolderReview):
            coverage = await hooks.current_coverage(folder.target.key)
            removals += await orphans.find_uncovered(folder, branch, coverage, received)
            continue
        removals += await orphans.find_orphans(folder, branch, snapshot, hooks.is_deleted, received)
    if exposed := await orphans.find_exposed(folder, branch, window.updates):
        event = events.secrets_exposed(tuple(update.identity for update in exposed))
        hooks.record_event(folder.target.key, event, folder.index[exposed[0].path])
    occupied = await orphans.find_occupied(folder, branch, window.updates)
    for path, identity in occupied.items():
        hooks.count_skip(identity, SkipReason.PATH_OCCUPIED)
        folder.refuse(path, identity, SkipReason.PATH_OCCUPIED)
    return FolderBatch(folder, window, tuple(removals), frozenset(occupied))


def drop_unwritable(windows: list[tuple[Folder, PendingWindow]], attached: list[Folder]) -> None:
    """Remove from `windows` what may not be written any more since the branch moved.

    Another writer may have claimed a folder: its window goes back and waits until the folder
    opens again. A destination may have been detached: its window is dropped.
    """
    for folder, window in windows:
        if not folder.is_open:
            folder.put_back(window)
    windows[:] = [
        (folder, window)
        for folder, window in windows
        if folder.is_open and any(folder is other for other in attached)
    ]


def drop_pending_content(folders: Iterable[tuple[WriterGroup, Folder]]) -> None:
    """Drop pending content of groups with an error; it is read again once they recover."""
    for group, folder in folders:
        if group.error is not None:
            folder.drop_pending_content()
