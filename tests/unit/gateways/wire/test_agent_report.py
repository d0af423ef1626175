"""The value an agent writes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from windlass.gateways.wire import agent_report
from windlass.gateways.wire.agent_report import AgentReport, SyncHistoryEntry

BASE: dict[str, Any] = {
    "gateway": "g",
    "pod_name": "p",
    "pod_uid": "u",
    "sync_status": "Synced",
    "reason": "Synced",
    "synced_commit": "a" * 40,
}
WIRE = {"gateway": "g", "podName": "p", "podUID": "u", "syncStatus": "Synced"}


def test_what_is_written_can_be_read() -> None:
    """The same report comes back."""
    said = AgentReport(**BASE, last_sync_time=datetime(2026, 1, 2, tzinfo=UTC), files_changed=3)
    assert agent_report.decode(agent_report.encode(said)) == said


def test_lists_go_first_then_messages() -> None:
    """Who speaks, how it is and what it has are kept at any length."""
    past = SyncHistoryEntry(datetime(2026, 1, 1, tzinfo=UTC), "b" * 40, "Synced", "2.5s")
    said = AgentReport(
        **BASE,
        error_message="e" * 900,
        projects_synced=tuple(f"{n}-" + "p" * 200 for n in range(30)),
        history=(past,) * 9,
        last_scan_result="projects=200 config=200",
    )
    text = agent_report.encode(said)
    assert len(text.encode()) <= agent_report.MAX_REPORT_BYTES
    read = agent_report.decode(text)
    assert read is not None
    assert read.projects_synced == ()
    assert read.projects_total == 30
    assert read.history == ()
    assert read.error_message == "e" * 512
    assert read.last_scan_result
    for name, value in BASE.items():
        assert getattr(read, name) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 20_000,
        "x" * 20_000,
        json.dumps({**WIRE, "syncStatus": "MissingSidecar"}),
        json.dumps({**WIRE, "schema": 2}),
        json.dumps({**WIRE, "reason": "x" * 65}),
        json.dumps({**WIRE, "filesChanged": -1}),
        json.dumps({**WIRE, "lastSyncTime": "2026-99-99T00:00:00Z"}),
        json.dumps({**WIRE, "lastSyncTime": "2026-01-01T00:00:00"}),
        json.dumps({**WIRE, "lastSyncTime": "0001-01-01T00:00:00+14:00"}),
        json.dumps({**WIRE, "projectsSynced": ["x"] * 21}),
    ],
)
def test_what_is_out_of_bounds_is_no_report(text: str) -> None:
    """So nothing an agent writes can keep the status from being stored."""
    assert agent_report.decode(text) is None


def test_unknown_fields_are_passed_over() -> None:
    """A later agent may say more."""
    found = agent_report.decode(json.dumps({**WIRE, "colour": "green"}))
    assert found is not None
    assert found.gateway == "g"
