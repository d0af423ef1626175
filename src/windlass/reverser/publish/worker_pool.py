"""All branch workers of this process, one per (remote identity, branch).

The mirror assigns destinations to it; a worker starts with its first destination and ends with
its last. A semaphore bounds how many workers of one repository write at once; in all, the slots of
the Git service do.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextvars import Context
from pathlib import Path

import structlog

from windlass.base.clock import Clock
from windlass.objects.names import Key
from windlass.reverser.publish import cadence
from windlass.reverser.publish.branch_worker import BranchWorker
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.publisher import ControllerIdentity, Judge, Publisher
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.writer_group import WriterGroup
from windlass.sources.git_service import GitService

_log = structlog.get_logger(__name__)

BranchKey = tuple[str, str]
"""Identity of the remote, and name of the branch."""


class WorkerPool:
    """Branch workers and the destinations assigned to them."""

    def __init__(
        self,
        *,
        work_directory: Path,
        git: GitService,
        controller_identity: ControllerIdentity,
        judge: Judge,
        limits: cadence.WindowLimits,
        hooks: WorkerHooks,
        clock: Clock,
        max_workers_per_repository: int,
        pending_max_bytes: int,
    ) -> None:
        self._work_directory = work_directory
        self._git = git
        self._controller_identity = controller_identity
        self._judge = judge
        self._limits = limits
        self._hooks = hooks
        self._clock = clock
        self._max_workers_per_repository = max_workers_per_repository
        # By identity of the remote; kept after its last worker, there are few.
        self._repository_gates: dict[str, asyncio.Semaphore] = {}
        self._pending_max_bytes = pending_max_bytes
        # A worker and the task that runs it always come and go together.
        self._workers: dict[BranchKey, BranchWorker] = {}
        self._tasks: dict[BranchKey, asyncio.Task[None]] = {}
        # Every task that has not ended; asyncio holds tasks only weakly.
        self._running: set[asyncio.Task[None]] = set()
        # The branch of each destination; every value is a key of `_workers`.
        self._assigned: dict[Key, BranchKey] = {}

    def __iter__(self) -> Iterator[BranchWorker]:
        return iter(list(self._workers.values()))

    def assign(self, target: WriteTarget) -> bool:
        """Write for `target` from now on; False if an equal target is assigned already."""
        branch_key = (target.remote.identity, target.branch)
        current = self.find(target.key)
        if current is not None and self._assigned[target.key] == branch_key:
            _, folder = current
            if folder.target == target:
                return False
        self.remove(target.key)
        worker = self._workers.get(branch_key) or self._start_worker(branch_key, target)
        worker.attach(target)
        self._assigned[target.key] = branch_key
        return True

    def remove(self, key: Key) -> None:
        """Stop writing for a destination and end a worker without any; its files stay."""
        branch_key = self._assigned.pop(key, None)
        if branch_key is None:
            return
        worker = self._workers[branch_key]
        worker.detach(key)
        if not worker.groups:
            self._tasks.pop(branch_key).cancel()
            del self._workers[branch_key]

    def find(self, key: Key) -> tuple[WriterGroup, Folder] | None:
        """The folder of a destination with its writer group; None if it is not assigned."""
        worker = self.worker(key)
        return worker.find(key) if worker is not None else None

    def open_folder(self, key: Key) -> tuple[BranchWorker, Folder] | None:
        """The open folder of a destination with its worker; None unless it may be written to."""
        worker = self.worker(key)
        attached = worker.find(key) if worker is not None else None
        if worker is None or attached is None or not attached[1].is_open:
            return None
        return worker, attached[1]

    def is_crowded(self, key: Key) -> bool:
        """Whether a snapshot should pause for a destination; one that fails is not waited for."""
        attached = self.find(key)
        return attached is not None and attached[0].error is None and attached[1].is_crowded

    def worker(self, key: Key) -> BranchWorker | None:
        """The worker of a destination; None if it is not assigned."""
        branch_key = self._assigned.get(key)
        return self._workers[branch_key] if branch_key is not None else None

    def _start_worker(self, branch_key: BranchKey, target: WriteTarget) -> BranchWorker:
        identity, name = branch_key
        # A remote identity is no safe directory name, so the work directory is a digest.
        label = hashlib.sha256(f"{identity}\0{name}".encode()).hexdigest()[:32]
        branch = RemoteBranch(name, self._work_directory / label, self._git)
        worker = BranchWorker(
            branch,
            Publisher(branch, self._controller_identity, self._judge, self._clock, self._limits),
            self._git.git,
            self._limits,
            self._hooks,
            self._clock,
            self._repository_gate(identity),
            self._pending_max_bytes,
        )
        self._workers[branch_key] = worker
        # A worker serves many destinations: it must not log with the context of one reconcile.
        task = asyncio.create_task(
            worker.run(), name=f"worker {target.remote.display} {name}", context=Context()
        )
        self._tasks[branch_key] = task
        self._running.add(task)
        task.add_done_callback(self._worker_ended)
        return worker

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("worker crashed", worker=task.get_name(), exc_info=task.exception())

    def _repository_gate(self, identity: str) -> asyncio.Semaphore:
        if identity not in self._repository_gates:
            self._repository_gates[identity] = asyncio.Semaphore(self._max_workers_per_repository)
        return self._repository_gates[identity]

    async def drain(self) -> None:
        """Stop every loop, then push what is pending in all workers."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.gather(*(worker.drain() for worker in self))
