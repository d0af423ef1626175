"""The label that leads admission calls to the leader: two replicas that stop, die and pause."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fault.candidate import Candidate, operator_kubeconfig
from tests.support.cluster import api_client
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import ApiUser
from windlass.api.install import webhook
from windlass.api.install.installation import Installation
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

INSTALLATION = Installation()
PROVABLE = "windlass_mirror_authors_provable"

Candidates = Callable[..., Candidate]


class Pods:
    """Pods of the release that run nowhere, with addresses, and the Service of the leader."""

    def __init__(self, cluster: LocalCluster) -> None:
        operator_kubeconfig(cluster)
        self.admin = ApiUser(cluster, api_client.ADMIN, INSTALLATION.namespace)
        self._names: list[str] = []
        self.admin.apply(webhook.leader_service(INSTALLATION.release, INSTALLATION.namespace))

    def create(self, **labels: str) -> str:
        name = f"windlass-{uuid.uuid4().hex[:8]}"
        self.create_named(name, **labels)
        return name

    def create_named(self, name: str, **labels: str) -> None:
        self._names.append(name)
        metadata = {"name": name, "labels": INSTALLATION.labels | labels}
        spec = {"containers": [{"name": "windlass", "image": "windlass"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        path = self.admin.path("pod")
        eventually(lambda: self.admin.request("POST", path, pod).ok, "a pod can be created")
        address = f"10.7.0.{len(self._names)}"
        status = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}
        self.admin.merge("pod", name, {"status": status}, "status")

    def get(self, name: str) -> dict[str, Any]:
        return self.admin.get("pod", name)

    def label(self, name: str, role: str | None) -> None:
        self.admin.merge("pod", name, {"metadata": {"labels": {"role": role}}})

    def labeled(self) -> set[str]:
        pods = (self.get(name)["metadata"] for name in self._names)
        return {pod["name"] for pod in pods if pod["labels"].get("role") == "leader"}

    def behind_service(self) -> set[str]:
        """The pods that the Service sends calls to."""
        return {
            endpoint["targetRef"]["name"]
            for slice_ in self.admin.list("endpointslice")
            if slice_["metadata"]["name"].startswith(f"{INSTALLATION.leader_service}-")
            for endpoint in slice_["endpoints"] or ()
            if endpoint["conditions"]["ready"]
        }

    def delete(self) -> None:
        for name in self._names:
            path = self.admin.path("pod", name)
            assert self.admin.request("DELETE", path, gracePeriodSeconds="0").ok
        self.admin.delete("service", INSTALLATION.leader_service)


@pytest.fixture
def pods(fault_cluster: LocalCluster, candidates: Candidates) -> Iterator[Pods]:
    """Pods to label; the operators of a test end after them, so they are deleted last."""
    del candidates
    found = Pods(fault_cluster)
    yield found
    found.delete()


def _await_leader(pods: Pods, pod: str, seconds: float = 60.0) -> None:
    eventually(
        lambda: pods.labeled() == {pod} == pods.behind_service(),
        "the leader's pod alone has the label and is behind the Service",
        seconds=seconds,
    )


def _start_two(pods: Pods, candidates: Candidates) -> tuple[Candidate, str, Candidate, str]:
    """A leader and a standby, each with its pod."""
    first, second = pods.create(), pods.create()
    leader = candidates(f"--pod-name={first}")
    leader.start()
    _await_leader(pods, first)
    standby = candidates(f"--pod-name={second}")
    standby.start()
    assert pods.labeled() == {first}
    return leader, first, standby, second


@pytest.mark.scenario("A64")
@pytest.mark.parametrize("end", [Candidate.stop, Candidate.kill], ids=["SIGTERM", "SIGKILL"])
def test_after_the_end_of_the_leader_only_the_next_one_is_behind_the_service(
    end: Callable[[Candidate], None], pods: Pods, candidates: Candidates
) -> None:
    """No pod but that of the new leader has the label, also when the old one left its own."""
    leader, _, _, second = _start_two(pods, candidates)
    end(leader)
    _await_leader(pods, second)


def test_a_paused_leader_does_not_label_itself_again(pods: Pods, candidates: Candidates) -> None:
    """The next leader takes its label away; back without the lease it writes nothing to a pod."""
    leader, first, _, second = _start_two(pods, candidates)
    leader.signal(signal.SIGSTOP)
    _await_leader(pods, second)
    before = pods.get(first)["metadata"]["resourceVersion"]
    leader.signal(signal.SIGCONT)
    eventually(lambda: "no longer leading" in leader.log.read_text(), "resignation", seconds=30.0)
    # It waited once at its start, and does again when its work has ended.
    waits = "waiting for the lease"
    eventually(lambda: leader.log.read_text().count(waits) >= 2, "the end of its work")
    assert pods.labeled() == {second}
    assert pods.get(first)["metadata"]["resourceVersion"] == before


def test_an_orderly_stop_removes_the_label(pods: Pods, candidates: Candidates) -> None:
    """A stopped operator leaves no pod behind the Service, although nobody follows it."""
    pod = pods.create()
    leader = candidates(f"--pod-name={pod}")
    leader.start()
    _await_leader(pods, pod)
    leader.stop()
    assert pods.labeled() == set()


def test_without_a_pod_name_no_pod_is_patched(pods: Pods, candidates: Candidates) -> None:
    """An operator outside of the cluster proves authors and leaves labels as they are."""
    names = [pods.create(role="leader"), pods.create()]
    before = [pods.get(name)["metadata"]["resourceVersion"] for name in names]
    leader = candidates()
    leader.start()
    leader.await_provable()
    leader.stop()
    assert [pods.get(name)["metadata"]["resourceVersion"] for name in names] == before


def test_a_label_that_somebody_moves_is_moved_back(pods: Pods, candidates: Candidates) -> None:
    """Calls that reached the other pod left no record, so authors are not provable for a while."""
    pod, other = pods.create(), pods.create()
    leader = candidates(f"--pod-name={pod}")
    leader.start()
    leader.await_provable()
    pods.label(other, "leader")
    pods.label(pod, None)
    # It begins before the label is back, and ends a few seconds after.
    eventually(lambda: leader.metric(PROVABLE) == 0.0, "a record gap")
    _await_leader(pods, pod)
    leader.await_provable()


def test_authors_are_proven_only_once_the_pod_is_labeled(
    pods: Pods, candidates: Candidates
) -> None:
    """Without its pod the operator says what to check, and starts to prove authors with it."""
    name = f"windlass-{uuid.uuid4().hex[:8]}"
    leader = candidates(f"--pod-name={name}")
    leader.start()
    # Retried every two seconds: long enough for authors to become provable without the label.
    eventually(lambda: leader.log.read_text().count("PodNotFound") > 3, "the missing pod")
    assert "check --pod-name" in leader.log.read_text()
    assert leader.metric(PROVABLE) == 0.0
    pods.create_named(name)
    _await_leader(pods, name)
    leader.await_provable()
