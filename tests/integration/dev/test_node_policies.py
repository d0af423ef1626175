"""Tests of NetworkPolicies on a node: pods that try, and what reaches whom."""

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
EVERYBODY: dict[str, Any] = {"podSelector": {}}


@dataclass(frozen=True)
class Town:
    """Three pods in one namespace, a stranger in another, a listener on the machine."""

    desk: LocalCluster
    here: str
    there: str
    web: PodNetwork
    client: PodNetwork
    dns: PodNetwork
    stranger: PodNetwork
    machine_port: int

    @property
    def slot(self) -> Slot:
        now = cluster_state.load_state(self.desk.directory)
        assert now is not None
        assert now.node is not None
        return Slot(now.node.slot)

    def policy(self, name: str, **spec: Any) -> None:
        """Make a policy in the namespace of the three."""
        types = [way for way in ("Ingress", "Egress") if way.lower() in spec]
        body = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": {"podSelector": {}, "policyTypes": types, **spec},
        }
        made = self.desk.api.request(self._path(), method="POST", body=body)
        assert made.ok, made

    def remove(self, name: str = "") -> None:
        """Delete a policy, or all of them."""
        self.desk.api.request(f"{self._path()}/{name}".rstrip("/"), method="DELETE")

    def _path(self) -> str:
        return f"/apis/networking.k8s.io/v1/namespaces/{self.here}/networkpolicies"


@pytest.fixture(scope="module")
def built(node_cluster: LocalCluster) -> Iterator[Town]:
    """The town, built once."""
    desk = node_cluster
    with contextlib.ExitStack() as stack:
        here, there = (
            stack.enter_context(support.fresh_namespace(desk, pods=True)) for _ in range(2)
        )
        for place in (here, there):
            account = f"/api/v1/namespaces/{place}/serviceaccounts/default"
            eventually(partial(_is_there, desk, account), "the default account")
        port = {"name": "http", "containerPort": HTTP}
        web = pod_network.run_pod(desk, here, "web", labels={"app": "web"}, ports=[port])
        dns = pod_network.run_pod(desk, here, "dns", labels={"k8s-app": "kube-dns"})
        client = pod_network.run_pod(desk, here, "client", labels={"app": "client"})
        stranger = pod_network.run_pod(desk, there, "stranger")
        stack.enter_context(web.listening(HTTP, METRICS))
        stack.enter_context(dns.echoing(DNS))
        stack.enter_context(stranger.listening(HTTP))
        machine = stack.enter_context(socket.create_server((desk.host, 0)))
        yield Town(desk, here, there, web, client, dns, stranger, int(machine.getsockname()[1]))


@pytest.fixture
def town(built: Town) -> Iterator[Town]:
    """The town without any policy, in which everybody reaches everybody."""
    for port in (HTTP, METRICS):
        eventually(partial(built.stranger.reaches, built.web.address, port), "an open town")
    eventually(lambda: built.client.reaches(built.stranger.address, HTTP), "a way out")
    yield built
    built.remove()


def _is_there(desk: LocalCluster, path: str) -> bool:
    return desk.api.request(path).ok


def _soon(reaches: Callable[[], bool]) -> None:
    eventually(reaches, "a way")


def _soon_not(reaches: Callable[[], bool]) -> None:
    eventually(lambda: not reaches(), "the policy in force")


def test_a_denial_of_everything_and_its_end(town: Town) -> None:
    """Nobody enters, nobody leaves, not to the node nor to the machine; then all of it again."""
    town.policy("deny", ingress=[], egress=[])
    _soon_not(lambda: town.stranger.reaches(town.web.address, HTTP))
    assert not town.client.reaches(town.web.address, HTTP)
    assert not town.client.reaches(town.stranger.address, HTTP)
    assert not town.client.reaches(town.desk.host, town.machine_port)
    assert not town.client.reaches(town.slot.node_address, 6443)
    assert not town.client.reaches(town.slot.service_address, 443)
    # What comes from the node arrives, as a probe would.
    assert nodes.exec_in_pod(town.desk, town.here, "client", "echo alive") == "alive\n"
    town.remove("deny")
    eventually(lambda: town.stranger.reaches(town.web.address, HTTP), "the end of the policy")
    _soon(lambda: town.client.reaches(town.desk.host, town.machine_port))
    _soon(lambda: town.client.reaches(town.slot.service_address, 443))


def test_the_machine_is_outside(town: Town) -> None:
    """It is no node: a pod that may not be entered is shut to it too."""

    def reached() -> bool:
        try:
            with socket.create_connection((town.web.address, HTTP), timeout=0.6):
                return True
        except TimeoutError:
            return False

    _soon(reached)
    town.policy("deny", ingress=[])
    _soon_not(reached)


def test_only_the_same_namespace(town: Town) -> None:
    """Neighbours go on talking, strangers are out."""
    town.policy("near", ingress=[{"from": [EVERYBODY]}])
    _soon_not(lambda: town.stranger.reaches(town.web.address, HTTP))
    _soon(lambda: town.client.reaches(town.web.address, HTTP))


