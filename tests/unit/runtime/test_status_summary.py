"""The status summary that every controller shares."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.runtime import kstatus
from tests.unit.runtime.fakes import START
from windlass.objects.condition import Condition
from windlass.runtime import status
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.status import ANNOTATIONS

FINE = Outcome(Verdict("True", "Ready", "fine"))
BUSY = Outcome(Verdict("False", "Validating", "soon"), reconciling=True)
STUCK = Outcome(Verdict("False", "AccessDenied", "ask"), stalled=True)


def status_after(
    old: dict[str, Any], outcome: Outcome, *, seconds: float = 0, generation: int = 1, **more: Any
) -> dict[str, Any]:
    """The status after one more reconcile."""
    now = START + timedelta(seconds=seconds)
    return status.build_status(old, outcome, generation=generation, now=now, **more)


def types(status: dict[str, Any]) -> dict[str, str]:
    """Condition types and statuses."""
    return {row["type"]: row["status"] for row in status["conditions"]}


@pytest.mark.scenario("A108")
@pytest.mark.parametrize(
    ("outcome", "statuses", "judgement"),
    [
        (FINE, {"Ready": "True"}, "Current"),
        (BUSY, {"Ready": "False", "Reconciling": "True"}, "InProgress"),
        (STUCK, {"Ready": "False", "Stalled": "True"}, "Failed"),
        (replace(STUCK, reconciling=True), {"Ready": "False", "Stalled": "True"}, "Failed"),
        (replace(FINE, reconciling=True), {"Ready": "True", "Reconciling": "True"}, "InProgress"),
    ],
)
def test_kstatus_reads_the_intended_state(
    outcome: Outcome, statuses: dict[str, str], judgement: str
) -> None:
    """Ready always, Reconciling or Stalled only while True, and kstatus agrees."""
    for old in ({}, status_after({}, FINE), status_after({}, BUSY), status_after({}, STUCK)):
        status = status_after(old, outcome)
        assert types(status) == statuses
        assert kstatus.judge(1, status) == judgement
        assert kstatus.judge(2, status) == "InProgress"


@pytest.mark.scenario("A108")
@pytest.mark.parametrize(
    ("old", "status", "judgement"),
    [(FINE, "True", "Current"), (STUCK, "False", "InProgress"), (None, "Unknown", "InProgress")],
)
def test_suspended_keeps_the_last_ready(old: Outcome | None, status: str, judgement: str) -> None:
    """A suspended object has reason Suspended and keeps its last status."""
    before = status_after({}, old) if old else {}
    new = status_after(before, Outcome.suspended("by spec.suspend"), seconds=9)
    assert types(new) == {"Ready": status}
    assert new["conditions"][0]["reason"] == "Suspended"
    assert kstatus.judge(1, new) == judgement
    if old:
        assert new["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.scenario("A109")
def test_a_hundred_equal_reconciles_write_nothing() -> None:
    """Transition times are stable, and an equal outcome is no patch."""
    annotations = {ANNOTATIONS[0]: "go"}
    outcome = replace(FINE, fields={"objects": 3, "nested": {"a": [1]}})
    first = status_after({}, outcome, annotations=annotations)
    for seconds in range(1, 101):
        again = status_after(first, outcome, seconds=seconds, annotations=annotations)
        assert status.status_patch(first, again) is None
    assert first["lastHandledReconcileAt"] == "go"


def test_control_characters_in_a_message_are_escaped() -> None:
    """NUL included; line feeds stay."""
    status = status_after({}, Outcome(Verdict("False", "PushRejected", "no\x00w\x1b[2J\nend")))
    (ready,) = status["conditions"]
    assert ready["message"] == "no\\u0000w\\u001b[2J\nend"


def test_transition_time_changes_with_the_status_only() -> None:
    """A new reason keeps the time, a new status changes it."""
    first = status_after({}, FINE)
    second = status_after(first, replace(FINE, ready=Verdict("True", "Idle", "x")), seconds=5)
    third = status_after(second, BUSY, seconds=9)
    times = [row["conditions"][0]["lastTransitionTime"] for row in (first, second)]
    assert times == ["2026-01-01T00:00:00Z"] * 2
    assert third["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:09Z"


def test_conditions_and_fields_that_are_not_named_stay() -> None:
    """A failed reconcile leaves the rest of the status unchanged."""
    gate = Condition("ResourcesResolved", "True", "AllResolved", "3 types")
    good = status_after({}, replace(FINE, conditions=(gate,), fields={"objects": 3, "error": "x"}))
    bad = status_after(good, replace(BUSY, fields={"error": None}), generation=2, seconds=5)
    assert types(bad)["ResourcesResolved"] == "True"
    assert bad["objects"] == 3
    assert "error" not in bad
    kept = next(row for row in bad["conditions"] if row["type"] == "ResourcesResolved")
    assert kept["observedGeneration"] == 1
    assert bad["observedGeneration"] == 2


def test_a_withdrawn_condition_is_removed() -> None:
    """A condition that no longer applies can be removed."""
    gate = Condition("Degraded", "True", "Slow", "")
    status = status_after({}, replace(FINE, conditions=(gate,)))
    assert types(status_after(status, replace(FINE, withdrawn=frozenset({"Degraded"})))) == {
        "Ready": "True"
    }


@pytest.mark.parametrize(
    "rows",
    [None, "x", [None, 5, {}], [{"type": "Ready", "status": "Maybe"}], [{"type": 5}]],
)
def test_a_malformed_status_is_corrected(rows: object) -> None:
    """Invalid status fields of other writers do not fail a reconcile."""
    assert types(status_after({"conditions": rows}, FINE)) == {"Ready": "True"}


def test_a_message_carries_no_credential() -> None:
    """Condition messages are redacted and cut."""
    outcome = Outcome(Verdict("False", "AuthFailed", "https://u:p4ss@h/x refused " + "y" * 9000))
    [row] = status_after({}, outcome)["conditions"]
    assert "p4ss" not in row["message"]
    assert len(row["message"]) <= 4096


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, None),
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": 1.0}, None),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": [1]}, {"a": [True]}, {"a": [True]}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({}, {"a": None}, None),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "z": 3}}, {"a": {"y": None, "z": 3}}),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": None}}, None),
        ({"a": 5}, {"a": {}}, {"a": {}}),
        ({}, {"a": {"x": None}}, {"a": {}}),
        ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
        ({"a": [{"x": 1}]}, {"a": [{"x": 1, "y": None}]}, None),
    ],
)
def test_the_patch_has_only_the_difference(
    old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any] | None
) -> None:
    """Equal is None, removed is null, lists are replaced whole."""
    assert status.status_patch(old, new) == patch


def test_transitions_are_new_statuses_or_reasons() -> None:
    """A new message is not a transition."""
    first = status_after({}, FINE)
    assert status.transitions({}, first) == {("Ready", "True", "Ready")}
    assert not status.transitions(
        first, status_after(first, Outcome(Verdict("True", "Ready", "new")))
    )
    assert status.transitions(first, status_after(first, STUCK)) == {
        ("Ready", "False", "AccessDenied"),
        ("Stalled", "True", "AccessDenied"),
    }
