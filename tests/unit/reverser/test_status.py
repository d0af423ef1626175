"""Conditions and Events name what is wrong and what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from windlass.base.errors import Retryable, Stalled
from windlass.objects.condition import Condition, Status
from windlass.objects.names import GVR, Key
from windlass.reverser import destination_status, status
from windlass.reverser.attribution.webhook_coverage import AttributionState
from windlass.reverser.destination_status import DestinationProgress, StreamCount
from windlass.reverser.selection.rules import (
    RuleResolution,
    SelectedScope,
    Unresolved,
    operation_mask,
)
from windlass.runtime.controller import failure_outcome
from windlass.runtime.outcome import Outcome, Verdict

_SHA = "0123456789abcdef0123456789abcdef01234567"
_THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _ready(outcome: Outcome) -> Verdict:
    assert outcome.ready is not None
    return outcome.ready


def _reached(
    refs: dict[str, str], *branches: str, creating: frozenset[str] = frozenset()
) -> Outcome:
    return status.repository_reachable(
        refs, branches, creating=creating, remote="host/x", verified=True, after=60.0
    )


def test_found_branches_are_named_with_their_tips() -> None:
    """The message begins as the specification says and names each tip."""
    verdict = _ready(_reached({"refs/heads/main": _SHA}, "main"))
    assert (verdict.status, verdict.reason) == ("True", "BranchFound")
    assert verdict.message == "1 branch validated: main@01234567"


def test_a_missing_branch_is_named_with_three_ways_out() -> None:
    """The person reads which branch and what can be done."""
    verdict = _ready(_reached({"refs/heads/main": _SHA}, "main", "ghost"))
    assert (verdict.status, verdict.reason) == ("False", "BranchNotFound")
    assert "branch not found: ghost;" in verdict.message
    assert "createBranch" in verdict.message


def test_a_branch_that_somebody_will_create_is_pending() -> None:
    """It blocks no other branch."""
    outcome = _reached({"refs/heads/main": _SHA}, "main", "new", creating=frozenset({"new"}))
    assert _ready(outcome).status == "True"
    assert [row["state"] for row in outcome.fields["branches"]] == ["Found", "PendingCreation"]


def test_an_empty_repository_is_a_good_start() -> None:
    """No refs at all is no fault."""
    assert _ready(_reached({}, "main")).reason == "EmptyRepository"


def test_unverified_transport_is_a_condition_of_its_own() -> None:
    """Opting out of host keys stays visible while all else works."""
    outcome = status.repository_reachable(
        {}, ["main"], creating=(), remote="h/x", verified=False, after=None
    )
    assert [row.type for row in outcome.conditions] == ["TransportVerified"]


def test_transient_errors_reconcile_and_permanent_ones_stall() -> None:
    """A dead remote is tried again, a changed host key waits for a person."""
    passing = status.repository_unreachable(Retryable("ConnectionFailed", "x"), "h", after=3.0)
    outcome = status.repository_unreachable(Stalled("HostKeyMismatch", "x"), "h", after=3.0)
    assert (passing.reconciling, passing.stalled) == (True, False)
    assert (outcome.reconciling, outcome.stalled) == (False, True)


def test_a_destination_without_rules_is_synced() -> None:
    """Nothing to do is done."""
    outcome = destination_status.destination_outcome(DestinationProgress(is_open=True))
    assert _ready(outcome).status == "True"
    assert outcome.conditions[0].status == "True"


@pytest.mark.parametrize(
    ("changes", "status", "reason", "message"),
    [
        ({}, "True", "Synced", "all watches synced"),
        ({"is_idle": False, "pending": 1}, "False", "CatchingUp", "1 change waiting to be pushed"),
        (
            {"is_idle": False, "pending": 2, "first_sync_done": False},
            "False",
            "Seeding",
            "2 changes waiting to be pushed",
        ),
        # A review, or a snapshot taken again, is no change until it was compared.
        ({"is_idle": False}, "True", "Synced", "all watches synced"),
        (
            {"is_idle": False, "first_sync_done": False},
            "False",
            "Seeding",
            "comparing a snapshot with Git",
        ),
        ({"waiting_for": ("v1/pods (seeding)",)}, "False", "Seeding", "1 of 2 watches synced"),
        (
            {"waiting_for": ("WatchRule ns/a (not resolved yet)",), "streams": StreamCount()},
            "False",
            "Seeding",
            "waiting for WatchRule ns/a (not resolved yet)",
        ),
        (
            {"is_open": False, "waiting_for": ("v1/pods (starting)",), "streams": StreamCount()},
            "False",
            "Seeding",
            "waiting for the folder to open; see condition Ready",
        ),
    ],
)
def test_synced_means_that_git_has_every_observed_change(
    changes: dict[str, Any], status: str, reason: str, message: str
) -> None:
    """2.2: a destination for which changes wait is not synced."""
    progress = DestinationProgress(is_open=True, streams=StreamCount(total=2, synced=1), objects=5)
    row = destination_status.destination_outcome(replace(progress, **changes)).conditions[0]
    assert (row.status, row.reason, row.message) == (status, reason, message)


def test_a_first_snapshot_is_reported_and_that_of_a_restart_is_not() -> None:
    """P11: what was synced before is not called unsynced because a process began."""
    seeding = DestinationProgress(is_open=True, first_sync_done=False, is_idle=False)
    assert destination_status.destination_outcome(seeding).transient
    assert not destination_status.destination_outcome(seeding, is_new=True).transient
    behind = replace(seeding, first_sync_done=True, pending=1)
    assert not destination_status.destination_outcome(behind).transient


def test_a_destination_names_its_incomplete_scopes() -> None:
    """Scopes that could not be read are named."""
    outcome = destination_status.destination_outcome(
        DestinationProgress(
            is_open=True,
            streams=StreamCount(total=2, synced=1, forbidden=1),
            waiting_for=("v1/secrets (forbidden)",),
        )
    )
    synced = outcome.conditions[0]
    assert (synced.status, synced.reason) == ("False", "SnapshotIncomplete")
    assert "v1/secrets" in synced.message


def test_an_error_is_the_reason_of_ready() -> None:
    """Ready repeats the reason and message of the error."""
    error = Stalled("PushRejected", "the hook said no")
    outcome = destination_status.destination_outcome(DestinationProgress(is_open=True, error=error))
    assert (_ready(outcome).status, _ready(outcome).reason) == ("False", "PushRejected")
    assert outcome.stalled


def test_a_destination_that_is_not_watched_is_not_synced() -> None:
    """A reconcile that fails early leaves no Synced=True behind, and adds none to other kinds."""
    failed = failure_outcome(Stalled("AccessDenied", "not shared"))
    row = {"type": "Synced", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    stored = {"status": {"conditions": [row]}}
    (synced,) = destination_status.complete_outcome(stored, failed).conditions
    assert (synced.type, synced.status, synced.reason) == ("Synced", "False", "AccessDenied")
    assert destination_status.complete_outcome({}, failed) == failed
    pending = destination_status.destination_pending("waiting")
    assert destination_status.complete_outcome(stored, pending) == pending
    observed = destination_status.destination_outcome(DestinationProgress(is_open=True))
    assert destination_status.complete_outcome(stored, observed) == observed


def test_the_last_push_has_whole_seconds() -> None:
    """Status never moves without a push."""
    when = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    progress = DestinationProgress(is_open=True, last_commit=_SHA, last_time=when, last_files=3)
    assert destination_status.destination_outcome(progress).fields["lastPush"] == {
        "commit": _SHA,
        "time": "2026-01-02T03:04:05Z",
        "files": 3,
    }


def _rule(
    resolution: RuleResolution,
    *,
    ready: bool = True,
    settled: bool = True,
    failed: tuple[str, ...] = (),
) -> Outcome:
    return status.rule_outcome(
        resolution,
        states={("v1/configmaps", ""): "synced"},
        objects=7,
        destination=Key("ns", "dest"),
        destination_ready=ready,
        destination_settled=settled,
        failed_groups=failed,
    )


_ONE = SelectedScope(GVR("", "v1", "configmaps"), "ns", operation_mask(()), False)


def test_a_rule_that_selects_nothing_waits_for_the_type() -> None:
    """The CRD may still come, so it reconciles and never stalls."""
    outcome = _rule(RuleResolution((), (Unresolved("widgets", "NotServed"),)))
    assert _ready(outcome).reason == "NoResourceResolved"
    assert (outcome.reconciling, outcome.stalled) == (True, False)
    assert outcome.conditions[0].reason == "NotServed"


def test_a_failing_group_is_named_and_takes_no_blame_for_a_typo() -> None:
    """Only an entry of the group itself is degraded; a typo is NotServed in any case."""
    typo, hidden = Unresolved("configmapz", "NotServed"), Unresolved("a.io/*", "DiscoveryDegraded")

    def ready_condition(*rows: Unresolved, failed: tuple[str, ...] = ("a.io",)) -> tuple[str, str]:
        row = _rule(RuleResolution((_ONE,), rows), failed=failed).conditions[0]
        return row.reason, row.message

    reason, text = ready_condition(typo)
    assert reason == "PartlyResolved"
    assert text == (
        "unresolved: configmapz (NotServed); API group a.io cannot be discovered; "
        "check its APIService"
    )
    assert ready_condition(typo, failed=()) == (
        "PartlyResolved",
        "unresolved: configmapz (NotServed)",
    )
    assert ready_condition(hidden)[0] == "DiscoveryDegraded"
    assert "API groups a.io, core cannot be" in ready_condition(hidden, failed=("a.io", ""))[1]
    assert "API group" not in ready_condition(Unresolved("events", "NeverMirrored"))[1]


def test_a_rule_is_ready_only_with_its_destination() -> None:
    """A rule that cannot write says which destination holds it up."""
    outcome = _rule(RuleResolution((_ONE,)), ready=False)
    assert _ready(outcome).reason == "GitDestinationNotReady"
    assert "ns/dest" in _ready(outcome).message


def test_a_rule_waits_for_the_verdict_about_its_destination() -> None:
    """Only a destination that failed is a warning, and then it is one: the reason is new."""
    waiting = _rule(RuleResolution((_ONE,)), ready=False, settled=False)
    assert _ready(waiting) == Verdict("Unknown", "Validating", "waiting for GitDestination ns/dest")
    assert waiting.requeue_after is not None
    failed = _rule(RuleResolution((_ONE,)), ready=False)
    assert (_ready(failed).reason, failed.warns) == ("GitDestinationNotReady", True)
    assert failed.requeue_after is None


def test_a_type_that_two_items_select_is_one_type() -> None:
    """Items with and without includeOwned share one watch and the same files."""
    outcome = _rule(RuleResolution((_ONE, replace(_ONE, include_owned=True))))
    assert _ready(outcome).message == "1 resource type selected"
    assert [row["gvr"] for row in outcome.fields["resolved"]] == ["v1/configmaps"]


def test_a_cluster_wide_stream_answers_for_a_namespace() -> None:
    """The state shown is that of the stream that really runs."""
    outcome = _rule(RuleResolution((_ONE,)))
    assert outcome.fields["resolved"][0]["state"] == "synced"
    assert outcome.fields["objects"] == 7


def test_a_rule_without_streams_is_transient_only_while_its_destination_is_in_order() -> None:
    """A broken destination must show at once; a start leaves the stored status alone."""
    starting = RuleResolution(
        (SelectedScope(GVR("", "v1", "pods"), "ns", operation_mask(()), False),)
    )
    assert _rule(starting).transient
    assert not _rule(starting, ready=False).transient


def _events(progress: DestinationProgress, *before: Condition, is_new: bool = False) -> list[str]:
    stored = (*before, _row("SecretsProtected", "True", "Redacted"))
    report = destination_status.destination_outcome(progress, stored, is_new=is_new)
    return [notice.reason for notice in report.events]


def _row(type_: str, status: Status, reason: str) -> Condition:
    return Condition(type_, status, reason, "")


@pytest.mark.parametrize(
    ("reason", "status"),
    [("Starting", "False"), ("Receiving", "True"), ("NoAdmissionCalls", "False")],
)
def test_attribution_is_reported_from_the_start(reason: AttributionState, status: str) -> None:
    """2.2: Starting until records are complete, then Receiving, or NoAdmissionCalls."""
    outcome = destination_status.destination_outcome(
        DestinationProgress(is_open=True, attributed=reason)
    )
    rows = [row for row in outcome.conditions if row.type == "Attributed"]
    assert [(row.status, row.reason) for row in rows] == [(status, reason)]


def test_a_start_without_changes_is_not_reported() -> None:
    """P11: a restart without a change writes no status; errors are still reported."""
    quiet = DestinationProgress(is_open=True, attributed="Starting", attribution_is_settling=True)
    assert destination_status.destination_outcome(quiet).transient
    assert not destination_status.destination_outcome(
        replace(quiet, attribution_is_settling=False)
    ).transient
    troubled = replace(quiet, error=Stalled("PushRejected", "no"))
    assert not destination_status.destination_outcome(troubled).transient


def test_events_of_attribution_are_transitions() -> None:
    """5.2: lost when calls cease, recovered when they return, nothing in between."""
    lost = DestinationProgress(is_open=True, attributed="NoAdmissionCalls")
    back, starting = replace(lost, attributed="Receiving"), replace(lost, attributed="Starting")
    synced = _row("Synced", "True", "Synced")
    receiving = _row("Attributed", "True", "Receiving")
    silent = _row("Attributed", "False", "NoAdmissionCalls")
    begun = _row("Attributed", "False", "Starting")
    assert _events(lost, synced, receiving) == ["AttributionLost"]
    assert _events(lost, synced, silent) == []
    assert _events(back, synced, silent) == ["AttributionRecovered"]
    assert _events(back, synced) == []
    assert _events(back, synced, begun) == []
    assert _events(starting, synced, receiving) == []
    assert _events(lost, synced, begun) == ["AttributionLost"]


def test_the_first_sync_is_an_event_once() -> None:
    """5.2: after a snapshot that was incomplete later, and after a restart, it is none."""
    done = DestinationProgress(is_open=True, last_commit=_SHA, last_time=_THEN, objects=2)
    assert _events(done) == ["FirstSyncCompleted"]
    assert _events(done, _row("Synced", "False", "Seeding")) == ["FirstSyncCompleted"]
    assert _events(done, _row("Synced", "True", "Synced"), is_new=True) == ["FirstSyncCompleted"]
    waiting = replace(done, is_idle=False, pending=1)
    assert _events(waiting, _row("Synced", "False", "Seeding")) == []
    assert _events(DestinationProgress(is_open=True), _row("Synced", "False", "Seeding")) == []
    assert _events(done, _row("Synced", "False", "SnapshotIncomplete")) == []
    assert _events(done, _row("Synced", "True", "Synced")) == []
    assert _events(DestinationProgress(is_open=True, waiting_for=("v1/secrets (starting)",))) == []


def test_a_remote_that_is_back_is_an_event() -> None:
    """5.2: GitRecovered follows GitUnavailable, when the remote answers again."""
    synced, away = _row("Synced", "True", "Synced"), _row("Ready", "False", "GitUnavailable")
    assert _events(DestinationProgress(is_open=True), synced, away) == ["GitRecovered"]
    still = DestinationProgress(is_open=True, error=Retryable("GitUnavailable", "no route"))
    assert _events(still, synced, away) == []
    assert _events(DestinationProgress(is_open=True), synced, _row("Ready", "True", "Ready")) == []


def test_redaction_is_reported_with_the_first_sync() -> None:
    """5.2: SecretsRedacted explains once how redacted files can be used, with the condition."""
    first = destination_status.destination_outcome(DestinationProgress())
    (notice,) = first.events
    assert notice.reason == "SecretsRedacted"
    assert "cannot be applied" in notice.message
    assert (
        destination_status.destination_outcome(DestinationProgress(), first.conditions).events == ()
    )


def test_what_is_not_mirrored_is_a_warning_once() -> None:
    """5.2: no condition says it, so it is a transition of its own; more of it is none."""
    progress = DestinationProgress(
        is_open=True, refused=(("v1/configmaps/ns/one", "PathOccupied"),)
    )

    def warnings(**before: Any) -> list[str]:
        outcome = destination_status.destination_outcome(progress, fields_before=before)
        alone = [event for event in outcome.events if event.stands_alone]
        assert {event.weight for event in alone} <= {"Warning"}
        return [event.reason for event in alone]

    assert warnings() == warnings(refused=[]) == ["ObjectsRefused"]
    assert warnings(refused=[{"object": "other", "reason": "PathOccupied"}]) == []
