"""A direct line to the test cluster's API server, with our kinds installed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.server import Server
from tests.support import cluster as clusters
from windlass.api.registry import KINDS
from windlass.dev.desk import Desk

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Desk]:
    """A control plane of its own: these tests install fences that would stop an operator."""
    with clusters.running("api") as desk:
        yield desk


@pytest.fixture(scope="session")
def installed(cluster: Any) -> Any:
    """The cluster, once all CRDs of the tree are Established on it."""
    base = [str(cluster.kubectl), "--kubeconfig", str(cluster.admin_kubeconfig)]
    folder = str(ROOT / "deploy/crds")
    apply = ["apply", "--server-side", "--force-conflicts", "-f", folder]
    subprocess.run([*base, *apply], check=True, capture_output=True)
    wait = ["wait", "--for=condition=Established", "--timeout=30s", "-f", folder]
    subprocess.run([*base, *wait], check=True, capture_output=True)
    _until_published([*base, "explain"])
    return cluster


def _until_published(explain: list[str]) -> None:
    """Established comes before the kinds stand in discovery and in the published schema."""
    deadline = time.monotonic() + 60
    waiting = [f"{kind.plural}.{kind.gvr.group}" for kind in KINDS]
    while waiting:
        assert time.monotonic() < deadline, f"never published: {waiting}"
        done = subprocess.run([*explain, waiting[0]], capture_output=True)
        waiting = waiting[1:] if done.returncode == 0 else waiting


@pytest.fixture
def server(installed: Any, tmp_path: Path) -> Iterator[Server]:
    """Plain HTTPS requests as the administrator."""
    with Server(Path(installed.admin_kubeconfig), tmp_path) as opened:
        yield opened


@pytest.fixture
def kubectl(installed: Any) -> Any:
    """`kubectl(*args, stdin="")` as the administrator; the finished process is returned."""

    def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(installed.kubectl), "--kubeconfig", str(installed.admin_kubeconfig), *args]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)

    return run
