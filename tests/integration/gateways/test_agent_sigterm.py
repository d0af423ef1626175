"""SIGTERM while files are being replaced (STA-7)."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.gateways import held_agent
from tests.support.gateways.agent_harness import AgentHarness, agent_harness
from tests.support.gateways.engine_harness import SERVICE
from tests.support.processes import windlass_command
from tests.support.processes.operator import eventually
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

FAILPOINT = "gateways.execute.put.after"
VIEWS = [f"projects/line/view{number}/view.json" for number in range(4)]


@pytest.fixture
def harness(cluster: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[AgentHarness]:
    """The environment of a pod, with a running gateway and an agent that was never started."""
    with agent_harness(cluster, namespace, tmp_path) as prepared:
        yield prepared


def _hold_until_stopping(
    harness: AgentHarness, directory: Path, **environment: str
) -> dict[str, int]:
    """Hold an agent between two files of an apply until it has received the signal.

    Returns the scans until then: one of an earlier apply may be due before the next begins.
    """
    directory.mkdir()
    os.mkfifo(directory / "go")
    command = (sys.executable, str(held_agent.__file__))
    harness.agent.starting = functools.partial(windlass_command.start_executable, command=command)
    harness.agent.start(HELD_AT=FAILPOINT, HELD_IN=str(directory), **environment)
    eventually(lambda: harness.agent.probe("/healthz")[0] == 200, "the agent runs")
    eventually((directory / "reached").exists, "the execute phase")
    harness.agent.send(signal.SIGTERM)
    eventually((directory / "stopping").exists, "the signal received")
    return dict(harness.gateway.posts)


def _views_have(harness: AgentHarness, content: str) -> list[bool]:
    return [harness.files.get(view) == content.encode() for view in VIEWS]


def test_an_apply_past_its_commit_point_is_completed(harness: AgentHarness, tmp_path: Path) -> None:
    """All files are new and nothing is scanned; after the deadline the next start completes it."""
    harness.push({f"{SERVICE}/{view}": "1" for view in VIEWS})
    _hold_until_stopping(harness, tmp_path / "first", HELD_SECONDS="60")
    assert harness.agent.is_alive
    assert not all(_views_have(harness, "1"))
    (tmp_path / "first" / "go").write_bytes(b"x")
    assert harness.agent.wait() == 0
    assert all(_views_have(harness, "1"))
    journal = harness.data / ".ignition-sync" / "journal"
    assert not journal.exists()
    assert harness.gateway.posts == {}

    harness.push({f"{SERVICE}/{view}": "2" for view in VIEWS})
    scans = _hold_until_stopping(harness, tmp_path / "second", HELD_SECONDS="0.2")
    assert harness.agent.wait() == 0
    assert journal.exists()
    assert sorted(set(_views_have(harness, "2"))) == [False, True]
    assert harness.gateway.posts == scans

    harness.agent.starting = windlass_command.start
    harness.agent.start()
    harness.await_synced()
    assert all(_views_have(harness, "2"))
    assert harness.gateway.posts["projects"] == scans.get("projects", 0) + 1
