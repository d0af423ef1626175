"""Output of containerd's client."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import WindlassError
from windlass_dev.cluster.cluster_state import ClusterState
from windlass_dev.node import containerd


def test_names_of_imported_images_are_read() -> None:
    """One line per image."""
    digest = "a" * 64
    answer = f"unpacking a.org/x:1 (sha256:{digest})...done\nunpacking y:2 (sha256:{digest})...\n"
    assert containerd.parse_image_names(answer) == ["a.org/x:1", "y:2"]


def test_a_cluster_without_node_accepts_no_image() -> None:
    """The error names the remedy."""
    with pytest.raises(WindlassError, match="up --node"):
        containerd.import_images(
            ClusterState("x", {}, {}), Path("/nowhere"), Path("/nowhere/x.tar")
        )


@pytest.mark.parametrize(("status", "serves"), [("ok", True), ("error", False)])
def test_containerd_without_its_cri_plugin_is_refused(status: str, serves: bool) -> None:
    """It keeps running without it, so it has to be queried."""
    rows = f"io.containerd.grpc.v1  tasks  -  ok\nio.containerd.grpc.v1  cri  linux/amd64  {status}"
    assert containerd.has_pod_service(f"TYPE  ID  PLATFORMS  STATUS\n{rows}\n\n") is serves
    assert not containerd.has_pod_service("")
