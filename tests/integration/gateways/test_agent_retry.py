"""The status of an agent that retries a failed step."""

from __future__ import annotations

from pathlib import Path

from tests.support.gateways.engine_harness import EngineHarness, engine_harness
from windlass.base.clock import SystemClock
from windlass.gateways.agent.inputs import AgentIdentity, AgentPaths
from windlass.gateways.agent.loop import AgentLoop
from windlass.gateways.agent.startup_gate import StartupGate
from windlass.gateways.wire import agent_report, metadata
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource, StatusObject
from windlass.gateways.wire.routing import Routing


class SteppedClock(SystemClock):
    """A clock that a test moves on."""

    passed_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed_seconds


class PublishedStatus:
    """Stands in for the writer of the status ConfigMap."""

    def __init__(self) -> None:
        self.statuses: list[str] = []

    def set_target(self, target: StatusObject | None) -> None:
        del target

    def publish(self, text: str, *, is_progress: bool = False) -> None:
        del is_progress
        report = agent_report.decode(text)
        assert report is not None
        self.statuses.append(f"{report.sync_status} {report.reason}")


def _paths(site: EngineHarness) -> AgentPaths:
    nothing = site.directory / "nothing"
    return AgentPaths(site.data, site.directory / "store", *[nothing] * 5)


async def test_a_retry_leaves_its_failure_published(tmp_path: Path) -> None:
    """Otherwise the IgnitionSync would change to progress and back with every retry."""
    clock, published = SteppedClock(), PublishedStatus()
    with engine_harness(tmp_path) as site:
        identity = AgentIdentity("site-0", "uid-1", "plant", "site")
        loop = AgentLoop(
            identity,
            _paths(site),
            await site.operations(clock),
            published,  # type: ignore[arg-type]
            StartupGate(clock),
            clock,
        )
        source = CommitSource(site.tip, "main", str(site.served.server.url("site")))
        # The pod has no annotations, so it has no routing.
        loop.on_metadata(metadata.encode(AgentMetadata(Routing(), "r", source)))
        for _ in range(3):
            clock.passed_seconds += await loop._safe_turn() + 1.0
        newer = AgentMetadata(Routing(), "r", source, trigger="another request")
        loop.on_metadata(metadata.encode(newer))
        await loop._safe_turn()
    assert published.statuses == [
        "Syncing Planning",
        *["Error NoRouting"] * 3,
        "Syncing Planning",
        "Error NoRouting",
    ]
