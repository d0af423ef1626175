"""The components of a cluster, with or without a node, and their command lines.

`launch` starts them by `command_line`, `cluster` in the order of `start_waves`. Every
command line contains the cluster's directory; that is what makes a process recognizable
as this cluster's even where no file records it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.node import commands
from windlass_dev.node.allocation import Slot

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
CONTAINERD = commands.CONTAINERD
SCHEDULER = commands.SCHEDULER
KUBELET = commands.KUBELET
PROXY = commands.PROXY
POLICIES = commands.POLICIES

START_ORDER = (ETCD, API_SERVER, CONTROLLER_MANAGER)
"""The order in which they start; they are killed in reverse, so etcd outlives its client."""

NODE_COMPONENTS = (CONTAINERD, SCHEDULER, POLICIES, KUBELET, PROXY)

PORTS = (ETCD, "etcd-peer", API_SERVER, CONTROLLER_MANAGER)
NODE_PORTS: Mapping[str, int] = {
    ETCD: 2379,
    "etcd-peer": 2380,
    API_SERVER: 6443,
    CONTROLLER_MANAGER: 10257,
    **commands.PORTS,
}
"""Ports of a cluster with a node: in a network of its own it can use the usual ones."""

_LOOPBACK = "127.0.0.1"
_START_WAVES = (
    (ETCD,),
    (CONTAINERD, API_SERVER),
    (CONTROLLER_MANAGER, SCHEDULER, POLICIES, KUBELET, PROXY),
)


def cluster_components(state: ClusterState) -> tuple[str, ...]:
    """The components this cluster runs itself, in the order in which they start."""
    return tuple(component for wave in start_waves(state) for component in wave)


def start_waves(state: ClusterState) -> tuple[tuple[str, ...], ...]:
    """The components in waves that start together; each wave waits until the last is ready."""
    names = {ETCD, API_SERVER, CONTROLLER_MANAGER} if state.node is None else set(all_components())
    names -= {ETCD} if state.foreign_etcd else set()
    waves = (tuple(name for name in wave if name in names) for wave in _START_WAVES)
    return tuple(wave for wave in waves if wave)


def all_components() -> tuple[str, ...]:
    """Every component that a cluster can have."""
    return (*START_ORDER, *NODE_COMPONENTS)


def node_slot(state: ClusterState) -> Slot | None:
    """The address block of the node; None without a node."""
    return Slot(state.node.slot) if state.node else None


def host_address(state: ClusterState) -> str:
    """The address of this machine as seen from the cluster."""
    return Slot(state.node.slot).host_address if state.node else _LOOPBACK


def server_addresses(state: ClusterState) -> tuple[str, ...]:
    """The addresses in the serving certificate besides loopback."""
    slot = node_slot(state)
    return (slot.node_address, slot.service_address) if slot else ()


def identities(state: ClusterState) -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """User and groups of the components at the API server, by name of their kubeconfig."""
    users: dict[str, tuple[str, tuple[str, ...]]] = {
        "controller-manager": ("system:kube-controller-manager", ()),
    }
    if state.node is not None:
        users |= {
            "scheduler": ("system:kube-scheduler", ()),
            "proxy": ("system:kube-proxy", ()),
            "policies": (commands.POLICIES_USER, ()),
            "kubelet": (f"system:node:{state.name}", ("system:nodes",)),
        }
    return users


def etcd_url(state: ClusterState) -> str:
    """The URL of the API server's etcd."""
    return state.foreign_etcd or f"http://{_LOOPBACK}:{state.ports[ETCD]}"


def server_url(state: ClusterState) -> str:
    """The address of the API server."""
    address = Slot(state.node.slot).node_address if state.node else _LOOPBACK
    return f"https://{address}:{state.ports[API_SERVER]}"


def command_line(component: str, state: ClusterState, directory: Path) -> list[str]:
    """The whole command line of `component`."""
    flags = _flags(component, state, directory)
    extra = state.extra_api_server_args if component == API_SERVER else ()
    return [
        state.binaries[component],
        *commands.program_arguments(component),
        *(f"--{name}={value}" for name, value in flags.items()),
        *extra,
    ]


def _flags(component: str, state: ClusterState, directory: Path) -> Mapping[str, str]:
    slot = node_slot(state)
    if component == ETCD:
        return _etcd_flags(state, directory)
    if component == CONTROLLER_MANAGER:
        return _controller_manager_flags(state, directory)
    if component == API_SERVER:
        node_flags = commands.api_server_flags(directory, slot) if slot else {}
        return {**_api_server_flags(state, directory), **node_flags}
    assert slot is not None, f"{component} needs a node"
    return commands.component_flags(component, directory, name=state.name, slot=slot)


def _etcd_flags(state: ClusterState, directory: Path) -> Mapping[str, str]:
    url, peer = etcd_url(state), f"http://127.0.0.1:{state.ports['etcd-peer']}"
    return {
        "name": "desk",
        "data-dir": f"{directory}/etcd",
        "unsafe-no-fsync": "true",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"desk={peer}",
        "log-level": "warn",
    }


def _api_server_flags(state: ClusterState, directory: Path) -> Mapping[str, str]:
    pki = f"{directory}/pki"
    return {
        "etcd-servers": etcd_url(state),
        "etcd-prefix": state.etcd_prefix,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": str(state.ports[API_SERVER]),
        "tls-cert-file": f"{pki}/server.crt",
        "tls-private-key-file": f"{pki}/server.key",
        "client-ca-file": f"{pki}/ca.crt",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": f"{pki}/service-account.key",
        "service-account-signing-key-file": f"{pki}/service-account.key",
        "authorization-mode": "Node,RBAC",
        "service-cluster-ip-range": "10.0.0.0/24",
        # A loopback address may not be an endpoint; without this the server complains forever.
        "endpoint-reconciler-type": "none",
    }


def _controller_manager_flags(state: ClusterState, directory: Path) -> Mapping[str, str]:
    pki = f"{directory}/pki"
    return {
        "kubeconfig": f"{directory}/controller-manager.kubeconfig",
        "authentication-skip-lookup": "true",
        # Its default of 20 requests a second would double the time until a cluster is ready.
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "controllers": "*",
        "bind-address": "127.0.0.1",
        "secure-port": str(state.ports[CONTROLLER_MANAGER]),
        "tls-cert-file": f"{pki}/server.crt",
        "tls-private-key-file": f"{pki}/server.key",
        "root-ca-file": f"{pki}/ca.crt",
        "cluster-signing-cert-file": f"{pki}/ca.crt",
        "cluster-signing-key-file": f"{pki}/ca.key",
        "service-account-private-key-file": f"{pki}/service-account.key",
    }
