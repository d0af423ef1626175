"""The single writer of one branch of one remote: opens folders, plans, builds, pushes.

`worker_pool` starts one task per branch; the mirror adds file updates and snapshots to it. The
story of one attempt: `_write_group` -> `open_group` of the `folder_loader` -> `_publish` ->
`_plan_and_push` -> `_push_all` -> `_settle_folders`.

Rules:
1. Only this task touches the store and pushes; the watch only adds to open windows.
2. A window closes by its cadence, at its ceilings, on request, or at shutdown.
3. Before a push the lease must be held; a process that was paused writes nothing.
4. After any failure the windows go back, in order; the remote's ref decides what is
   planned next. There is no force, no merge and no cursor.

| Push ended in | Then |
|---|---|
| pushed, or already there | acknowledge: index and tip move |
| raced | at once: the same commits, fewer of them, on the new tip; a folder that has other \
files there is loaded, and planned again if it is being written |
| rewound | fetch the new tip, load the folders again, plan again |
| absent | the branch is resolved again: created where allowed, else BranchNotFound |
| rejected | PushRejected: slow retry, or when something changes |
| transient | GitUnavailable: backoff |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import structlog

from windlass.base import fair_slots
from windlass.base.clock import Clock
from windlass.base.errors import Retryable, WindlassError
from windlass.git import push as pushing
from windlass.git.errors import StoreCorrupt
from windlass.git.runner import Git
from windlass.objects.names import Key
from windlass.reverser.publish import batch_builder, cadence, folder_opening, publisher
from windlass.reverser.publish.file_update import FileUpdate, FolderReview, ScopeSnapshot
from windlass.reverser.publish.folder import Folder, PendingWindow, WriteTarget
from windlass.reverser.publish.folder_loader import FolderLoader
from windlass.reverser.publish.publisher import (
    BuiltCommits,
    FolderBatch,
    Publisher,
    PublishPlan,
)
from windlass.reverser.publish.pusher import (
    BranchMoved,
    FolderWindow,
    PushedWindow,
    Pusher,
    PushWindows,
)
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.writer_group import WriterGroup

_log = structlog.get_logger(__name__)

_SEEDING_SECONDS = 2.0
"""How long first snapshots of several types are collected into one commit."""


class BranchWorker:
    """Folders of one branch and the loop that writes them.

    Intake and controllers call from the same event loop, so no state is locked; only blocking
    Git work runs in threads.
    """

    def __init__(
        self,
        branch: RemoteBranch,
        publisher: Publisher,
        git: Git,
        limits: cadence.WindowLimits,
        hooks: WorkerHooks,
        clock: Clock,
        repository_gate: asyncio.Semaphore,
        pending_max_bytes: int,
    ) -> None:
        # Writer groups by the key of their GitRepoConfig; a group without folders is removed.
        self.groups: dict[Key, WriterGroup] = {}
        self._branch = branch
        self._publisher = publisher
        self._limits = limits
        self._hooks = hooks
        self._clock = clock
        # Held while writing: bounds the workers of one repository that write at once.
        self._repository_gate = repository_gate
        # Above this many bytes of pending updates, groups with an error drop them.
        self._pending_max_bytes = pending_max_bytes
        self._pusher = Pusher(branch, git, hooks, clock)
        self._loader = FolderLoader(branch, publisher, hooks, clock, self.folders)
        # Set by whatever may change the time at which the next group is due.
        self._wake = asyncio.Event()
        # Set by `drain`: windows close at once, whatever their cadence.
        self._draining = False
        # Whether an attempt is under way; read by the gauge of active workers.
        self.is_active = False
        # When the oldest window of the attempt was opened, monotonic; read by the gauge of the lag.
        self.pushing_since: float | None = None

    # ---- called by the mirror and the controllers

    def attach(self, target: WriteTarget) -> Folder:
        """Add a destination, or replace its target; the loop opens the new folder."""
        self.detach(target.key)
        group = self.groups.setdefault(target.repository, WriterGroup(target.repository))
        folder = group.folders[target.key] = Folder(target)
        group.retry_now()
        return folder

    def detach(self, key: Key) -> None:
        """Stop writing for a destination; its files stay, pending updates are dropped."""
        for group in list(self.groups.values()):
            group.folders.pop(key, None)
            group.retry_waiting_folders()
            if not group.folders:
                del self.groups[group.repository]
        self._wake.set()

    def folders(self) -> Iterator[tuple[WriterGroup, Folder]]:
        """Every folder of the branch with its writer group."""
        for group in self.groups.values():
            for folder in group.folders.values():
                yield group, folder

    def find(self, key: Key) -> tuple[WriterGroup, Folder] | None:
        """The folder of a destination with its writer group; None if it is not attached."""
        return next((pair for pair in self.folders() if pair[1].target.key == key), None)

    def add_update(self, folder: Folder, update: FileUpdate) -> None:
        """Queue a file update; above the memory limit, drop what cannot be pushed now."""
        was_pending = folder.pending > 0
        if not folder.add_update(update, self._clock.monotonic()):
            return
        self._wake.set()
        if not was_pending:
            self._hooks.folder_changed(folder.target.key)
        if sum(attached.window.size for _, attached in self.folders()) > self._pending_max_bytes:
            for group, attached in self.folders():
                if group.error is not None:
                    attached.drop_updates()

    def add_snapshot(self, folder: Folder, snapshot: ScopeSnapshot | FolderReview) -> None:
        """Queue a complete snapshot or a folder review in the folder's window."""
        folder.add_snapshot(snapshot, self._clock.monotonic())
        self._wake.set()

    def branch_observed(self, key: Key, tip: str | None, *, flush: bool) -> None:
        """Take note that a listing has the branch at `tip`, maybe moved by another writer.

        With `flush` a user requested that pending updates are written now.
        """
        self._branch.may_have_moved |= self._branch.is_known and tip != self._branch.expected
        if attached := self.find(key):
            group, folder = attached
            folder.window.flush_requested = folder.window.flush_requested or (
                flush and bool(folder.window)
            )
            group.retry_now()
            self._wake.set()

    def wake(self) -> None:
        """Have the loop compute again which group is due."""
        self._wake.set()

    # ---- the loop

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wait_until_due()
            self._settle_windows()
            for group in list(self.groups.values()):
                if self._is_due(group):
                    await self._write_group(group)

    async def drain(self) -> None:
        """Close every window now; return when every group is written or has failed once."""
        self._draining = True
        for group in list(self.groups.values()):
            if any(folder.window for folder in group.folders.values()):
                await self._write_group(group)

    async def _wait_until_due(self) -> None:
        """Sleep until a group or a verdict is due, or until something changed."""
        self._wake.clear()
        due = min((self._next_settle_time(), *map(self._due_at, self.groups.values())))
        if due == float("inf"):
            await self._wake.wait()
            return
        delay = due - self._clock.monotonic()
        if delay > 0:
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                return

    def _next_settle_time(self) -> float:
        windows = (folder.window for _, folder in self.folders())
        return min(map(publisher.next_settle_time, windows), default=float("inf"))

    def _settle_windows(self) -> None:
        """Judge the changes in open windows whose records must all have arrived."""
        now = self._clock.monotonic()
        for _, folder in self.folders():
            publisher.settle_window(folder.window, self._publisher.judge, now)

    async def _settle_during_write(self) -> None:
        """Settle windows in time: a slow server may hold the loop for longer than records live."""
        while True:
            # No change that arrives in this time is due before its end.
            delay = self._next_settle_time() - self._clock.monotonic()
            await asyncio.sleep(min(delay, publisher.SETTLE_SECONDS))
            self._settle_windows()

    def _is_due(self, group: WriterGroup) -> bool:
        return self._due_at(group) <= self._clock.monotonic()

    def _due_at(self, group: WriterGroup) -> float:
        """The monotonic time of the group's next attempt, never before its backoff ends."""
        times = [self._folder_due_at(folder) for folder in group.folders.values()]
        return max(
            0.0 if self._branch.may_have_moved else min(times, default=float("inf")),
            group.not_before,
        )

    def _folder_due_at(self, folder: Folder) -> float:
        """The monotonic time at which a folder needs an attempt; infinity if nothing is pending."""
        if not folder.is_open:
            return folder.retry_at
        # What was dropped must be listed again; much content moves from memory into the store.
        if folder.dropped or folder.window.is_heavy:
            return 0.0
        window = folder.window
        if not window:
            return float("inf")
        if self._draining or window.flush_requested:
            return 0.0
        # While first snapshots still arrive, they share a commit instead of one each.
        if not window.observed_count and self._hooks.is_seeding(folder.target.key):
            return 0.0 if window.is_full else window.opened + _SEEDING_SECONDS
        return cadence.window_closes_at(
            opened=window.opened,
            last_event=window.newest,
            last_push_end=self._pusher.last_end,
            push_average=self._pusher.average,
            files=len(window.updates) if window.observed_count else 0,
            size_bytes=window.size if window.observed_count else 0,
            fixed_window=self._fixed_window(folder),
            limits=self._limits,
        )

    def _fixed_window(self, folder: Folder) -> float | None:
        """The commit window of a folder in which nothing but events wait; else None."""
        # What a snapshot or a review finds is no event, and events may share its push.
        only_events = folder.window.observed_count and not folder.window.snapshots
        return folder.target.window_seconds if only_events else None

    async def _write_group(self, group: WriterGroup) -> None:
        """One attempt to open the group's folders and to push what is due; errors stay here."""
        async with asyncio.TaskGroup() as tasks:
            settling = tasks.create_task(self._settle_during_write())
            with fair_slots.namespace_context(group.repository.namespace):
                await self._try_to_write(group)
            settling.cancel()
        self._notify_changed(group)

    async def _try_to_write(self, group: WriterGroup) -> None:
        try:
            async with self._repository_gate:
                if not group.folders:
                    # Its last destination was detached while this waited for the gate.
                    return
                self.is_active = True
                await self._loader.open_group(group)
                await self._publish(group)
                await self._compact_store(group)
            group.record_success()
            self._list_dropped(group)
        except StoreCorrupt as error:
            await self._replace_damaged_store(error)
        except WindlassError as error:
            group.record_failure(error, self._clock.monotonic())
        except OSError as error:
            group.record_disk_failure(error, self._clock.monotonic())
        except Exception as error:
            # The loop must outlive a bug of ours; `_publish` has put the windows back.
            _log.exception("push cycle failed", repository=str(group.repository))
            internal_error = Retryable(
                "InternalError", f"internal error ({type(error).__name__}); see the log"
            )
            group.record_failure(internal_error, self._clock.monotonic())
        finally:
            self.is_active = False

    def _notify_changed(self, group: WriterGroup) -> None:
        """Have the status of the group's destinations computed again."""
        for folder in group.folders.values():
            self._hooks.folder_changed(folder.target.key)

    def _list_dropped(self, group: WriterGroup) -> None:
        """Have the objects of dropped updates listed again: the remote answers (GIT-10)."""
        for key, folder in group.folders.items():
            if folder.dropped:
                folder.dropped.clear()
                self._hooks.resnapshot(key)

    async def _replace_damaged_store(self, error: StoreCorrupt) -> None:
        """Discard a damaged store; every folder starts empty and every object is listed again."""
        _log.warning("git store is corrupt; fetching it again", message=error.message)
        await self._branch.discard_store()
        for group in self.groups.values():
            for key, folder in group.folders.items():
                group.folders[key] = Folder(folder.target)
                self._hooks.resnapshot(key)

    async def _compact_store(self, group: WriterGroup) -> None:
        """Replace a store that many commits have cluttered, but only while nothing is pending."""
        has_pending = any(folder.window or folder.dropped for _, folder in self.folders())
        if group.folders and not has_pending and await self._branch.is_cluttered():
            # Without a store the branch must be read again, also if that fails now.
            self._branch.may_have_moved = True
            await self._branch.discard_store()
            await self._loader.catch_up(next(iter(group.folders.values())).target)

    # ---- plan, build, push, acknowledge

    async def _publish(self, group: WriterGroup) -> None:
        """Close the windows that are due and push them; after a failure they are put back."""
        for folder in list(group.folders.values()):
            if folder.is_open and folder.window.is_heavy:
                await self._publisher.store_content(folder)
        now = self._clock.monotonic()
        due = [
            folder
            for folder in group.folders.values()
            if folder.is_open and self._folder_due_at(folder) <= now
        ]
        due = folder_opening.select_non_overlapping(due)
        windows = [(folder, folder.take()) for folder in due if folder.window]
        self.pushing_since = min((window.opened for _, window in windows), default=None)
        try:
            await self._plan_and_push(group, windows)
        except BaseException:
            # Cancellation included: an update that was not acknowledged must stay pending.
            for folder, window in windows:
                folder.put_back(window)
            raise
        finally:
            self.pushing_since = None

    async def _plan_and_push(self, group: WriterGroup, windows: list[FolderWindow]) -> None:
        """Plan and push until nothing is left in `windows`, which always holds what is unpushed."""
        # Kept through new plans: a writer who changes our folder makes every lost race need one.
        stride = cadence.PushStride()
        while windows:
            batches = [await self._build_batch(folder, window) for folder, window in windows]
            await self._hooks.await_records(max(window.observed_at for _, window in windows))
            # What the next push does not carry may have to be planned again before it is due.
            plan = await self._publisher.plan(batches, stride.commits)
            windows[:] = [
                (folder, window.without_content(plan.blobs)) for folder, window in windows
            ]
            next_stride = await self._push_all(group, windows, plan, stride)
            if next_stride is None:
                self._settle_folders([folder for folder, _ in windows], plan)
                windows.clear()
            else:
                stride = next_stride
                self._drop_unwritable(windows)

    def _drop_unwritable(self, windows: list[FolderWindow]) -> None:
        """Remove from `windows` what may not be written any more since the branch moved.

        Another writer may have claimed a folder: its window goes back and waits until the folder
        opens again. A destination may have been detached: its window is dropped.
        """
        for folder, window in windows:
            if not folder.is_open:
                folder.put_back(window)
        windows[:] = [(folder, window) for folder, window in windows if self._may_write(folder)]

    async def _build_batch(self, folder: Folder, window: PendingWindow) -> FolderBatch:
        return await batch_builder.build_batch(
            folder, window, self._branch, self._hooks, self._clock
        )

    async def _push_all(
        self,
        group: WriterGroup,
        windows: list[FolderWindow],
        plan: PublishPlan,
        stride: cadence.PushStride,
    ) -> cadence.PushStride | None:
        """Push all of `plan`; the next stride if what is left in `windows` needs a new plan.

        Against writers who push all the time a long series of commits never lands at once, so
        each push after a lost race carries fewer, and after a success more.
        """
        progress, steps = PushWindows(windows), plan.steps
        while steps:
            group.unacknowledged_commits = len(steps) + plan.later
            target = windows[0][0].target
            built = await self._publisher.build(steps[: stride.commits])
            moved = await self._pusher.push(target, built)
            if moved is None:
                stride, steps = stride.after_push(), steps[len(built.steps) :]
                complete = not steps and not plan.later
                self._acknowledge(group, built, progress.record_push(built, complete=complete))
                windows[:] = progress.remaining
                await self._pusher.trim_memory(built)
            else:
                stride = stride.after_race(len(built.steps))
                self._hooks.metrics.count_race()
                if await self._follow_branch(group, windows, moved, stride.lost):
                    return stride
            # A folder was closed or detached while the push was under way.
            if not all(self._may_write(folder) for folder, _ in windows):
                return stride
        if plan.later:
            return stride
        group.unacknowledged_commits = 0
        return None

    def _acknowledge(
        self, group: WriterGroup, built: BuiltCommits, windows: Sequence[PushedWindow]
    ) -> None:
        """Record that the server has `built`, and what follows from it for group and folders."""
        self._pusher.acknowledge(built, windows)
        if group.error is not None:
            # The server takes our pushes again, however much is left to push.
            group.record_success()
            self._notify_changed(group)
        for written in built.written:
            if written.claims:
                self._loader.close_folders(
                    folder_opening.displaced_by(written.folder, self.folders())
                )

    def _may_write(self, folder: Folder) -> bool:
        return folder.is_open and any(folder is attached for _, attached in self.folders())

    async def _follow_branch(
        self, group: WriterGroup, windows: list[FolderWindow], moved: BranchMoved, lost_races: int
    ) -> bool:
        """Move to the new tip; whether the plan is void because its folders differ there."""
        target = windows[0][0].target
        # Deleted or rewound: only a fetch shows what the branch has now.
        if not isinstance(moved, pushing.Raced):
            await self._loader.catch_up(target)
            return True
        if group.record_race(target.remote.display, lost_races, self._clock.monotonic()):
            self._notify_changed(group)
        before = self._branch.base
        self._branch.set_tip(moved.tip)
        with self._loader.loading_from_tip():
            changed = [
                folder
                for _, folder in list(self.folders())
                if await self._has_other_files(folder, before)
            ]
            for folder in changed:
                await self._loader.reload(folder)
        return any(folder in changed for folder, _ in windows)

    async def _has_other_files(self, folder: Folder, before: str | None) -> bool:
        path = folder.target.base_folder
        return folder.is_open and not await asyncio.to_thread(self._branch.is_same, path, before)

    def _settle_folders(self, folders: Iterable[Folder], plan: PublishPlan) -> None:
        """Record in the folders that everything planned is pushed, or that nothing had to be."""
        for folder in folders:
            folder.settle()
        for folder, paths in plan.retained:
            folder.retain(paths)
        for identity, reason in plan.skipped:
            self._hooks.metrics.count_skip(identity, reason)
