"""NetworkPolicies on a node: connections that pods try, and which succeed."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.support.cluster import control_plane as support
from tests.support.cluster import dev_command as commands
from tests.support.cluster import node as nodes
from tests.support.cluster import pod_network
from tests.support.cluster.pod_network import PodNetwork
from tests.support.processes.operator import eventually
from windlass_dev.cluster import cluster as control_plane
from windlass_dev.cluster import cluster_state, components, status
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node.allocation import Slot

pytestmark = [pytest.mark.cluster, pytest.mark.node]

HTTP, METRICS, DNS = 8080, 9090, 53
ALL_PODS: dict[str, Any] = {"podSelector": {}}


@dataclass(frozen=True)
class PolicyCluster:
    """Three pods in one namespace, an outsider in another, a listener on the machine."""

    local: LocalCluster
    here: str
    there: str
    web: PodNetwork
    client: PodNetwork
    dns: PodNetwork
    outsider: PodNetwork
    machine_port: int

    @property
    def slot(self) -> Slot:
        now = cluster_state.load_state(self.local.directory)
        assert now is not None
        assert now.node is not None
        return Slot(now.node.slot)

    def policy(self, name: str, **spec: Any) -> None:
        """Create a policy in the namespace of the three."""
        types = [way for way in ("Ingress", "Egress") if way.lower() in spec]
        body = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": {"podSelector": {}, "policyTypes": types, **spec},
        }
        created = self.local.api.request(self._path(), method="POST", body=body)
        assert created.ok, created

    def remove(self, name: str = "") -> None:
        """Delete a policy, or all of them."""
        self.local.api.request(f"{self._path()}/{name}".rstrip("/"), method="DELETE")

    def _path(self) -> str:
        return f"/apis/networking.k8s.io/v1/namespaces/{self.here}/networkpolicies"


@pytest.fixture(scope="module")
def built(node_cluster: LocalCluster) -> Iterator[PolicyCluster]:
    """The pods, created once."""
    local = node_cluster
    with contextlib.ExitStack() as stack:
        here, there = (
            stack.enter_context(support.fresh_namespace(local, pods=True)) for _ in range(2)
        )
        for place in (here, there):
            account = f"/api/v1/namespaces/{place}/serviceaccounts/default"
            eventually(partial(_exists, local, account), "the default account")
        port = {"name": "http", "containerPort": HTTP}
        web = pod_network.run_pod(local, here, "web", labels={"app": "web"}, ports=[port])
        dns = pod_network.run_pod(local, here, "dns", labels={"k8s-app": "kube-dns"})
        client = pod_network.run_pod(local, here, "client", labels={"app": "client"})
        outsider = pod_network.run_pod(local, there, "stranger")
        stack.enter_context(web.listening(HTTP, METRICS))
        stack.enter_context(dns.echoing(DNS))
        stack.enter_context(outsider.listening(HTTP))
        machine = stack.enter_context(socket.create_server((local.host, 0)))
        yield PolicyCluster(
            local, here, there, web, client, dns, outsider, int(machine.getsockname()[1])
        )


@pytest.fixture
def policy_pods(built: PolicyCluster) -> Iterator[PolicyCluster]:
    """The pods without any policy, when every connection is allowed."""
    for port in (HTTP, METRICS):
        eventually(
            partial(built.outsider.reaches, built.web.address, port), "connections without policies"
        )
    eventually(lambda: built.client.reaches(built.outsider.address, HTTP), "a way out")
    yield built
    built.remove()


def _exists(local: LocalCluster, path: str) -> bool:
    return local.api.request(path).ok


def _soon(reaches: Callable[[], bool]) -> None:
    eventually(reaches, "a way")


def _soon_not(reaches: Callable[[], bool]) -> None:
    """A way is closed; one lost packet looks alike, and what follows would come too early."""
    eventually(lambda: not any(reaches() for _ in range(2)), "the policy in force")


def test_a_denial_of_everything_and_its_end(policy_pods: PolicyCluster) -> None:
    """No ingress, no egress, not to the node nor to the machine; then all of it again."""
    policy_pods.policy("deny", ingress=[], egress=[])
    _soon_not(lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP))
    assert not policy_pods.client.reaches(policy_pods.web.address, HTTP)
    assert not policy_pods.client.reaches(policy_pods.outsider.address, HTTP)
    assert not policy_pods.client.reaches(policy_pods.local.host, policy_pods.machine_port)
    assert not policy_pods.client.reaches(policy_pods.slot.node_address, 6443)
    assert not policy_pods.client.reaches(policy_pods.slot.service_address, 443)
    # What comes from the node arrives, as a probe would.
    assert (
        nodes.exec_in_pod(policy_pods.local, policy_pods.here, "client", "echo alive") == "alive\n"
    )
    policy_pods.remove("deny")
    eventually(
        lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP), "the end of the policy"
    )
    _soon(lambda: policy_pods.client.reaches(policy_pods.local.host, policy_pods.machine_port))
    _soon(lambda: policy_pods.client.reaches(policy_pods.slot.service_address, 443))


def test_the_machine_is_outside(policy_pods: PolicyCluster) -> None:
    """It is not a node: a pod without ingress is closed to it too."""

    def reached() -> bool:
        try:
            with socket.create_connection((policy_pods.web.address, HTTP), timeout=0.6):
                return True
        except TimeoutError:
            return False

    _soon(reached)
    policy_pods.policy("deny", ingress=[])
    _soon_not(reached)


def test_only_the_same_namespace(policy_pods: PolicyCluster) -> None:
    """Pods of the namespace are allowed, others are not."""
    policy_pods.policy("near", ingress=[{"from": [ALL_PODS]}])
    _soon_not(lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP))
    _soon(lambda: policy_pods.client.reaches(policy_pods.web.address, HTTP))


def test_a_port_by_its_name(policy_pods: PolicyCluster) -> None:
    """Only the port that the pod has under that name is open."""
    _soon(lambda: policy_pods.outsider.reaches(policy_pods.web.address, METRICS))
    policy_pods.policy("named", ingress=[{"ports": [{"port": "http"}]}])
    _soon_not(lambda: policy_pods.outsider.reaches(policy_pods.web.address, METRICS))
    _soon(lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP))


def test_a_block_and_its_exception(policy_pods: PolicyCluster) -> None:
    """Everything but the machine."""
    block = {"cidr": "0.0.0.0/0", "except": [f"{policy_pods.local.host}/32"]}
    policy_pods.policy("block", egress=[{"to": [{"ipBlock": block}]}])
    _soon_not(lambda: policy_pods.client.reaches(policy_pods.local.host, policy_pods.machine_port))
    _soon(lambda: policy_pods.client.reaches(policy_pods.outsider.address, HTTP))
    _soon(lambda: policy_pods.client.reaches(policy_pods.slot.node_address, 6443))


def test_only_dns_is_allowed(policy_pods: PolicyCluster) -> None:
    """By the address of a service: the packet filter sees the pod behind it."""
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "dns"},
        "spec": {
            "selector": {"k8s-app": "kube-dns"},
            "ports": [{"port": DNS, "protocol": "UDP"}],
        },
    }
    path = f"/api/v1/namespaces/{policy_pods.here}/services"
    service = json.loads(policy_pods.local.api.request(path, method="POST", body=body).text)
    address = service["spec"]["clusterIP"]
    server = {"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    ports = [{"port": DNS, "protocol": "UDP"}, {"port": DNS, "protocol": "TCP"}]
    policy_pods.policy("dns", egress=[{"to": [server], "ports": ports}])
    _soon_not(lambda: policy_pods.client.reaches(policy_pods.web.address, HTTP))
    eventually(lambda: policy_pods.client.reaches(address, DNS, "UDP"), "an answer by the service")
    _soon(lambda: policy_pods.client.reaches(policy_pods.dns.address, DNS, "UDP"))


def test_both_ends_have_to_agree(policy_pods: PolicyCluster) -> None:
    """Egress is allowed, but ingress is not; then it is."""
    policy_pods.policy(
        "out", podSelector={"matchLabels": {"app": "client"}}, egress=[{"to": [ALL_PODS]}]
    )
    _soon_not(lambda: policy_pods.client.reaches(policy_pods.outsider.address, HTTP))
    _soon(lambda: policy_pods.client.reaches(policy_pods.web.address, HTTP))
    policy_pods.policy("in", podSelector={"matchLabels": {"app": "web"}}, ingress=[])
    _soon_not(lambda: policy_pods.client.reaches(policy_pods.web.address, HTTP))
    door = {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}
    policy_pods.policy("door", podSelector={"matchLabels": {"app": "web"}}, ingress=[door])
    eventually(lambda: policy_pods.client.reaches(policy_pods.web.address, HTTP), "the door")
    assert not policy_pods.outsider.reaches(policy_pods.web.address, HTTP)


def test_a_namespace_that_gets_the_label_is_allowed(policy_pods: PolicyCluster) -> None:
    """Changes of pods and namespaces count like changes of policies."""
    chosen = {"namespaceSelector": {"matchLabels": {"friend": "yes"}}}
    policy_pods.policy("friends", ingress=[{"from": [chosen]}])
    _soon_not(lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP))
    _label(policy_pods, friend="yes")
    eventually(
        lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP), "the friend let in"
    )
    _label(policy_pods)


def _label(policy_pods: PolicyCluster, **labels: str) -> None:
    """Give the outsider's namespace these labels beside the default ones."""
    path = f"/api/v1/namespaces/{policy_pods.there}"
    found = json.loads(policy_pods.local.api.request(path).text)
    found["metadata"]["labels"] = {"kubernetes.io/metadata.name": policy_pods.there, **labels}
    done = policy_pods.local.api.request(path, method="PUT", body=found)
    assert done.ok, done


