"""Tests of what containerd's client tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import WindlassError
from windlass.dev.node import containerd
from windlass.dev.state import State


def test_names_of_imported_images_are_read() -> None:
    """One line per image."""
    digest = "a" * 64
    answer = f"unpacking a.org/x:1 (sha256:{digest})...done\nunpacking y:2 (sha256:{digest})...\n"
    assert containerd.names_in(answer) == ["a.org/x:1", "y:2"]


def test_a_cluster_without_node_takes_no_image() -> None:
    """It says what to do."""
    with pytest.raises(WindlassError, match="up --node"):
        containerd.load(State("x", {}, {}), Path("/nowhere"), Path("/nowhere/x.tar"))


@pytest.mark.parametrize(("status", "serves"), [("ok", True), ("error", False)])
def test_containerd_without_its_part_for_pods_is_of_no_use(status: str, serves: bool) -> None:
    """It goes on running without it, so it has to be asked."""
    rows = f"io.containerd.grpc.v1  tasks  -  ok\nio.containerd.grpc.v1  cri  linux/amd64  {status}"
    assert containerd.is_loaded(f"TYPE  ID  PLATFORMS  STATUS\n{rows}\n\n") is serves
    assert not containerd.is_loaded("")
