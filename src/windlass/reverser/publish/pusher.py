"""Pushes the commits of one branch and acknowledges what the server accepted.

Called by the branch worker. A push is a compare-and-swap on the tip that the commits were built
on. Edits enter the folders' indexes when the server has acknowledged them, never before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from windlass.base import failpoint, memory
from windlass.base.clock import Clock
from windlass.base.errors import Retryable, Stalled, Waiting
from windlass.git import push as pushing
from windlass.git.runner import Git
from windlass.reverser import events
from windlass.reverser.publish import cadence
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import AcknowledgedPush, Folder, PendingWindow, WriteTarget
from windlass.reverser.publish.publisher import BuiltCommits, Delivery, FolderCommits
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks

_MANY_FILES = 1000
"""A push of more files leaves free memory behind that is worth returning to the system."""

FolderWindow = tuple[Folder, PendingWindow]
BranchMoved = pushing.Raced | pushing.Absent | pushing.Rewound
"""The tip is not the expected one; the branch must be refreshed before the next push."""


@dataclass(frozen=True, slots=True)
class PushedWindow:
    """One folder's window: the updates that a push carried, and what remains."""

    folder: Folder
    updates: list[FileUpdate]
    remaining: PendingWindow

    def lag_seconds(self, now: datetime) -> float:
        """Seconds from the receipt of the oldest update to `now`; 0 without updates."""
        times = [update.received for update in self.updates]
        return max(0.0, (now - min(times)).total_seconds()) if times else 0.0


class PushWindows:
    """What remains of closed windows while one push after the other carries some of it."""

    def __init__(self, windows: Iterable[FolderWindow]) -> None:
        self._windows = tuple(windows)
        # In the order of the windows; read by the branch worker after each push.
        self.remaining = list(self._windows)
        # Per path the position of the last update that the server has.
        self._positions: dict[str, int] = {}

    def record_push(self, built: BuiltCommits, *, complete: bool) -> tuple[PushedWindow, ...]:
        """What the push of `built` carried per window; with `complete` nothing remains."""
        before, self.remaining = self.remaining, []
        for written in built.written:
            self._positions |= written.positions
        for folder, window in self._windows:
            remainder = (
                PendingWindow(verdicts=window.verdicts)
                if complete
                else window.remaining_after(self._positions)
            )
            self.remaining.append((folder, remainder))
        pairs = zip(before, self.remaining, strict=True)
        return tuple(
            _pushed_window(folder, previous, remaining)
            for (folder, previous), (_, remaining) in pairs
        )


def _pushed_window(folder: Folder, before: PendingWindow, remaining: PendingWindow) -> PushedWindow:
    remaining_ids = {id(update) for update in remaining.updates}
    return PushedWindow(
        folder, [update for update in before.updates if id(update) not in remaining_ids], remaining
    )


class Pusher:
    """Pushes to one branch, one after the other, and measures how long they take."""

    def __init__(self, branch: RemoteBranch, git: Git, hooks: WorkerHooks, clock: Clock) -> None:
        # Monotonic time at which the last successful push ended; None before the first.
        self.last_end: float | None = None
        # Moving average of the seconds that a push takes; None before the first.
        self.average: float | None = None
        self._branch = branch
        self._git = git
        self._hooks = hooks
        self._clock = clock
        # Seconds of the last successful push.
        self._seconds = 0.0

    async def push(self, target: WriteTarget, built: BuiltCommits) -> BranchMoved | None:
        """Push `built`; None if the server has it, else how the branch moved.

        Raises where the server or the network refuses, and without the lease.
        """
        if not self._hooks.may_push():
            raise Waiting("NotLeader", "not the leader; nothing is pushed", after=1.0)
        started = self._clock.monotonic()
        failpoint.reach("reverser.push.before")
        outcome = await pushing.push(
            self._git,
            self._branch.store,
            target.remote,
            target.credentials,
            branch=self._branch.name,
            commit=built.tip,
            expected=self._branch.expected,
        )
        failpoint.reach("reverser.push.after")
        match outcome:
            case pushing.Pushed():
                self._record_duration(started)
                return None
            case pushing.Rejected(message=text):
                raise Stalled("PushRejected", f"{target.remote.display} rejected the push: {text}")
            case pushing.Transient(message=text):
                raise Retryable("GitUnavailable", f"{target.remote.display}: {text}")
            case _:
                return outcome

    def _record_duration(self, started: float) -> None:
        self.last_end = self._clock.monotonic()
        self._seconds = self.last_end - started
        self.average = cadence.update_push_average(self.average, self._seconds)
        self._hooks.metrics.observe_push(self._seconds)

    def acknowledge(self, built: BuiltCommits, windows: Sequence[PushedWindow]) -> None:
        """Move tip and indexes to `built`, which the server has; count verdicts, record Events."""
        creates = self._branch.expected is None
        self._branch.acknowledge_push(built.tip)
        by_folder = {id(written.folder): written for written in built.written}
        for window in windows:
            for update in window.updates:
                if update.observation is not None:
                    verdict = window.remaining.verdicts[update.observation]
                    self._hooks.metrics.count_verdict(verdict)
            if written := by_folder.get(id(window.folder)):
                self._acknowledge(built, written, window, creates=creates)

    def _acknowledge(
        self, built: BuiltCommits, written: FolderCommits, window: PushedWindow, *, creates: bool
    ) -> None:
        folder, time = written.folder, self._clock.now()
        folder.acknowledge(written.edits, window.remaining.updates)
        for event in events.push_events(
            folder.target.branch, folder.target.base_folder, creates=creates, claims=written.claims
        ):
            self._hooks.event_queue.add(folder.target.key, event, built.tip)
        folder.is_claimed = folder.is_claimed or written.claims
        folder.last_push = AcknowledgedPush(built.tip, time, len(written.edits))
        lag = window.lag_seconds(time)
        self._hooks.push_acknowledged(Delivery(built, written, lag, self._seconds, creates))

    async def trim_memory(self, built: BuiltCommits) -> None:
        """Return free memory to the system after a large push."""
        if built.files > _MANY_FILES:
            await asyncio.to_thread(memory.trim)
