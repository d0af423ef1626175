"""A gateway's data directory, a store and a repository behind a real git server."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tests.support.git import http_server
from tests.support.git.http_server import RunningGitServer, commit_files, git_settings
from windlass.base.clock import Clock, SystemClock
from windlass.gateways.agent.inputs import SyncRequest
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.agent.sync import SyncEngine
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.path_rules import STATE_DIRECTORY
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.volume.staging import DiskReserve
from windlass.gateways.wire.routing import ANNOTATION_PREFIX, Routing, hash_routing
from windlass.git.commit_store import CommitStore, RemoteSource
from windlass.git.runner import Git
from windlass.telemetry.gateways import AgentMetrics

CAP = 512 * 1024 * 1024
SERVICE = "services/site"
CORE = "config/resources/core"


def resource_json(*names: str, **attributes: object) -> str:
    """A resource.json that lists `names`."""
    body = {"scope": "G", "version": 1, "files": sorted(names), "attributes": attributes}
    return json.dumps(body, indent=2)


SITE: Mapping[str, str] = {
    f"{SERVICE}/projects/line/project.json": '{"title": "Line", "enabled": true}',
    f"{SERVICE}/projects/line/view/view.json": '{"root": {"x": 1}}',
    f"{SERVICE}/projects/line/view/resource.json": resource_json("view.json"),
    f"{SERVICE}/{CORE}/config-mode.json": '{"title": "core", "enabled": true}',
    f"{SERVICE}/{CORE}/ignition/props/config.json": '{ "systemName": "template" }',
    f"{SERVICE}/{CORE}/ignition/props/resource.json": resource_json(
        "config.json", lastModificationSignature="abc"
    ),
    "README.md": "not for gateways",
}
"""A repository with one service directory."""


def pod(name: str = "site-0", **annotations: str) -> GatewayPod:
    """A pod with our annotations; underscores stand for dashes."""
    all_annotations = {"service_path": SERVICE, **annotations}
    prefixed = {
        ANNOTATION_PREFIX + key.replace("_", "-"): value for key, value in all_annotations.items()
    }
    return GatewayPod(name, "plant", prefixed, {"app.kubernetes.io/name": "site"})


def read_files(data: Path) -> dict[str, bytes]:
    """Every file of a data directory with its content, without our own state."""
    contents = {}
    for directory, folders, names in os.walk(data):
        folder = Path(directory)
        folders[:] = [name for name in folders if name != STATE_DIRECTORY]
        for name in names:
            contents[(folder / name).relative_to(data).as_posix()] = (folder / name).read_bytes()
    return contents


@dataclass
class EngineHarness:
    """A git server, a store and a data directory, with an engine over them."""

    served: RunningGitServer
    repository: Path
    data: Path
    directory: Path
    routing: Routing = field(default_factory=Routing)
    pod: GatewayPod = field(default_factory=pod)

    def __post_init__(self) -> None:
        self.data.mkdir(exist_ok=True)
        self.applier = DataVolume(
            self.data,
            LockOwner("uid-1", "site-0", "node-a"),
            reserve=DiskReserve(share=0.0, minimum=0),
        )
        git = Git(git_settings(self.directory))
        self.store = CommitStore.open(git, self.directory / "store", cap_bytes=CAP)
        self.engine = SyncEngine(self.applier, self.store)

    def commit(self, files: Mapping[str, str | None]) -> str:
        """Push a commit; returns its id."""
        return commit_files(self.repository, files)

    @property
    def tip(self) -> str:
        return http_server.branch_tips(self.repository)["main"]

    def sync_request(self, **changes: object) -> SyncRequest:
        """The request to sync the newest commit."""
        request = SyncRequest(
            source=RemoteSource(self.served.remote("site")),
            commit=self.tip,
            ref="main",
            routing=self.routing,
            routing_hash=hash_routing(self.routing),
            pod=self.pod,
            cr_name="site",
        )
        return replace(request, **changes)  # type: ignore[arg-type]

    async def operations(self, clock: Clock | None = None) -> GatewayOperations:
        """The operations of an agent after its start; scans are not expected."""

        def refuse_scan(_: object) -> Any:
            raise AssertionError("unexpected scan")

        metrics = AgentMetrics(CollectorRegistry())
        operations = GatewayOperations(
            self.applier, self.store, refuse_scan, clock or SystemClock(), metrics
        )
        await operations.start()
        return operations

    @property
    def files(self) -> dict[str, bytes]:
        return read_files(self.data)

    def close(self) -> None:
        self.applier.close()
        self.store.close()


@contextlib.contextmanager
def engine_harness(tmp_path: Path, files: Mapping[str, str] = SITE) -> Iterator[EngineHarness]:
    """A harness with a new repository."""
    with http_server.running_git_server(tmp_path / "srv") as served:
        repository = served.create("site", files)
        site = EngineHarness(served, repository, tmp_path / "data", tmp_path)
        try:
            yield site
        finally:
            site.close()
