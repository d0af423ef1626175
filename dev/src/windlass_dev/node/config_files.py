"""The configuration files of containerd, the CNI network and the kubelet.

`host_setup` writes them. Everything that a component stores lies under the cluster's
directory; what it would share with other clusters under a fixed name gets a name of the
cluster's own.

Pure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from windlass_dev.node import allocation
from windlass_dev.node.allocation import Slot

PAUSE_IMAGE = "windlass.dev/pause:1"

_CRI = 'plugins."io.containerd.grpc.v1.cri"'


def containerd_path(directory: Path) -> Path:
    """The path of containerd's configuration."""
    return directory / "node" / "containerd.toml"


def kubelet_path(directory: Path) -> Path:
    """The path of the kubelet's configuration."""
    return directory / "node" / "kubelet.json"


def cni_directory(directory: Path) -> Path:
    """The directory from which containerd reads the CNI configuration."""
    return directory / "node" / "network"


def containerd_socket(directory: Path) -> Path:
    """The path of containerd's socket."""
    return directory / "containerd.sock"


def containerd_toml(directory: Path, *, plugins: str, snapshotter: str) -> str:
    """The configuration of containerd, as TOML."""
    tables: dict[str, dict[str, Any]] = {
        "": {
            "version": 2,
            "root": f"{directory}/containerd/root",
            "state": f"{directory}/containerd/state",
        },
        "grpc": {"address": str(containerd_socket(directory))},
        'plugins."io.containerd.internal.v1.opt"': {"path": f"{directory}/containerd/opt"},
        _CRI: {
            "sandbox_image": PAUSE_IMAGE,
            # Lowering an OOM score needs a capability that root in a container often lacks.
            "restrict_oom_score_adj": True,
            "netns_mounts_under_state_dir": True,
        },
        f"{_CRI}.cni": {"bin_dir": plugins, "conf_dir": str(cni_directory(directory))},
        f"{_CRI}.containerd": {"snapshotter": snapshotter, "default_runtime_name": "runc"},
        f"{_CRI}.containerd.runtimes.runc": {"runtime_type": "io.containerd.runc.v2"},
        f"{_CRI}.containerd.runtimes.runc.options": {"SystemdCgroup": False},
    }
    return "\n".join(line for name, values in tables.items() for line in _toml_table(name, values))


def cni_config(directory: Path, slot: Slot) -> str:
    """The CNI configuration of the pod network, as JSON.

    Each pod has a link of its own to the node, without a bridge: traffic between pods is
    routed, so kube-proxy and the packet filter see it whatever the kernel's bridge settings.
    """
    addresses = {
        "type": "host-local",
        "dataDir": f"{directory}/leases",
        "ranges": [[{"subnet": str(slot.pods)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    document = {
        "cniVersion": "1.0.0",
        "name": f"windlass-{allocation.directory_digest(directory)}",
        "plugins": [
            {"type": "ptp", "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    return json.dumps(document, indent=2)


def kubelet_config(directory: Path, slot: Slot) -> str:
    """The configuration of the kubelet, as JSON: for both cgroup versions and nearly full disks."""
    pki = f"{directory}/pki"
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": slot.node_address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/server.crt",
        "tlsPrivateKeyFile": f"{pki}/server.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{allocation.cgroup_name(directory)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDomain": "cluster.local",
        "clusterDNS": [slot.dns_address],
        "containerRuntimeEndpoint": f"unix://{containerd_socket(directory)}",
        "podLogsDir": f"{directory}/logs/pods",
        "volumePluginDir": f"{directory}/kubelet/volume-plugins",
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "healthzPort": 0,
        "oomScoreAdj": 0,
    }
    return json.dumps(document, indent=2)


def _toml_table(name: str, values: dict[str, Any]) -> list[str]:
    head = [f"[{name}]"] if name else []
    # Strings, numbers and booleans are written in TOML as in JSON.
    return [*head, *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
