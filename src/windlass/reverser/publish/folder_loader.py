"""Opens, loads and closes the folders of one branch as its tip moves.

Owned by the branch worker, which calls it before it plans and after a lost race. `folder_opening`
decides which destination may write to a folder.

| Branch | Then |
|---|---|
| its tip is known and did not move | closed folders are opened |
| moved | every open folder is loaded from the new tip |
| rewound | the same, with an Event |
| a folder could not be loaded | the branch is read again before the next push |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import Stalled
from windlass.reverser import events
from windlass.reverser.publish import folder_opening
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.publisher import Publisher
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.writer_group import WriterGroup

_log = structlog.get_logger(__name__)

_CLOSED_RETRY_SECONDS = 300.0
"""How long to wait before a folder claimed by another destination is tried again."""


class FolderLoader:
    """Keeps the folders of a branch in step with its tip."""

    def __init__(
        self,
        branch: RemoteBranch,
        publisher: Publisher,
        hooks: WorkerHooks,
        clock: Clock,
        folders: Callable[[], Iterable[tuple[WriterGroup, Folder]]],
    ) -> None:
        self._branch = branch
        # Makes the claim of a folder.
        self._publisher = publisher
        self._hooks = hooks
        self._clock = clock
        # All folders of the worker, each with its group.
        self._folders = folders

    async def open_group(self, group: WriterGroup) -> None:
        """Refresh the branch if needed, then open the group's closed folders."""
        closed = [folder for folder in group.folders.values() if not folder.is_open]
        # Dropped objects are listed again only once the remote is known to answer.
        must_ask = any(folder.dropped for folder in group.folders.values())
        is_current = self._branch.is_known and not self._branch.may_have_moved
        if is_current and not closed and not must_ask:
            return
        await self.catch_up(next(iter(group.folders.values())).target)
        for folder in closed:
            await self._open_folder(folder)

    async def catch_up(self, target: WriteTarget) -> None:
        """Refresh the tip; if it moved, every open folder is loaded from the new one."""
        moved = await self._branch.refresh(target)
        if moved == "rewound":
            self._report_rewind()
        if moved != "same":
            with self.loading_from_tip():
                for _, folder in list(self._folders()):
                    if folder.is_open:
                        await self.reload(folder)
        self._branch.may_have_moved = False

    @contextlib.contextmanager
    def loading_from_tip(self) -> Iterator[None]:
        """Have the branch refreshed before the next push if an open folder could not be loaded.

        It still has the files of an older tip, and does not know a claim that came with the new.
        """
        try:
            yield
        except BaseException:
            self._branch.is_known, self._branch.may_have_moved = False, True
            raise

    def _report_rewind(self) -> None:
        tip = self._branch.base or ""
        event = events.history_rewritten(self._branch.name, tip, self._branch.last_pushed or "")
        for _, folder in self._folders():
            self._hooks.event_queue.add(folder.target.key, event, tip)

    async def reload(self, folder: Folder) -> None:
        """Load an open folder from a new tip; list its objects again if files of ours differ."""
        before = folder.index
        await self._open_folder(folder)
        if folder.damaged_since(before):
            self._hooks.resnapshot(folder.target.key)

    async def _open_folder(self, folder: Folder) -> None:
        """Open a folder that may be written to; else close it with the error, to retry later."""
        was_open = folder.is_open
        try:
            displaced = await folder_opening.open_folder(
                folder,
                self._branch,
                self._publisher.make_claim(folder),
                destinations=self._hooks.destinations(),
                neighbors=folder_opening.possible_holders(folder, self._folders()),
            )
            self.close_folders(displaced)
            if not was_open:
                # Updates were not queued for it while it was closed.
                self._hooks.resnapshot(folder.target.key)
        except Stalled as error:
            self.close_folders([(folder, error)])
        self._hooks.folder_changed(folder.target.key)

    def close_folders(self, displaced: Iterable[tuple[Folder, Stalled]]) -> None:
        """Stop writing to folders that another destination keeps; only a new reason is logged."""
        for folder, error in displaced:
            if folder.error is None or folder.error.reason != error.reason:
                _log.warning(
                    "folder not writable; retrying",
                    destination=str(folder.target.key),
                    reason=error.reason,
                    message=error.message,
                )
            folder.close(error, self._clock.monotonic() + _CLOSED_RETRY_SECONDS)
            self._hooks.folder_changed(folder.target.key)
