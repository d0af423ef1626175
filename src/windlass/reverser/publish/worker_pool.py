"""All branch workers of this process, one per (remote identity, branch).

Semaphores bound how many workers write at once, in all and per repository.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.base.clock import Clock
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git
from windlass.objects.names import Key
from windlass.reverser.publish import cadence
from windlass.reverser.publish.branch_worker import BranchWorker
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.publisher import ControllerIdentity, Judge, Publisher
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.writer_group import WriterGroup

BranchKey = tuple[str, str]


class WorkerPool:
    """Who writes where; a worker lives as long as a destination needs it."""

    def __init__(
        self,
        *,
        work_directory: Path,
        git: Git,
        listings: RefListings,
        signature: ControllerIdentity,
        judge: Judge,
        limits: cadence.WindowLimits,
        around: WorkerHooks,
        clock: Clock,
        at_once: int,
        per_repository: int,
        pending_max_bytes: int,
        spawn: Callable[[BranchWorker, str], asyncio.Task[None]],
    ) -> None:
        self._work_directory = work_directory
        self._git = git
        self._listings = listings
        self._signature = signature
        self._judge = judge
        self._limits = limits
        self._hooks = around
        self._clock = clock
        self._gate = asyncio.Semaphore(at_once)
        self._per_repository = per_repository
        self._repository_gates: dict[str, asyncio.Semaphore] = {}
        self._pending_max_bytes = pending_max_bytes
        self._spawn = spawn
        self._workers: dict[BranchKey, BranchWorker] = {}
        self._tasks: dict[BranchKey, asyncio.Task[None]] = {}
        self._assigned: dict[Key, BranchKey] = {}

    def __iter__(self) -> Iterator[BranchWorker]:
        return iter(list(self._workers.values()))

    def assign(self, target: WriteTarget) -> bool:
        """Write for `target` from now on; False if that is what happens already."""
        place = (target.remote.identity, target.branch)
        found = self.find(target.key)
        if found is not None and self._assigned[target.key] == place:
            _, folder = found
            if folder.target == target:
                return False
        self.remove(target.key)
        worker = self._workers.get(place) or self._start_worker(place, target)
        worker.attach(target)
        self._assigned[target.key] = place
        return True

    def remove(self, key: Key) -> None:
        """Write no more for this destination; its files stay."""
        place = self._assigned.pop(key, None)
        if place is None:
            return
        worker = self._workers[place]
        worker.detach(key)
        if not worker.groups:
            self._tasks.pop(place).cancel()
            del self._workers[place]

    def find(self, key: Key) -> tuple[WriterGroup, Folder] | None:
        worker = self.worker(key)
        return worker.find(key) if worker is not None else None

    def worker(self, key: Key) -> BranchWorker | None:
        place = self._assigned.get(key)
        return self._workers[place] if place is not None else None

    def _start_worker(self, place: BranchKey, target: WriteTarget) -> BranchWorker:
        identity, name = place
        label = hashlib.sha256(f"{identity}\0{name}".encode()).hexdigest()[:32]
        branch = RemoteBranch(name, self._work_directory / label, self._git, self._listings)
        worker = BranchWorker(
            branch,
            Publisher(branch, self._signature, self._judge, self._clock, self._limits),
            self._git,
            self._limits,
            self._hooks,
            self._clock,
            (self._repository_gate(identity), self._gate),
            self._pending_max_bytes,
        )
        self._workers[place] = worker
        self._tasks[place] = self._spawn(worker, f"worker {target.remote.display} {name}")
        return worker

    def _repository_gate(self, identity: str) -> asyncio.Semaphore:
        if identity not in self._repository_gates:
            self._repository_gates[identity] = asyncio.Semaphore(self._per_repository)
        return self._repository_gates[identity]

    async def drain(self) -> None:
        """Write what waits, everywhere, then stop."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.gather(*(worker.drain() for worker in self))
