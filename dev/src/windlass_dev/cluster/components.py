"""The components of a cluster, with or without a node, and their command lines.

Every command line has the cluster's directory in it; that is what makes a process
recognizable as this cluster's even where no file records it.

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
"""etcd outlives its only client, so the end goes the other way round."""

NODE_COMPONENTS = (CONTAINERD, SCHEDULER, POLICIES, KUBELET, PROXY)

PORTS = (ETCD, "etcd-peer", API_SERVER, CONTROLLER_MANAGER)
NODE_PORTS: Mapping[str, int] = {
    ETCD: 2379,
    "etcd-peer": 2380,
    API_SERVER: 6443,
    CONTROLLER_MANAGER: 10257,
    **commands.PORTS,
}
"""In a network of its own a cluster needs no ports that nobody else has."""

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
    """The components in groups that start together; the next waits for those before."""
    own = {ETCD, API_SERVER, CONTROLLER_MANAGER} if state.node is None else set(all_components())
    own -= {ETCD} if state.foreign_etcd else set()
    found = (tuple(one for one in wave if one in own) for wave in _START_WAVES)
    return tuple(wave for wave in found if wave)


def all_components() -> tuple[str, ...]:
    """Every component that a cluster can have."""
    return (*START_ORDER, *NODE_COMPONENTS)


def node_slot(state: ClusterState) -> Slot | None:
    """The addresses of the node, None if there is none."""
    return Slot(state.node.slot) if state.node else None


def host_address(state: ClusterState) -> str:
    """The machine as the cluster sees it."""
    return Slot(state.node.slot).host_address if state.node else _LOOPBACK


def server_addresses(state: ClusterState) -> tuple[str, ...]:
    """What the servers of the cluster are called by, besides loopback."""
    found = node_slot(state)
    return (found.node_address, found.service_address) if found else ()


def identities(state: ClusterState) -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """Who the components are to the API server: user and groups, by kubeconfig."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {
        "controller-manager": ("system:kube-controller-manager", ()),
    }
    if state.node is not None:
        found |= {
            "scheduler": ("system:kube-scheduler", ()),
            "proxy": ("system:kube-proxy", ()),
            "policies": (commands.POLICIES_USER, ()),
            "kubelet": (f"system:node:{state.name}", ("system:nodes",)),
        }
    return found


def etcd_url(state: ClusterState) -> str:
    """Where the API server's etcd listens."""
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
    found = node_slot(state)
    if component == ETCD:
        return _etcd_flags(state, directory)
    if component == CONTROLLER_MANAGER:
        return _controller_manager_flags(state, directory)
    if component == API_SERVER:
        more = commands.api_server_flags(directory, found) if found else {}
        return {**_api_server_flags(state, directory), **more}
    assert found is not None, f"{component} needs a node"
    return commands.component_flags(component, directory, name=state.name, slot=found)


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
        # Its own throttle of 20 requests a second would double the time until a desk is ready.
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
