"""One branch worker on a real repository, driven step by step."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry

from tests.support.git.http_server import RunningGitServer, git, git_settings
from tests.support.processes.polling import eventually
from windlass.base.clock import SystemClock
from windlass.git.format import objects
from windlass.git.format.objects import Person
from windlass.kube.api import Api
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution.author import Actor
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.content import file_paths
from windlass.reverser.event_queue import EventQueue
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish import cadence
from windlass.reverser.publish.branch_worker import BranchWorker
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import Folder, WriteTarget
from windlass.reverser.publish.publisher import ControllerIdentity, Delivery, Publisher
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.writer_group import WriterGroup
from windlass.reverser.selection.rule_coverage import RuleCoverage
from windlass.reverser.selection.rules import operation_mask
from windlass.sources.git_service import GitService
from windlass.telemetry.reasons import SkipReason
from windlass.telemetry.reverser import ReverserMetrics

BASE = "clusters/prod"
MAPS = GVR("", "v1", "configmaps")
OURS = "ours-uid"
_ALICE = AuthorVerdict("exact", Actor("alice"))


def config_map_path(name: str) -> str:
    """Where the file of a ConfigMap lies."""
    return file_paths.file_path(BASE, Identity(MAPS, "ns", name))


@dataclass
class WorkerReports:
    """What the worker reported by its hooks."""

    skipped: list[tuple[str, str]] = field(default_factory=list)
    resnapshots: list[Key] = field(default_factory=list)
    changed: list[Key] = field(default_factory=list)
    races: int = 0
    pushed: list[Delivery] = field(default_factory=list)
    coverage: RuleCoverage | None = None

    def hooks(self) -> WorkerHooks:
        return WorkerHooks(
            api=cast("Api", _NothingDeletedApi()),
            metrics=_ReportedMetrics(self),
            event_queue=cast("EventQueue", _DiscardedEvents()),
            may_push=lambda: True,
            destinations=lambda: frozenset({"ns/dest", "evil/older"}),
            await_records=self._await_records,
            is_seeding=lambda _: False,
            current_coverage=self._current_coverage,
            folder_changed=self.changed.append,
            resnapshot=self.resnapshots.append,
            push_acknowledged=self.pushed.append,
        )

    async def _await_records(self, received: float) -> None:
        """The judge of these workers needs none."""

    async def _current_coverage(self, folder: Folder) -> RuleCoverage | None:
        return self.coverage


class _ReportedMetrics(MirrorMetrics):
    """Metrics whose skips and races a test can read."""

    def __init__(self, reports: WorkerReports) -> None:
        super().__init__(ReverserMetrics(CollectorRegistry()))
        self._reports = reports

    def count_skip(self, identity: Identity | None, reason: SkipReason) -> None:
        self._reports.skipped.append((identity.name if identity else "", reason))

    def count_race(self) -> None:
        self._reports.races += 1


class _NothingDeletedApi:
    """An API server that confirms no deletion."""

    async def is_deleted(self, identity: Identity) -> bool:
        return False


class _DiscardedEvents:
    """Events go nowhere."""

    def add(self, *event: object) -> None:
        pass


@dataclass
class WorkerHarness:
    """A worker, its repository on the server, and what it reported."""

    worker: BranchWorker
    branch: RemoteBranch
    repository: Path
    target: WriteTarget
    reports: WorkerReports
    clock: SystemClock

    def attach(self, **changes: object) -> Folder:
        return self.worker.attach(replace(self.target, **changes))  # type: ignore[arg-type]

    @property
    def group(self) -> WriterGroup:
        return self.worker.groups[self.target.repository]

    async def write_group(self) -> None:
        await self.worker._write_group(self.group)

    async def open_folder(self, **changes: object) -> Folder:
        folder = self.attach(**changes)
        await self.write_group()
        return folder

    def add_update(
        self,
        folder: Folder,
        name: str,
        text: str | None = "a: 1\n",
        operations: str = "*",
        *,
        uid: str = "",
        live: bool = True,
    ) -> None:
        """Add an update of a ConfigMap: observed by a watch, or found by a snapshot."""
        content = text.encode() if text is not None else None
        observation = Observation(
            uid=uid or name,
            operation="UPDATE",
            previous_resource_version="1",
            identity=Identity(MAPS, "ns", name),
            content=content,
            received=self.clock.monotonic(),
        )
        self.worker.add_update(
            folder,
            FileUpdate(
                identity=Identity(MAPS, "ns", name),
                kind="ConfigMap",
                path=config_map_path(name),
                blob=objects.blob_id(content) if content is not None else None,
                content=content,
                mask=operation_mask((operations,)),
                observation=observation if live else None,
                received=datetime.now(UTC),
                size=len(content or b""),
            ),
        )

    def subjects(self) -> list[str]:
        return git(self.repository, "log", "--format=%s", "main").splitlines()

    async def wait_until_due(self) -> None:
        """Wait until the window of some folder closed."""

        async def is_due() -> bool:
            return self.worker._is_due(self.group)

        await eventually(is_due, "the window closed")


@contextlib.asynccontextmanager
async def running_worker(
    git_host: RunningGitServer, tmp_path: Path
) -> AsyncIterator[WorkerHarness]:
    """A branch worker on a branch with one foreign file."""
    name = f"worker-{tmp_path.name}.git"
    repository = git_host.create(name, {"README.md": "hello\n"})
    clock = SystemClock()
    service = GitService(git_settings(tmp_path), clock=clock)
    branch = RemoteBranch("main", tmp_path / "store", service)
    reports = WorkerReports()
    signature = ControllerIdentity(OURS, "windlass-system", "windlass", "test")
    worker = BranchWorker(
        branch,
        Publisher(branch, signature, lambda _: _ALICE, clock, cadence.WindowLimits()),
        service.git,
        cadence.WindowLimits(),
        reports.hooks(),
        clock,
        asyncio.Semaphore(1),
        pending_max_bytes=1 << 20,
    )
    target = WriteTarget(
        key=Key("ns", "dest"),
        uid="u",
        repository=Key("ns", "repo"),
        remote=git_host.remote(name),
        branch="main",
        base_folder=BASE,
        create_branch=False,
        window_seconds=0.001,
        committer=Person("windlass", "noreply@windlass.invalid"),
        credentials=git_host.credentials,
        takeover=None,
        salt=b"",
    )
    yield WorkerHarness(worker, branch, repository, target, reports, clock)
    await service.close()
