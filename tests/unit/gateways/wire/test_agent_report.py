"""The report that an agent writes."""

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


def test_a_report_survives_encoding() -> None:
    """Decoding returns the same report."""
    report = AgentReport(**BASE, last_sync_time=datetime(2026, 1, 2, tzinfo=UTC), files_changed=3)
    assert agent_report.decode(agent_report.encode(report)) == report


def test_a_long_report_is_shortened() -> None:
    """First lists, then messages; identity, status and commit are always kept."""
    history_entry = SyncHistoryEntry(datetime(2026, 1, 1, tzinfo=UTC), "b" * 40, "Synced", "2.5s")
    report = AgentReport(
        **BASE,
        error_message="e" * 900,
        projects_synced=tuple(f"{n}-" + "p" * 200 for n in range(30)),
        history=(history_entry,) * 9,
        last_scan_result="projects=200 config=200",
    )
    text = agent_report.encode(report)
    assert len(text.encode()) <= agent_report.MAX_REPORT_BYTES
    decoded = agent_report.decode(text)
    assert decoded is not None
    assert decoded.projects_synced == ()
    assert decoded.projects_total == 30
    assert decoded.history == ()
    assert decoded.error_message == "e" * 512
    assert decoded.last_scan_result
    for name, value in BASE.items():
        assert getattr(decoded, name) == value


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
def test_an_invalid_report_decodes_to_none(text: str) -> None:
    """So no content can prevent the status from being stored."""
    assert agent_report.decode(text) is None


def test_unknown_fields_are_ignored() -> None:
    """A newer agent may report more."""
    report = agent_report.decode(json.dumps({**WIRE, "color": "green"}))
    assert report is not None
    assert report.gateway == "g"
