"""The writes of the leader label: none without the lease, none on an outdated read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.support.cluster import api_client
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import ApiUser
from windlass.api.install.installation import Installation
from windlass.app import leader_label
from windlass.app.leader_label import LeaderLabel
from windlass.base.clock import SystemClock
from windlass.kube.connection import Connection
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.records import AdmissionRecords
from windlass.reverser.metrics import MirrorMetrics
from windlass.telemetry.reverser import ReverserMetrics
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

POD = "windlass-0"


@dataclass(frozen=True)
class Replica:
    """One pod of a release in the namespace of the test."""

    admin: ApiUser
    installation: Installation

    def create_pod(self) -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD, "labels": self.installation.labels},
            "spec": {"containers": [{"name": "windlass", "image": "windlass"}]},
        }
        path = self.admin.path("pod")
        eventually(lambda: self.admin.request("POST", path, pod).ok, "a pod can be created")

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get("pod", POD)["metadata"]
        return found

    def label(self, role: str | None) -> None:
        self.admin.merge("pod", POD, {"metadata": {"labels": {"role": role}}})

    @contextlib.asynccontextmanager
    async def labeling(self, may_write: Callable[[], bool]) -> AsyncIterator[asyncio.Queue[bool]]:
        """A label component; what it tells the attributor about calls that reach us."""
        told: asyncio.Queue[bool] = asyncio.Queue()
        async with Connection.open(kubeconfig=self.admin.cluster.admin_kubeconfig) as connection:
            label = LeaderLabel(
                connection.with_lease_guard(may_write),
                self.installation,
                POD,
                _listening_attributor(told),
                SystemClock(),
            )
            label.set_serving(True)
            label.set_registered(True)
            running = asyncio.create_task(label.run())
            try:
                yield told
            finally:
                running.cancel()
                await asyncio.wait({running})
            label.set_serving(False)


def _listening_attributor(told: asyncio.Queue[bool]) -> Attributor:
    class Listening(Attributor):
        def set_registered(self, registered: bool) -> None:
            told.put_nowait(registered)

    metrics = MirrorMetrics(ReverserMetrics(CollectorRegistry()))
    return Listening(AdmissionRecords(), metrics, SystemClock())


@pytest.fixture
def replica(cluster: LocalCluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Replica:
    """The pod, not labeled yet."""
    # A busy API server may answer later than a component that ends can wait.
    monkeypatch.setattr(leader_label, "_REMOVE_SECONDS", 60.0)
    found = Replica(
        ApiUser(cluster, api_client.ADMIN, namespace), Installation("windlass", namespace)
    )
    found.create_pod()
    return found


async def _next(told: asyncio.Queue[bool]) -> bool:
    async with asyncio.timeout(20):
        return await told.get()


async def test_the_label_is_set_and_goes_with_the_component(replica: Replica) -> None:
    """Calls count as reaching us only once the API server has accepted the label."""
    async with replica.labeling(lambda: True) as told:
        assert await _next(told)
        assert replica.metadata()["labels"]["role"] == "leader"
    assert "role" not in replica.metadata()["labels"]


async def test_without_the_lease_no_pod_is_labeled_or_unlabeled(replica: Replica) -> None:
    """A leader that was paused writes nothing, neither while it runs nor when it ends."""
    before = replica.metadata()["resourceVersion"]
    async with replica.labeling(lambda: False) as told:
        assert not await _next(told)
    assert replica.metadata()["resourceVersion"] == before
    replica.label("leader")
    async with replica.labeling(lambda: False) as told:
        assert await _next(told)
    assert replica.metadata()["labels"]["role"] == "leader"


async def test_a_label_that_the_next_leader_removed_is_not_restored(replica: Replica) -> None:
    """A pause after the check of the lease: the request arrives, and is refused as outdated."""
    checks: list[str] = []

    def paused_after_the_check() -> bool:
        """The lease is ours at the first check; before the request goes out another one leads."""
        checks.append("lease")
        if len(checks) == 1:
            replica.label("leader")
            replica.label(None)
        return len(checks) == 1

    async with replica.labeling(paused_after_the_check) as told:
        assert not await _next(told)
    assert len(checks) > 1
    assert "role" not in replica.metadata()["labels"]
