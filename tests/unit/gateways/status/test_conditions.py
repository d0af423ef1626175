"""The outcome of a reconcile: the order of reasons, and the conditions besides Ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.support.gateways.samples import COMMIT, GOAL, discovered_gateway, synced_report
from windlass.api.kinds.ignitionsync_status import IgnitionSyncStatus
from windlass.base.errors import Retryable, Stalled, Waiting
from windlass.gateways.status import conditions, events, gateway_status
from windlass.gateways.status.conditions import Findings
from windlass.gateways.status.events import StatusChange
from windlass.gateways.status.gateway_status import FleetStatus
from windlass.gateways.wire.agent_report import DriftCounts
from windlass.gateways.wire.metadata import CommitSource
from windlass.git.format.refs import ResolvedRef
from windlass.runtime.outcome import Outcome

SOURCE = CommitSource(COMMIT, "main", "https://h/x")


def _fleet(*report_changes: dict[str, Any] | None, **changes: Any) -> FleetStatus:
    gateways = [
        discovered_gateway(f"g{number}", **changes) for number in range(len(report_changes))
    ]
    reports = {
        gateway.observed_pod.uid: synced_report(gateway, **fields)
        for gateway, fields in zip(gateways, report_changes, strict=True)
        if fields is not None
    }
    return gateway_status.fleet_status(gateways, reports, GOAL)


GOOD = Findings("h/x", SOURCE, _fleet({}, {}), due_seconds=60.0)


def _condition(outcome: Outcome, kind: str) -> tuple[str, str]:
    return next(
        (condition.status, condition.reason)
        for condition in outcome.conditions
        if condition.type == kind
    )


def test_a_healthy_sync_is_ready() -> None:
    """Every other condition is True as well."""
    outcome = conditions.build_outcome(GOOD)
    assert outcome.ready is not None
    assert (outcome.ready.status, outcome.ready.reason) == ("True", "SyncSucceeded")
    assert not outcome.stalled
    assert not outcome.reconciling
    assert outcome.requeue_after == 60.0
    assert {condition.status for condition in outcome.conditions} == {"True"}
    kinds = {"ProfilesValid", "RepoCloned", "SourceTrusted", "AllGatewaysSynced"}
    assert {condition.type for condition in outcome.conditions} == kinds
    assert outcome.fields["lastSyncCommitShort"] == COMMIT[:7]
    assert outcome.fields["repoCloneStatus"] == "Cloned"


_AUTH = Stalled("AuthFailed", "no", after=300.0)
_KEY = Waiting("SecretMissing", "Secret a/b does not exist", after=15.0)
_ORDER: list[tuple[str, dict[str, Any]]] = [
    ("Paused", {"is_paused": True}),
    ("CloneFailed", {"failure": _AUTH}),
    ("ProfilesInvalid", {"problems": ("x",)}),
    ("ApiKeyMissing", {"api_key_problem": _KEY}),
    ("NoGatewaysDiscovered", {"fleet": _fleet()}),
    ("SyncFailed", {"fleet": _fleet({"sync_status": "Error", "reason": "DiskFull"}, {})}),
    ("SyncInProgress", {"fleet": _fleet(None, {})}),
    ("Reconciling", {"step_errors": ("x: Timeout",)}),
]


@pytest.mark.parametrize("first", range(len(_ORDER)))
def test_the_first_reason_is_reported(first: int) -> None:
    """Whatever else is wrong, the order of 2.5 decides."""
    findings = GOOD
    for _, changes in reversed(_ORDER[first:]):
        findings = replace(findings, **changes)
    outcome = conditions.build_outcome(findings)
    assert outcome.ready is not None
    assert (outcome.ready.status, outcome.ready.reason) == ("False", _ORDER[first][0])


@pytest.mark.parametrize(
    ("changes", "stalled", "reconciling", "because", "requeue_after"),
    [
        ({"is_paused": True}, False, False, "", 60.0),
        ({"failure": _AUTH}, True, False, "AuthFailed", 60.0),
        ({"failure": Retryable("Timeout", "x")}, False, True, "Reconciling", 60.0),
        ({"problems": ("x",)}, True, False, "", 60.0),
        ({"api_key_problem": _KEY}, False, True, "Reconciling", 15.0),
        ({"failure": _AUTH, "api_key_problem": _KEY}, True, False, "AuthFailed", 15.0),
        ({"fleet": _fleet()}, False, False, "", 60.0),
        ({"fleet": _fleet(), "source": None}, False, True, "", 60.0),
        (
            {"fleet": _fleet({"sync_status": "Error", "reason": "UnsafePath"})},
            True,
            False,
            "UnsafePath",
            60.0,
        ),
        (
            {"fleet": _fleet({"sync_status": "Error", "reason": "DiskFull"})},
            False,
            True,
            "SyncInProgress",
            60.0,
        ),
        ({"fleet": _fleet(None)}, False, True, "", 60.0),
        ({"fleet": None}, False, True, "", 60.0),
    ],
)
def test_stalled_and_reconciling_follow_the_cause(
    changes: dict[str, Any], stalled: bool, reconciling: bool, because: str, requeue_after: float
) -> None:
    """The decision table, row by row."""
    outcome = conditions.build_outcome(replace(GOOD, **changes))
    assert (outcome.stalled, outcome.reconciling, outcome.because) == (
        stalled,
        reconciling,
        because,
    )
    assert outcome.requeue_after == requeue_after


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, f"2 of 2 gateways synced to main@{COMMIT[:7]}"),
        (
            {"source": replace(SOURCE, ref=COMMIT)},
            f"2 of 2 gateways synced to {COMMIT[:7]}",
        ),
        (
            {"fleet": _fleet(None, {})},
            f"1 of 2 gateways synced; waiting for g0 to reach main@{COMMIT[:7]}",
        ),
        (
            {"fleet": _fleet(None, {}), "source": None},
            "1 of 2 gateways synced; waiting for a commit",
        ),
    ],
)
def test_ready_names_the_commit_and_the_gateways_that_wait(
    changes: dict[str, Any], message: str
) -> None:
    """A ref that is the commit itself is shown once."""
    ready = conditions.build_outcome(replace(GOOD, **changes)).ready
    assert ready is not None
    assert ready.message == message


def test_a_failed_poll_keeps_the_published_commit() -> None:
    """It stays in the status; the cause is reported beside it."""
    outcome = conditions.build_outcome(replace(GOOD, failure=_AUTH))
    assert outcome.fields["lastSyncCommit"] == COMMIT
    assert outcome.fields["source"] == {"canonicalURL": "h/x", "cause": "AuthFailed"}
    assert outcome.fields["repoCloneStatus"] == "Error"
    assert _condition(outcome, "RepoCloned") == ("False", "CloneFailed")
    assert _condition(outcome, "AllGatewaysSynced") == ("True", "SyncSucceeded")


@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ({"failure": Retryable("Timeout", "x")}, True),
        ({"fleet": _fleet({"sync_status": "Error", "reason": "DiskFull"})}, True),
        ({"fleet": _fleet(None)}, False),
        ({"api_key_problem": _KEY}, True),
    ],
)
def test_failures_are_warnings_although_they_are_retried(
    changes: dict[str, Any], warns: bool
) -> None:
    """CloneFailed, SyncFailed and ApiKeyMissing are warnings; progress is not."""
    outcome = conditions.build_outcome(replace(GOOD, **changes))
    assert outcome.reconciling
    assert outcome.warns is warns


def test_a_pause_does_not_change_repo_cloned() -> None:
    """It is reported by a normal event."""
    outcome = conditions.build_outcome(replace(GOOD, is_paused=True))
    assert "RepoCloned" not in {item.type for item in outcome.conditions}
    assert [(item.weight, item.reason) for item in outcome.events] == [("Normal", "Paused")]


def test_unknown_pods_leave_the_counts_unchanged() -> None:
    """Counts, rows and conditions of gateways are not written."""
    outcome = conditions.build_outcome(replace(GOOD, fleet=None))
    assert not {"gatewayCounts", "discoveredGateways"} & outcome.fields.keys()
    assert "AllGatewaysSynced" not in {condition.type for condition in outcome.conditions}


def test_faults_are_retried_with_backoff() -> None:
    """A transient fault does not replace a Ready that is True."""
    outcome = conditions.build_outcome(replace(GOOD, step_errors=("metadata ConfigMap: Timeout",)))
    assert outcome.backoff
    assert outcome.transient


def test_messages_are_bounded() -> None:
    """At most 1024 characters."""
    outcome = conditions.build_outcome(replace(GOOD, problems=("x" * 5000,)))
    assert outcome.ready is not None
    assert len(outcome.ready.message) == 1024
    assert all(len(condition.message) <= 1024 for condition in outcome.conditions)


def _change(**changes: Any) -> StatusChange:
    base = StatusChange("7", 1, IgnitionSyncStatus(), SOURCE, SOURCE, None, None, False)
    return replace(base, **changes)


def test_moved_refs_are_events() -> None:
    """A moved tag is a warning, a moved branch is not; without a change there is no event."""
    new = CommitSource("b" * 40, "main", "https://h/x")
    tag = ResolvedRef("b" * 40, "refs/tags/main", "tag")
    branch = ResolvedRef("b" * 40, "refs/heads/main", "branch")
    (event,) = events.derive_events(_change(source=new, resolution=tag))
    assert (event.weight, event.reason) == ("Warning", "TagMoved")
    assert "a" * 12 in event.message
    (event,) = events.derive_events(_change(source=new, resolution=branch))
    assert (event.weight, event.reason) == ("Normal", "RefUpdated")
    other = CommitSource("b" * 40, "v2", "https://h/x")
    (event,) = events.derive_events(_change(source=other, resolution=tag))
    assert event.reason == "RefUpdated"
    assert events.derive_events(_change()) == ()
    assert events.derive_events(_change(previous_source=None)) == ()


def test_gateways_are_reported_once() -> None:
    """What the stored status already contains is no new event."""
    without_sidecar = _fleet(None, agent="missing")
    derived = events.derive_events(_change(fleet=without_sidecar))
    assert [event.reason for event in derived] == ["GatewaysDiscovered", "MissingSidecar"]
    assert [event.message for event in derived] == [
        "1 gateway found",
        "pod g0 has no agent container",
    ]
    fields = conditions.build_outcome(replace(GOOD, fleet=without_sidecar)).fields
    stored = _stored(fields)
    assert events.derive_events(_change(fleet=without_sidecar, status=stored)) == ()


def _transition(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str]]:
    """The events of one gateway that reported one thing, then another."""
    stored = _stored(conditions.build_outcome(replace(GOOD, fleet=_fleet(before))).fields)
    derived = events.derive_events(_change(fleet=_fleet(now), status=stored))
    return [(event.weight, event.reason) for event in derived if event.reason != "SyncCompleted"]


_DRIFTED = {"drift": DriftCounts(modified=1, extra=2)}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"drift": DriftCounts()}, _DRIFTED, [("Warning", "GatewayFilesModified")]),
        ({}, _DRIFTED, [("Warning", "GatewayFilesModified")]),
        (_DRIFTED, {"drift": DriftCounts(modified=7)}, []),
        (_DRIFTED, {"drift": DriftCounts()}, [("Normal", "GatewayFilesModified")]),
        (_DRIFTED, {}, []),
        (
            {},
            {"sync_status": "Error", "reason": "MassDeleteGuard"},
            [("Warning", "MassDeleteGuard")],
        ),
        (
            {"sync_status": "Error", "reason": "ScanFailed"},
            {"sync_status": "Error", "reason": "ScanUnauthorized"},
            [("Warning", "ScanUnauthorized")],
        ),
        (
            {"sync_status": "Error", "reason": "ScanUnauthorized"},
            {"sync_status": "Error", "reason": "ScanUnauthorized"},
            [],
        ),
        ({}, {"reason": "DriftRemediated"}, [("Normal", "DriftRemediated")]),
    ],
)
def test_a_gateway_causes_events_at_transitions_only(
    before: dict[str, Any], now: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """DRF-1, APP-9, SCN-4: when a problem begins and when it ends, not in between."""
    assert _transition(before, now) == expected


def test_a_completed_sync_is_an_event_with_totals() -> None:
    """Files and scans of all gateways, and the longest duration."""
    first = {"files_changed": 3, "last_scan_result": "projects=200", "last_sync_duration": "2.5s"}
    second = {"files_changed": 4, "last_scan_result": "projects=200", "last_sync_duration": "soon"}
    derived = events.derive_events(_change(fleet=_fleet(first, second)))
    (completed,) = [event for event in derived if event.reason == "SyncCompleted"]
    assert completed.message == (
        "2 of 2 gateways synced: 7 files changed, scan projects=200, longest sync 2.5 s"
    )


def _stored(fields: Any) -> IgnitionSyncStatus:
    return msgspec.convert(dict(fields), IgnitionSyncStatus)


def test_a_failing_gateway_is_named_also_without_a_message() -> None:
    """The reason alone would not say where to look."""
    failing = _fleet({"sync_status": "Error", "reason": "DiskFull", "error_message": ""})
    verdict = conditions.build_outcome(replace(GOOD, fleet=failing)).ready
    assert verdict is not None
    assert verdict.message.endswith("g0: DiskFull")
