"""The components of a control plane and their command lines.

Pure. Every command line names the cluster's directory; that is what makes a process
recognisable as this cluster's even when nobody recorded it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from windlass.dev.state import State

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"

START_ORDER = (ETCD, API_SERVER, CONTROLLER_MANAGER)
"""etcd outlives its only client, so the end goes the other way round."""

PORTS = (ETCD, "etcd-peer", API_SERVER, CONTROLLER_MANAGER)


def of(state: State) -> tuple[str, ...]:
    """The components this cluster runs itself, in the order in which they start."""
    return START_ORDER[1:] if state.foreign_etcd else START_ORDER


def etcd_url(state: State) -> str:
    """Where the API server's etcd listens."""
    return state.foreign_etcd or f"http://127.0.0.1:{state.ports[ETCD]}"


def server(state: State) -> str:
    """The address of the API server."""
    return f"https://127.0.0.1:{state.ports[API_SERVER]}"


def command(component: str, state: State, directory: Path) -> list[str]:
    """The whole command line of `component`."""
    flags = {
        ETCD: _etcd,
        API_SERVER: _api_server,
        CONTROLLER_MANAGER: _controller_manager,
    }[component](state, directory)
    extra = state.extra_api_server_args if component == API_SERVER else ()
    return [
        state.binaries[component],
        *(f"--{name}={value}" for name, value in flags.items()),
        *extra,
    ]


def _etcd(state: State, directory: Path) -> Mapping[str, str]:
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


def _api_server(state: State, directory: Path) -> Mapping[str, str]:
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


def _controller_manager(state: State, directory: Path) -> Mapping[str, str]:
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
