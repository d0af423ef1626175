"""Configuration files of a node."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from windlass_dev.node import allocation, config_files
from windlass_dev.node.allocation import Slot

DIRECTORY = Path('/state/a "quoted" place')


def test_containerd_keeps_everything_in_the_cluster() -> None:
    """Root, state and socket are its own; the text is TOML for any directory name."""
    text = config_files.containerd_toml(DIRECTORY, plugins="/cni", snapshotter="overlayfs")
    document = tomllib.loads(text)
    own = [document["root"], document["state"], document["grpc"]["address"]]
    assert all(path.startswith(f"{DIRECTORY}/") for path in own)
    cri = document["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == config_files.PAUSE_IMAGE
    assert cri["restrict_oom_score_adj"] is True
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["cni"] == {
        "bin_dir": "/cni",
        "conf_dir": str(config_files.cni_directory(DIRECTORY)),
    }
    assert cri["containerd"]["snapshotter"] == "overlayfs"


def test_pod_network_has_the_clusters_name_and_addresses() -> None:
    """Leases are in the cluster's directory, so none outlives it."""
    document = json.loads(config_files.cni_config(DIRECTORY, Slot(1)))
    assert allocation.directory_digest(DIRECTORY) in document["name"]
    addresses = document["plugins"][0]["ipam"]
    assert addresses["ranges"] == [[{"subnet": "10.212.5.0/24"}]]
    assert addresses["dataDir"].startswith(f"{DIRECTORY}/")
    assert [plugin["type"] for plugin in document["plugins"]] == ["ptp", "portmap"]


def test_the_kubelet_is_confined_and_authenticates() -> None:
    """Its pods are below the cluster's cgroup, its logs in its directory; no anonymous access."""
    document = json.loads(config_files.kubelet_config(DIRECTORY, Slot(1)))
    assert document["cgroupRoot"] == f"/{allocation.cgroup_name(DIRECTORY)}"
    assert document["podLogsDir"].startswith(f"{DIRECTORY}/")
    assert document["volumePluginDir"].startswith(f"{DIRECTORY}/")
    assert document["authentication"]["anonymous"] == {"enabled": False}
    assert document["authorization"] == {"mode": "Webhook"}
    assert document["address"] == "10.212.4.2"
    assert document["clusterDNS"] == ["10.212.6.10"]
    assert (
        document["containerRuntimeEndpoint"]
        == f"unix://{config_files.containerd_socket(DIRECTORY)}"
    )
