"""The command lines of a node's components.

Like those of the control plane (`cluster.components`), each contains the cluster's
directory.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from windlass_dev.node import config_files
from windlass_dev.node.allocation import Slot

CONTAINERD = "containerd"
SCHEDULER = "kube-scheduler"
KUBELET = "kubelet"
PROXY = "kube-proxy"
POLICIES = "network-policies"

POLICIES_MODULE = "windlass_dev.netpol"
POLICIES_USER = "windlass:network-policies"

PORTS: Mapping[str, int] = {SCHEDULER: 10259, KUBELET: 10250, PROXY: 10256}


def component_flags(component: str, directory: Path, *, name: str, slot: Slot) -> Mapping[str, str]:
    """The flags of `component` in the cluster `name`."""
    if component == CONTAINERD:
        return {"config": str(config_files.containerd_path(directory))}
    if component == SCHEDULER:
        return _scheduler_flags(directory)
    if component == KUBELET:
        return _kubelet_flags(directory, name, slot)
    if component == POLICIES:
        return _policies_flags(directory, slot)
    return _proxy_flags(directory, name, slot)


def program_arguments(component: str) -> tuple[str, ...]:
    """The arguments between a program and its flags: for our own, the module to run."""
    return ("-m", POLICIES_MODULE) if component == POLICIES else ()


def process_name(component: str) -> str:
    """The program or module name by which a process of `component` is recognized."""
    return POLICIES_MODULE if component == POLICIES else component


def api_server_flags(directory: Path, slot: Slot) -> Mapping[str, str]:
    """The flags of the API server that a node adds or overrides."""
    pki = f"{directory}/pki"
    return {
        "bind-address": slot.node_address,
        "advertise-address": slot.node_address,
        "service-cluster-ip-range": str(slot.services),
        "endpoint-reconciler-type": "lease",
        "kubelet-preferred-address-types": "InternalIP",
        "kubelet-certificate-authority": f"{pki}/ca.crt",
        "kubelet-client-certificate": f"{pki}/admin.crt",
        "kubelet-client-key": f"{pki}/admin.key",
        "allow-privileged": "true",
    }


def _scheduler_flags(directory: Path) -> Mapping[str, str]:
    pki = f"{directory}/pki"
    return {
        "kubeconfig": f"{directory}/scheduler.kubeconfig",
        "authentication-skip-lookup": "true",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": str(PORTS[SCHEDULER]),
        "tls-cert-file": f"{pki}/server.crt",
        "tls-private-key-file": f"{pki}/server.key",
    }


def _kubelet_flags(directory: Path, name: str, slot: Slot) -> Mapping[str, str]:
    return {
        "config": str(config_files.kubelet_path(directory)),
        "kubeconfig": f"{directory}/kubelet.kubeconfig",
        "root-dir": f"{directory}/kubelet",
        "cert-dir": f"{directory}/kubelet/pki",
        "hostname-override": name,
        # Needed by exec, logs and port-forward; the kubelet refuses a loopback address.
        "node-ip": slot.node_address,
    }


def _proxy_flags(directory: Path, name: str, slot: Slot) -> Mapping[str, str]:
    return {
        "kubeconfig": f"{directory}/proxy.kubeconfig",
        "proxy-mode": "iptables",
        "cluster-cidr": str(slot.pods),
        "hostname-override": name,
        "nodeport-addresses": "primary",
        "healthz-bind-address": f"{slot.node_address}:{PORTS[PROXY]}",
        "metrics-bind-address": "127.0.0.1:10249",
        # Other values would change the machine, not the cluster's network namespace.
        "conntrack-max-per-core": "0",
        "oom-score-adj": "0",
    }


def _policies_flags(directory: Path, slot: Slot) -> Mapping[str, str]:
    return {
        "kubeconfig": f"{directory}/policies.kubeconfig",
        "directory": f"{directory}/",
        "pods": str(slot.pods),
    }
