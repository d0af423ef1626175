"""What a pass says: the order of reasons, and what stands beside Ready."""

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


def _fleet(*said: dict[str, Any] | None, **changes: Any) -> FleetStatus:
    ones = [discovered_gateway(f"g{number}", **changes) for number in range(len(said))]
    reports = {
        one.observed_pod.uid: synced_report(one, **words)
        for one, words in zip(ones, said, strict=True)
        if words is not None
    }
    return gateway_status.fleet_status(ones, reports, GOAL)


GOOD = Findings("h/x", SOURCE, _fleet({}, {}), due_seconds=60.0)


def _condition(outcome: Outcome, kind: str) -> tuple[str, str]:
    return next((one.status, one.reason) for one in outcome.conditions if one.type == kind)


def test_all_is_well() -> None:
    """Ready, and every condition beside it."""
    found = conditions.build_outcome(GOOD)
    assert found.ready is not None
    assert (found.ready.status, found.ready.reason) == ("True", "SyncSucceeded")
    assert not found.stalled
    assert not found.reconciling
    assert found.requeue_after == 60.0
    assert {one.status for one in found.conditions} == {"True"}
    kinds = {"ProfilesValid", "RepoCloned", "SourceTrusted", "AllGatewaysSynced"}
    assert {one.type for one in found.conditions} == kinds
    assert found.fields["lastSyncCommitShort"] == COMMIT[:7]
    assert found.fields["repoCloneStatus"] == "Cloned"


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
def test_the_first_reason_speaks(first: int) -> None:
    """Whatever else is wrong, the order of 2.5 decides."""
    findings = GOOD
    for _, changes in reversed(_ORDER[first:]):
        findings = replace(findings, **changes)
    found = conditions.build_outcome(findings)
    assert found.ready is not None
    assert (found.ready.status, found.ready.reason) == ("False", _ORDER[first][0])


@pytest.mark.parametrize(
    ("changes", "stalled", "reconciling", "because", "after"),
    [
        ({"is_paused": True}, False, False, "", 60.0),
        ({"failure": _AUTH}, True, False, "AuthFailed", 60.0),
        ({"failure": Retryable("Timeout", "x")}, False, True, "Reconciling", 60.0),
        ({"problems": ("x",)}, True, False, "", 60.0),
        ({"api_key_problem": _KEY}, False, True, "Reconciling", 15.0),
        ({"failure": _AUTH, "api_key_problem": _KEY}, True, False, "AuthFailed", 15.0),
        ({"fleet": _fleet()}, False, False, "", 60.0),
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
    changes: dict[str, Any], stalled: bool, reconciling: bool, because: str, after: float
) -> None:
    """Every row of the table."""
    found = conditions.build_outcome(replace(GOOD, **changes))
    assert (found.stalled, found.reconciling, found.because) == (stalled, reconciling, because)
    assert found.requeue_after == after


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
def test_ready_names_the_commit_and_the_gateways_without_it(
    changes: dict[str, Any], message: str
) -> None:
    """A ref that is the commit itself is shown once."""
    ready = conditions.build_outcome(replace(GOOD, **changes)).ready
    assert ready is not None
    assert ready.message == message


def test_a_failing_look_keeps_what_was() -> None:
    """The commit in force stays in the status; the cause is told beside it."""
    found = conditions.build_outcome(replace(GOOD, failure=_AUTH))
    assert found.fields["lastSyncCommit"] == COMMIT
    assert found.fields["source"] == {"canonicalURL": "h/x", "cause": "AuthFailed"}
    assert found.fields["repoCloneStatus"] == "Error"
    assert _condition(found, "RepoCloned") == ("False", "CloneFailed")
    assert _condition(found, "AllGatewaysSynced") == ("True", "SyncSucceeded")


@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ({"failure": Retryable("Timeout", "x")}, True),
        ({"fleet": _fleet({"sync_status": "Error", "reason": "DiskFull"})}, True),
        ({"fleet": _fleet(None)}, False),
        ({"api_key_problem": _KEY}, True),
    ],
)
def test_failures_warn_although_they_are_tried_again(changes: dict[str, Any], warns: bool) -> None:
    """CloneFailed, SyncFailed and ApiKeyMissing are warnings; progress is not."""
    found = conditions.build_outcome(replace(GOOD, **changes))
    assert found.reconciling
    assert found.warns is warns


