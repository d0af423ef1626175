"""The status of each gateway, and how many are synced."""

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
    desired = Routing(profiles=profiles)
    return SyncTarget(COMMIT, desired, routing.hash_routing(desired))


def _fleet(
    *rows: tuple[DiscoveredGateway, AgentReport | None], goal: SyncTarget = GOAL
) -> FleetStatus:
    reports = {gateway.observed_pod.uid: report for gateway, report in rows if report is not None}
    return gateway_status.fleet_status([gateway for gateway, _ in rows], reports, goal)


GATEWAY = discovered_gateway("one")


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
def test_synced_means_the_commit_and_routing_of_this_pod(
    changes: dict[str, Any], status: str, counts: bool
) -> None:
    """Any other report is not counted, and shown with its own status."""
    fleet = _fleet((GATEWAY, synced_report(GATEWAY, **changes)))
    assert fleet.gateways[0].status == status
    assert fleet.synced == counts
    assert fleet.all_synced is counts


def test_the_warnings_of_a_synced_gateway_are_shown() -> None:
    """In its row of the status; it is synced all the same."""
    fleet = _fleet((GATEWAY, synced_report(GATEWAY, error_message="2 warnings, first: a")))
    (row,) = summary.status_rows(fleet)
    assert (row["syncStatus"], row["message"]) == ("Synced", "2 warnings, first: a")
    assert fleet.all_synced


def test_without_a_commit_no_gateway_is_synced() -> None:
    """An empty report does not match an empty target."""
    goal = SyncTarget("", GOAL.routing, GOAL.routing_hash)
    assert _fleet((GATEWAY, synced_report(GATEWAY, goal)), goal=goal).synced == 0


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"agent": "missing"}, "MissingSidecar", ""),
        ({"agent": "stopped", "trouble": "OOMKilled"}, "Error", "AgentNotRunning"),
        ({"agent": "waiting"}, "Error", "AgentNotRunning"),
        ({"profile": "nowhere"}, "Error", "NoRouting"),
    ],
)
def test_the_state_of_the_pod_overrides_the_report(
    changes: dict[str, Any], status: str, reason: str
) -> None:
    """A problem of the pod is shown, whatever was reported before."""
    gateway = discovered_gateway("one", **changes)
    (row,) = _fleet((gateway, synced_report(gateway))).gateways
    assert (row.status, row.reason) == (status, reason)
    assert not row.is_synced
    assert row.message


def test_an_invalid_report_is_shown_as_invalid() -> None:
    """It is distinguished from a missing one."""
    (row,) = gateway_status.fleet_status([GATEWAY], {GATEWAY.observed_pod.uid: None}, GOAL).gateways
    assert "report is invalid" in row.message
    (row,) = gateway_status.fleet_status([GATEWAY], {}, GOAL).gateways
    assert row.message == "waiting for the agent's first report"


def test_dry_runs_and_paused_profiles_are_not_counted() -> None:
    """With no others all gateways are synced; with no gateways at all they are not."""
    goal = _target(
        dry=RoutingProfile(MAPPINGS, dry_run=True), held=RoutingProfile(MAPPINGS, paused=True)
    )
    dry, paused = discovered_gateway("a", profile="dry"), discovered_gateway("b", profile="held")
    fleet = _fleet((dry, synced_report(dry, goal, sync_status="DryRun")), (paused, None), goal=goal)
    assert fleet.all_synced
    assert fleet.message == "0 of 0 gateways synced (1 dry-run, 1 paused)"
    assert [row.status for row in fleet.gateways] == ["DryRun", "Paused"]
    assert not _fleet().all_synced


def test_the_message_counts_problems() -> None:
    """Counts of zero are left out."""
    without_sidecar, degraded = (
        discovered_gateway("bare", agent="missing"),
        discovered_gateway("old"),
    )
    fleet = _fleet(
        (GATEWAY, synced_report(GATEWAY)),
        (without_sidecar, None),
        (degraded, synced_report(degraded, degraded=True)),
    )
    assert fleet.message == "2 of 3 gateways synced (1 missing sidecar, 1 degraded)"
    assert fleet.missing_sidecar == ("bare",)
    assert [status.gateway.name for status in fleet.failing] == ["bare"]


def test_rows_contain_the_report() -> None:
    """Within the limits of the status."""
    report = synced_report(
        GATEWAY, drift=DriftCounts(1, 2, 3), degraded=True, projects_synced=("x",)
    )
    (row,) = summary.status_rows(_fleet((GATEWAY, report)))
    assert row["podUID"] == "uid-one"
    assert row["servicePath"] == "services/a"
    assert row["drift"] == {"modified": 1, "missing": 2, "extra": 3}
    assert row["degraded"] is True
    many = [discovered_gateway(f"g{n:03d}") for n in range(300)]
    assert len(summary.status_rows(_fleet(*((gateway, None) for gateway in many)))) == 256


def test_the_time_of_the_first_full_sync_is_kept() -> None:
    """It moves only when all gateways have a new commit or routing."""
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


def test_control_characters_of_a_report_are_escaped() -> None:
    """No terminal obeys a message; the escaped one fits the schema of the status."""
    report = synced_report(
        GATEWAY, sync_status="Error", reason="Disk\x9bFull", error_message="\x1b]0;x\x07\u202e" * 60
    )
    fleet = _fleet((GATEWAY, report))
    (row,) = summary.status_rows(fleet)
    assert row["message"].startswith("\\u001b]0;x\\u0007\\u202e")
    assert len(row["message"]) <= 512
    assert "Disk\\u009bFull" in summary.summary_lines(fleet)[GATEWAY.observed_pod.name]