def test_a_port_by_its_name(town: Town) -> None:
    """Open is what the pod calls so, and nothing beside it."""
    _soon(lambda: town.stranger.reaches(town.web.address, METRICS))
    town.policy("named", ingress=[{"ports": [{"port": "http"}]}])
    _soon_not(lambda: town.stranger.reaches(town.web.address, METRICS))
    _soon(lambda: town.stranger.reaches(town.web.address, HTTP))


def test_a_block_and_its_exception(town: Town) -> None:
    """Everything but the machine."""
    block = {"cidr": "0.0.0.0/0", "except": [f"{town.desk.host}/32"]}
    town.policy("block", egress=[{"to": [{"ipBlock": block}]}])
    _soon_not(lambda: town.client.reaches(town.desk.host, town.machine_port))
    _soon(lambda: town.client.reaches(town.stranger.address, HTTP))
    _soon(lambda: town.client.reaches(town.slot.node_address, 6443))


def test_names_may_be_asked_and_nothing_else(town: Town) -> None:
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
    path = f"/api/v1/namespaces/{town.here}/services"
    service = json.loads(town.desk.api.request(path, method="POST", body=body).text)
    address = service["spec"]["clusterIP"]
    server = {"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    ports = [{"port": DNS, "protocol": "UDP"}, {"port": DNS, "protocol": "TCP"}]
    town.policy("dns", egress=[{"to": [server], "ports": ports}])
    _soon_not(lambda: town.client.reaches(town.web.address, HTTP))
    eventually(lambda: town.client.reaches(address, DNS, "UDP"), "an answer by the service")
    _soon(lambda: town.client.reaches(town.dns.address, DNS, "UDP"))


def test_both_ends_have_to_agree(town: Town) -> None:
    """The one may leave, but the other may not be entered; then it may."""
    town.policy("out", podSelector={"matchLabels": {"app": "client"}}, egress=[{"to": [EVERYBODY]}])
    _soon_not(lambda: town.client.reaches(town.stranger.address, HTTP))
    _soon(lambda: town.client.reaches(town.web.address, HTTP))
    town.policy("in", podSelector={"matchLabels": {"app": "web"}}, ingress=[])
    _soon_not(lambda: town.client.reaches(town.web.address, HTTP))
    door = {"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}
    town.policy("door", podSelector={"matchLabels": {"app": "web"}}, ingress=[door])
    eventually(lambda: town.client.reaches(town.web.address, HTTP), "the door")
    assert not town.stranger.reaches(town.web.address, HTTP)


def test_a_namespace_that_gets_the_label_is_let_in(town: Town) -> None:
    """Changes of pods and namespaces count like changes of policies."""
    chosen = {"namespaceSelector": {"matchLabels": {"friend": "yes"}}}
    town.policy("friends", ingress=[{"from": [chosen]}])
    _soon_not(lambda: town.stranger.reaches(town.web.address, HTTP))
    _label(town, friend="yes")
    eventually(lambda: town.stranger.reaches(town.web.address, HTTP), "the friend let in")
    _label(town)


def _label(town: Town, **labels: str) -> None:
    """Give the stranger's namespace these labels beside those that every one has."""
    path = f"/api/v1/namespaces/{town.there}"
    found = json.loads(town.desk.api.request(path).text)
    found["metadata"]["labels"] = {"kubernetes.io/metadata.name": town.there, **labels}
    done = town.desk.api.request(path, method="PUT", body=found)
    assert done.ok, done


def test_a_new_pod_is_fenced_from_its_first_packet(town: Town) -> None:
    """There is no moment in which it runs and its policies do not hold."""
    town.policy("deny", egress=[])
    _soon_not(lambda: town.client.reaches(town.stranger.address, HTTP))
    tries = f"nc -w 1 {town.stranger.address} {HTTP} -e true && echo open || echo shut"
    pod_network.run_pod(town.desk, town.here, "newborn", script=f"{tries}; sleep 3600")
    log = f"/api/v1/namespaces/{town.here}/pods/newborn/log"

    def found() -> set[str]:
        return {"open", "shut"}.intersection(town.desk.api.request(log).text.split())

    assert eventually(found, "what it found") == {"shut"}


def test_up_repairs_it_and_its_chains_outlive_it(town: Town) -> None:
    """Dead it fences on; alive again it knows what was said meanwhile."""
    town.policy("deny", ingress=[])
    _soon_not(lambda: town.stranger.reaches(town.web.address, HTTP))
    before = _pids(town.desk)
    commands.kill(before[components.POLICIES])
    seen = status.cluster_status(town.desk.name)
    assert seen is not None
    assert not seen.ready
    assert not town.stranger.reaches(town.web.address, HTTP)
    town.policy("door", ingress=[{"ports": [{"port": HTTP}]}])
    assert control_plane.up(town.desk.name) == town.desk
    after = _pids(town.desk)
    assert {name for name in before if before[name] != after[name]} == {components.POLICIES}
    _soon(lambda: town.stranger.reaches(town.web.address, HTTP))
    assert not town.stranger.reaches(town.web.address, METRICS)


def _pids(desk: LocalCluster) -> dict[str, int]:
    now = cluster_state.load_state(desk.directory)
    assert now is not None
    return {component: process.pid for component, process in now.processes.items()}