def test_a_new_pod_is_isolated_from_its_first_packet(policy_pods: PolicyCluster) -> None:
    """Its policies hold at every moment that it runs."""
    policy_pods.policy("deny", egress=[])
    _soon_not(lambda: policy_pods.client.reaches(policy_pods.outsider.address, HTTP))
    tries = f"nc -w 1 {policy_pods.outsider.address} {HTTP} -e true && echo open || echo shut"
    pod_network.run_pod(
        policy_pods.local, policy_pods.here, "newborn", script=f"{tries}; sleep 3600"
    )
    log = f"/api/v1/namespaces/{policy_pods.here}/pods/newborn/log"

    def found() -> set[str]:
        return {"open", "shut"}.intersection(policy_pods.local.api.request(log).text.split())

    assert eventually(found, "what it found") == {"shut"}


def test_up_restarts_the_enforcer_and_its_chains_stay(policy_pods: PolicyCluster) -> None:
    """Chains hold while it is dead; restarted it applies the changes since."""
    policy_pods.policy("deny", ingress=[])
    _soon_not(lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP))
    before = _pids(policy_pods.local)
    commands.kill(before[components.POLICIES])
    seen = status.cluster_status(policy_pods.local.name)
    assert seen is not None
    assert not seen.ready
    assert not policy_pods.outsider.reaches(policy_pods.web.address, HTTP)
    policy_pods.policy("door", ingress=[{"ports": [{"port": HTTP}]}])
    assert control_plane.up(policy_pods.local.name) == policy_pods.local
    after = _pids(policy_pods.local)
    assert {name for name in before if before[name] != after[name]} == {components.POLICIES}
    _soon(lambda: policy_pods.outsider.reaches(policy_pods.web.address, HTTP))
    assert not policy_pods.outsider.reaches(policy_pods.web.address, METRICS)


def _pids(local: LocalCluster) -> dict[str, int]:
    now = cluster_state.load_state(local.directory)
    assert now is not None
    return {component: process.pid for component, process in now.processes.items()}