def test_a_pause_leaves_repo_cloned_alone() -> None:
    """And is told as a normal event."""
    found = conditions.build_outcome(replace(GOOD, is_paused=True))
    assert "RepoCloned" not in {one.type for one in found.conditions}
    assert [(one.weight, one.reason) for one in found.events] == [("Normal", "Paused")]


def test_unknown_pods_change_no_count() -> None:
    """Neither counts nor rows nor conditions about gateways are named."""
    found = conditions.build_outcome(replace(GOOD, fleet=None))
    assert not {"gatewayCounts", "discoveredGateways"} & found.fields.keys()
    assert "AllGatewaysSynced" not in {one.type for one in found.conditions}


def test_faults_come_again_with_backoff() -> None:
    """A passing fault is not written over a Ready that is True."""
    found = conditions.build_outcome(replace(GOOD, step_errors=("metadata ConfigMap: Timeout",)))
    assert found.backoff
    assert found.transient


def test_messages_are_bounded() -> None:
    """A kibibyte of words is enough."""
    found = conditions.build_outcome(replace(GOOD, problems=("x" * 5000,)))
    assert found.ready is not None
    assert len(found.ready.message) == 1024
    assert all(len(one.message) <= 1024 for one in found.conditions)


def _change(**changes: Any) -> StatusChange:
    base = StatusChange("7", 1, IgnitionSyncStatus(), SOURCE, SOURCE, None, None, False)
    return replace(base, **changes)


def test_moved_refs_are_told() -> None:
    """A tag that moved warns; a branch that moved does not; nothing new tells nothing."""
    new = CommitSource("b" * 40, "main", "https://h/x")
    tag = ResolvedRef("b" * 40, "refs/tags/main", "tag")
    branch = ResolvedRef("b" * 40, "refs/heads/main", "branch")
    (told,) = events.derive_events(_change(source=new, resolution=tag))
    assert (told.weight, told.reason) == ("Warning", "TagMoved")
    assert "a" * 12 in told.message
    (told,) = events.derive_events(_change(source=new, resolution=branch))
    assert (told.weight, told.reason) == ("Normal", "RefUpdated")
    other = CommitSource("b" * 40, "v2", "https://h/x")
    (told,) = events.derive_events(_change(source=other, resolution=tag))
    assert told.reason == "RefUpdated"
    assert events.derive_events(_change()) == ()
    assert events.derive_events(_change(previous_source=None)) == ()


def test_gateways_are_told_once() -> None:
    """What the stored status says already is no news."""
    bare = _fleet(None, agent="missing")
    told = events.derive_events(_change(fleet=bare))
    assert [one.reason for one in told] == ["GatewaysDiscovered", "MissingSidecar"]
    assert [one.message for one in told] == [
        "1 gateway (was 0)",
        "pod g0 has no agent container",
    ]
    fields = conditions.build_outcome(replace(GOOD, fleet=bare)).fields
    stored = _stored(fields)
    assert events.derive_events(_change(fleet=bare, status=stored)) == ()


def _transition(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str]]:
    """The events of one gateway that reported one thing, then another."""
    stored = _stored(conditions.build_outcome(replace(GOOD, fleet=_fleet(before))).fields)
    told = events.derive_events(_change(fleet=_fleet(now), status=stored))
    return [(one.weight, one.reason) for one in told if one.reason != "SyncCompleted"]


_DRIFTED = {"drift": DriftCounts(modified=1, extra=2)}


@pytest.mark.parametrize(
    ("before", "now", "told"),
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
def test_single_gateways_are_told_at_transitions(
    before: dict[str, Any], now: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    """DRF-1, APP-9, SCN-4: when it begins and when it is over, not in between."""
    assert _transition(before, now) == told


def test_a_completed_sync_says_what_it_took() -> None:
    """Files, scans and the longest time of all gateways together."""
    first = {"files_changed": 3, "last_scan_result": "projects=200", "last_sync_duration": "2.5s"}
    second = {"files_changed": 4, "last_scan_result": "projects=200", "last_sync_duration": "soon"}
    found = events.derive_events(_change(fleet=_fleet(first, second)))
    (told,) = [one for one in found if one.reason == "SyncCompleted"]
    assert told.message == (
        "2 of 2 gateways synced: 7 files changed, scan projects=200, longest sync 2.5 s"
    )


def _stored(fields: Any) -> IgnitionSyncStatus:
    return msgspec.convert(dict(fields), IgnitionSyncStatus)
