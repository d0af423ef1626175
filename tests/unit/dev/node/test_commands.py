"""Command lines of a cluster with a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass_dev.cluster import components
from windlass_dev.cluster.cluster_state import ClusterState, NodeState
from windlass_dev.node.allocation import Slot

DIRECTORY = Path("/state/windlass/dev/x")
STATE = ClusterState(
    "x",
    components.NODE_PORTS,
    {name: f"/bin/{name}" for name in components.all_components()},
    node=NodeState(5, "/bin", "/cni"),
)


def _flags(component: str) -> dict[str, str]:
    command = components.command_line(component, STATE, DIRECTORY)
    assert command[0] == f"/bin/{component}"
    pairs = [argument.removeprefix("--").partition("=") for argument in command[1:]]
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize("component", components.all_components())
def test_every_command_line_names_the_directory(component: str) -> None:
    """An unrecorded process is recognized by it."""
    assert any(f"{DIRECTORY}/" in value for value in _flags(component).values())


def test_api_server_is_reached_from_machine_and_pods() -> None:
    """It binds and advertises the node's address; its certificate names it."""
    slot, flags = Slot(5), _flags(components.API_SERVER)
    assert flags["bind-address"] == flags["advertise-address"] == slot.node_address
    assert flags["service-cluster-ip-range"] == str(slot.services)
    assert flags["endpoint-reconciler-type"] == "lease"
    assert components.server_url(STATE) == f"https://{slot.node_address}:6443"
    assert components.server_addresses(STATE) == (slot.node_address, slot.service_address)
    assert components.host_address(STATE) == slot.host_address


def test_etcd_is_for_the_cluster_alone() -> None:
    """Pods must not reach a server without authentication."""
    flags = _flags(components.ETCD)
    assert flags["listen-client-urls"] == "http://127.0.0.1:2379"
    assert flags["listen-peer-urls"] == "http://127.0.0.1:2380"


def test_proxy_leaves_the_machines_settings_alone() -> None:
    """Flags keep it from changing settings outside of its namespace."""
    flags = _flags(components.PROXY)
    assert flags["conntrack-max-per-core"] == "0"
    assert flags["oom-score-adj"] == "0"
    assert flags["cluster-cidr"] == str(Slot(5).pods)


def test_every_component_has_its_own_identity() -> None:
    """None is administrator; the kubelet is this node and no other."""
    by_component = components.identities(STATE)
    assert by_component["kubelet"] == ("system:node:x", ("system:nodes",))
    assert _flags(components.KUBELET)["hostname-override"] == "x"
    assert "system:masters" not in str(by_component)
    for component, file in (
        (components.SCHEDULER, "scheduler"),
        (components.KUBELET, "kubelet"),
        (components.PROXY, "proxy"),
        (components.CONTROLLER_MANAGER, "controller-manager"),
    ):
        assert file in by_component
        assert _flags(component)["kubeconfig"] == f"{DIRECTORY}/{file}.kubeconfig"


def test_components_start_after_their_dependencies() -> None:
    """First etcd, then the API server; both, and containerd, before the kubelet."""
    order = components.cluster_components(STATE)
    assert set(order) == set(components.all_components())
    assert order.index(components.ETCD) < order.index(components.API_SERVER)
    later = components.start_waves(STATE)[-1]
    assert {components.KUBELET, components.PROXY, components.SCHEDULER} <= set(later)
    assert not {components.API_SERVER, components.CONTAINERD} & set(later)


def test_without_a_node_nothing_changes() -> None:
    """A plain cluster starts its three components one after the other, on loopback."""
    plain = ClusterState("x", {"kube-apiserver": 7}, {})
    assert components.start_waves(plain) == tuple((one,) for one in components.START_ORDER)
    assert (components.host_address(plain), components.server_addresses(plain)) == ("127.0.0.1", ())
    assert components.server_url(plain) == "https://127.0.0.1:7"
    assert set(components.identities(plain)) == {"controller-manager"}
