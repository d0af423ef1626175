"""The one summariser."""

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


def after(
    old: dict[str, Any], outcome: Outcome, *, seconds: float = 0, generation: int = 1, **more: Any
) -> dict[str, Any]:
    """The status after one more pass."""
    now = START + timedelta(seconds=seconds)
    return status.build_status(old, outcome, generation=generation, now=now, **more)


def types(status: dict[str, Any]) -> dict[str, str]:
    """Condition types and statuses."""
    return {row["type"]: row["status"] for row in status["conditions"]}


@pytest.mark.scenario("A108")
@pytest.mark.parametrize(
    ("outcome", "said", "judgement"),
    [
        (FINE, {"Ready": "True"}, "Current"),
        (BUSY, {"Ready": "False", "Reconciling": "True"}, "InProgress"),
        (STUCK, {"Ready": "False", "Stalled": "True"}, "Failed"),
        (replace(STUCK, reconciling=True), {"Ready": "False", "Stalled": "True"}, "Failed"),
        (replace(FINE, reconciling=True), {"Ready": "True", "Reconciling": "True"}, "InProgress"),
    ],
)
def test_kstatus_reads_what_was_meant(
    outcome: Outcome, said: dict[str, str], judgement: str
) -> None:
    """Ready always, Reconciling or Stalled only while True, and the reader understands."""
    for old in ({}, after({}, FINE), after({}, BUSY), after({}, STUCK)):
        status = after(old, outcome)
        assert types(status) == said
        assert kstatus.judge(1, status) == judgement
        assert kstatus.judge(2, status) == "InProgress"


@pytest.mark.scenario("A108")
@pytest.mark.parametrize(
    ("old", "status", "judgement"),
    [(FINE, "True", "Current"), (STUCK, "False", "InProgress"), (None, "Unknown", "InProgress")],
)
def test_suspended_keeps_the_last_ready(old: Outcome | None, status: str, judgement: str) -> None:
    """A suspended object says Suspended and keeps the status it had."""
    before = after({}, old) if old else {}
    new = after(before, Outcome.suspended("by spec.suspend"), seconds=9)
    assert types(new) == {"Ready": status}
    assert new["conditions"][0]["reason"] == "Suspended"
    assert kstatus.judge(1, new) == judgement
    if old:
        assert new["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.scenario("A109")
def test_a_hundred_equal_passes_write_nothing() -> None:
    """Transition times are stable and a pass that finds the same is no patch."""
    annotations = {ANNOTATIONS[0]: "go"}
    outcome = replace(FINE, fields={"objects": 3, "nested": {"a": [1]}})
    first = after({}, outcome, annotations=annotations)
    for seconds in range(1, 101):
        again = after(first, outcome, seconds=seconds, annotations=annotations)
        assert status.status_patch(first, again) is None
    assert first["lastHandledReconcileAt"] == "go"


def test_no_terminal_obeys_a_message() -> None:
    """Control characters, NUL included, are shown as escapes; line feeds stay."""
    status = after({}, Outcome(Verdict("False", "PushRejected", "no\x00w\x1b[2J\nend")))
    (ready,) = status["conditions"]
    assert ready["message"] == "no\\u0000w\\u001b[2J\nend"


def test_transition_time_moves_with_the_status_only() -> None:
    """A new reason keeps the time, a new status moves it."""
    first = after({}, FINE)
    second = after(first, replace(FINE, ready=Verdict("True", "Idle", "x")), seconds=5)
    third = after(second, BUSY, seconds=9)
    times = [row["conditions"][0]["lastTransitionTime"] for row in (first, second)]
    assert times == ["2026-01-01T00:00:00Z"] * 2
    assert third["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:09Z"


def test_conditions_and_fields_that_are_not_named_stay() -> None:
    """A failing pass says nothing about the rest of the status and leaves it."""
    gate = Condition("ResourcesResolved", "True", "AllResolved", "3 types")
    good = after({}, replace(FINE, conditions=(gate,), fields={"objects": 3, "error": "x"}))
    bad = after(good, replace(BUSY, fields={"error": None}), generation=2, seconds=5)
    assert types(bad)["ResourcesResolved"] == "True"
    assert bad["objects"] == 3
    assert "error" not in bad
    kept = next(row for row in bad["conditions"] if row["type"] == "ResourcesResolved")
    assert kept["observedGeneration"] == 1
    assert bad["observedGeneration"] == 2


def test_a_withdrawn_condition_goes() -> None:
    """A condition that no longer applies can be taken back."""
    gate = Condition("Degraded", "True", "Slow", "")
    status = after({}, replace(FINE, conditions=(gate,)))
    assert types(after(status, replace(FINE, withdrawn=frozenset({"Degraded"})))) == {
        "Ready": "True"
    }


@pytest.mark.parametrize(
    "rows",
    [None, "x", [None, 5, {}], [{"type": "Ready", "status": "Maybe"}], [{"type": 5}]],
)
def test_a_malformed_status_is_put_right(rows: object) -> None:
    """What others broke in the status does not stop a pass."""
    assert types(after({"conditions": rows}, FINE)) == {"Ready": "True"}


def test_a_message_carries_no_credential() -> None:
    """Condition messages are redacted and cut."""
    outcome = Outcome(Verdict("False", "AuthFailed", "https://u:p4ss@h/x refused " + "y" * 9000))
    [row] = after({}, outcome)["conditions"]
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
def test_the_patch_says_the_difference_only(
    old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any] | None
) -> None:
    """Equal is None, gone is null, lists are replaced whole."""
    assert status.status_patch(old, new) == patch


def test_transitions_are_what_was_not_said_before() -> None:
    """A new message is no transition; a new reason is."""
    first = after({}, FINE)
    assert status.transitions({}, first) == {("Ready", "True", "Ready")}
    assert not status.transitions(first, after(first, Outcome(Verdict("True", "Ready", "new"))))
    assert status.transitions(first, after(first, STUCK)) == {
        ("Ready", "False", "AccessDenied"),
        ("Stalled", "True", "AccessDenied"),
    }
