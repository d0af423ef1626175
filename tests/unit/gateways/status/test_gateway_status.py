"""How gateways stand, and what is counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.gateways.samples import COMMIT, GOAL, discovered_gateway, synced_report
from windlass.gateways.status import gateway_status, summary
from windlass.gateways.status.gateway_status import FleetStatus, SyncTarget
from windlass.gateways.status.pod_discovery import DiscoveredGateway
from windlass.gateways.wire import routing
from windlass.gateways.wire.agent_report import AgentReport, DriftCounts
from windlass.gateways.wire.routing import Routing, RoutingMapping, RoutingProfile

MAPPINGS = (RoutingMapping("a", "projects"),)


def _target(**profiles: RoutingProfile) -> SyncTarget:
    wanted = Routing(profiles=profiles)
    return SyncTarget(COMMIT, wanted, routing.hash_routing(wanted))


def _fleet(
    *rows: tuple[DiscoveredGateway, AgentReport | None], goal: SyncTarget = GOAL
) -> FleetStatus:
    reports = {one.observed_pod.uid: said for one, said in rows if said is not None}
    return gateway_status.fleet_status([one for one, _ in rows], reports, goal)


ONE = discovered_gateway("one")


@pytest.mark.parametrize(
    ("changes", "status", "counts"),
    [
        ({}, "Synced", True),
        ({"synced_commit": "b" * 40}, "Pending", False),
        ({"profile_hash": "x"}, "Pending", False),
        ({"pod_uid": "another"}, "Pending", False),
        ({"sync_status": "Syncing", "reason": "Applying"}, "Syncing", False),
        ({"sync_status": "Error", "reason": "DiskFull"}, "Error", False),
    ],
)
def test_synced_means_commit_and_routing_of_this_pod(
    changes: dict[str, Any], status: str, counts: bool
) -> None:
    """Anything else is not counted, and shown as what it is."""
    found = _fleet((ONE, synced_report(ONE, **changes)))
    assert found.gateways[0].status == status
    assert found.synced == counts
    assert found.all_synced is counts


def test_without_a_commit_nobody_is_synced() -> None:
    """An empty report does not match an empty wish."""
    goal = SyncTarget("", GOAL.routing, GOAL.routing_hash)
    assert _fleet((ONE, synced_report(ONE, goal)), goal=goal).synced == 0


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"agent": "missing"}, "MissingSidecar", ""),
        ({"agent": "stopped", "trouble": "OOMKilled"}, "Error", "AgentNotRunning"),
        ({"agent": "waiting"}, "Error", "AgentNotRunning"),
        ({"profile": "nowhere"}, "Error", "NoRouting"),
    ],
)
def test_the_pod_wins_over_the_report(changes: dict[str, Any], status: str, reason: str) -> None:
    """What is broken in the pod is told, whatever was reported before."""
    one = discovered_gateway("one", **changes)
    (row,) = _fleet((one, synced_report(one))).gateways
    assert (row.status, row.reason) == (status, reason)
    assert not row.is_synced
    assert row.message


def test_an_unreadable_report_is_said_to_be_one() -> None:
    """It is told apart from none at all."""
    (row,) = gateway_status.fleet_status([ONE], {ONE.observed_pod.uid: None}, GOAL).gateways
    assert "report is invalid" in row.message
    (row,) = gateway_status.fleet_status([ONE], {}, GOAL).gateways
    assert row.message == "waiting for the agent's first report"


def test_dry_runs_and_pauses_are_left_out() -> None:
    """With none but them all is well; with nobody at all it is not."""
    goal = _target(
        dry=RoutingProfile(MAPPINGS, dry_run=True), held=RoutingProfile(MAPPINGS, paused=True)
    )
    dry, held = discovered_gateway("a", profile="dry"), discovered_gateway("b", profile="held")
    found = _fleet((dry, synced_report(dry, goal, sync_status="DryRun")), (held, None), goal=goal)
    assert found.all_synced
    assert found.message == "0 of 0 gateways synced (1 dry-run, 1 paused)"
    assert [row.status for row in found.gateways] == ["DryRun", "Paused"]
    assert not _fleet().all_synced


def test_the_message_names_what_is_missing() -> None:
    """Counts that are zero are not spoken of."""
    bare, old = discovered_gateway("bare", agent="missing"), discovered_gateway("old")
    found = _fleet(
        (ONE, synced_report(ONE)), (bare, None), (old, synced_report(old, degraded=True))
    )
    assert found.message == "2 of 3 gateways synced (1 missing sidecar, 1 degraded)"
    assert found.missing_sidecar == ("bare",)
    assert [one.gateway.name for one in found.failing] == ["bare"]


def test_rows_repeat_what_the_agent_said() -> None:
    """With the limits of the status."""
    said = synced_report(ONE, drift=DriftCounts(1, 2, 3), degraded=True, projects_synced=("x",))
    (row,) = summary.status_rows(_fleet((ONE, said)))
    assert row["podUID"] == "uid-one"
    assert row["servicePath"] == "services/a"
    assert row["drift"] == {"modified": 1, "missing": 2, "extra": 3}
    assert row["degraded"] is True
    many = [discovered_gateway(f"g{n:03d}") for n in range(300)]
    assert len(summary.status_rows(_fleet(*((one, None) for one in many)))) == 256


def test_the_moment_all_had_it_is_kept() -> None:
    """It moves only when all have reached something new."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    later = now + timedelta(hours=1)
    first = summary.next_first_synced(None, "c1", "h", all_synced=True, now=now)
    assert first is not None
    assert summary.decode_first_synced(summary.encode_first_synced(first)) == first
    assert summary.next_first_synced(first, "c1", "h", all_synced=True, now=later) == first
    assert summary.next_first_synced(first, "c2", "h", all_synced=False, now=later) == first
    moved = summary.next_first_synced(first, "c2", "h", all_synced=True, now=later)
    assert moved is not None
    assert moved.time == later
    assert summary.next_first_synced(None, "", "h", all_synced=True, now=now) is None
    assert summary.decode_first_synced({summary.FIRST_SYNCED_KEY: "{"}) is None
    assert summary.encode_first_synced(None) == {}
