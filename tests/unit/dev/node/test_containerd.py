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
