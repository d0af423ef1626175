"""Tests of the verdict about a cluster's network."""

from __future__ import annotations

import pytest

from windlass.environments.decide import enforcement
from windlass.environments.decide.enforcement import Call, Finding, Sight, Verdict, Way

OPEN = Sight("open", "open", 1.0)
KEPT = Sight("shut", "open", 2.5)


@pytest.mark.parametrize(
    ("before", "fenced", "after", "verdict"),
    [
        (Sight("shut", "open", 60), None, None, "Inconclusive"),
        (Sight("open", "shut", 60), None, None, "Inconclusive"),
        (Sight("silent", "silent", 60), None, None, "Inconclusive"),
        (OPEN, Sight("open", "open", 60), None, "NotEnforced"),
        (OPEN, Sight("open", "shut", 60), None, "NotEnforced"),
        (OPEN, Sight("unsteady", "open", 60), None, "Inconclusive"),
        (OPEN, Sight("silent", "open", 60), None, "Inconclusive"),
        (OPEN, Sight("shut", "shut", 60), OPEN, "Inconclusive"),
        (OPEN, Sight("shut", "silent", 60), OPEN, "Inconclusive"),
        (OPEN, KEPT, None, "Inconclusive"),
        (OPEN, KEPT, Sight("shut", "open", 60), "Inconclusive"),
        (OPEN, KEPT, Sight("open", "unsteady", 60), "Inconclusive"),
        (OPEN, KEPT, OPEN, "Enforced"),
    ],
)
def test_the_table(
    before: Sight, fenced: Sight | None, after: Sight | None, verdict: Verdict
) -> None:
    """Enforced is said only where the fence alone can have shut the way."""
    found = enforcement.judged("ingress", before, fenced, after)
    assert found.verdict == verdict
    assert found.seconds == (2.5 if verdict == "Enforced" else None)


def test_why_a_caller_was_not_heard_is_told() -> None:
    """The words of the API server are what helps."""
    silent = Sight("silent", "open", 5, "the log of stranger could not be read: no route")
    assert "no route" in enforcement.judged("egress", silent).message


def _way(*ends: str) -> Way:
    return enforcement.way([Call(number, end == "open") for number, end in enumerate(ends)])


def test_a_way_is_known_by_its_last_calls() -> None:
    """One lost call says nothing."""
    assert _way("shut", "open", "open", "open") == "open"
    assert _way("open", "shut", "shut", "shut") == "shut"
    assert _way("shut", "shut", "open", "shut") == "unsteady"
    assert _way("shut", "shut") == "silent"


def test_the_log_of_a_caller() -> None:
    """Lines of others and a line that is cut off are no calls."""
    log = "1 open\n2 shut\r\nnc: bad address\n3 op"
    assert enforcement.calls(log) == (Call(1, True), Call(2, False))


@pytest.mark.parametrize(
    ("ingress", "egress", "verdict"),
    [
        ("Enforced", "Enforced", "Enforced"),
        ("Enforced", "NotEnforced", "NotEnforced"),
        ("NotEnforced", "Inconclusive", "NotEnforced"),
        ("Enforced", "Inconclusive", "Inconclusive"),
    ],
)
def test_one_word_for_the_cluster(ingress: Verdict, egress: Verdict, verdict: Verdict) -> None:
    """A hole in one direction is a hole, and the advice says what to set."""
    both = [Finding("ingress", ingress, ""), Finding("egress", egress, "")]
    assert enforcement.overall(both) == verdict
    right = "assume" if verdict == "Enforced" else "absent"
    advice = enforcement.advice(verdict)
    assert f"--environments-network-enforcement={right}" in advice


def test_half_a_measurement_is_none() -> None:
    """A direction that nobody measured is not enforced."""
    assert enforcement.overall([Finding("ingress", "Enforced", "")]) == "Inconclusive"
