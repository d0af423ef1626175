"""Tests of the verdict about a cluster's network."""

from __future__ import annotations

import pytest

from windlass.environments.probe import enforcement
from windlass.environments.probe.enforcement import (
    DirectionResult,
    EnforcementVerdict,
    ProbeCall,
    ProbeObservation,
    Reachability,
)

OPEN = ProbeObservation("open", "open", 1.0)
KEPT = ProbeObservation("shut", "open", 2.5)


@pytest.mark.parametrize(
    ("before", "fenced", "after", "verdict"),
    [
        (ProbeObservation("shut", "open", 60), None, None, "Inconclusive"),
        (ProbeObservation("open", "shut", 60), None, None, "Inconclusive"),
        (ProbeObservation("silent", "silent", 60), None, None, "Inconclusive"),
        (OPEN, ProbeObservation("open", "open", 60), None, "NotEnforced"),
        (OPEN, ProbeObservation("open", "shut", 60), None, "NotEnforced"),
        (OPEN, ProbeObservation("unsteady", "open", 60), None, "Inconclusive"),
        (OPEN, ProbeObservation("silent", "open", 60), None, "Inconclusive"),
        (OPEN, ProbeObservation("shut", "shut", 60), OPEN, "Inconclusive"),
        (OPEN, ProbeObservation("shut", "silent", 60), OPEN, "Inconclusive"),
        (OPEN, KEPT, None, "Inconclusive"),
        (OPEN, KEPT, ProbeObservation("shut", "open", 60), "Inconclusive"),
        (OPEN, KEPT, ProbeObservation("open", "unsteady", 60), "Inconclusive"),
        (OPEN, KEPT, OPEN, "Enforced"),
    ],
)
def test_the_table(
    before: ProbeObservation,
    fenced: ProbeObservation | None,
    after: ProbeObservation | None,
    verdict: EnforcementVerdict,
) -> None:
    """Enforced is said only where the fence alone can have shut the way."""
    found = enforcement.judge("ingress", before, fenced, after)
    assert found.verdict == verdict
    assert found.seconds == (2.5 if verdict == "Enforced" else None)


def test_why_a_caller_was_not_heard_is_told() -> None:
    """The words of the API server are what helps."""
    silent = ProbeObservation("silent", "open", 5, "cannot read the log of pod stranger: no route")
    assert "no route" in enforcement.judge("egress", silent).message


def _way(*ends: str) -> Reachability:
    return enforcement.reachability(
        [ProbeCall(number, end == "open") for number, end in enumerate(ends)]
    )


def test_a_way_is_known_by_its_last_calls() -> None:
    """One lost call says nothing."""
    assert _way("shut", "open", "open", "open") == "open"
    assert _way("open", "shut", "shut", "shut") == "shut"
    assert _way("shut", "shut", "open", "shut") == "unsteady"
    assert _way("shut", "shut") == "silent"


def test_the_log_of_a_caller() -> None:
    """Lines of others and a line that is cut off are no calls."""
    log = "1 open\n2 shut\r\nnc: bad address\n3 op"
    assert enforcement.parse_calls(log) == (ProbeCall(1, True), ProbeCall(2, False))


@pytest.mark.parametrize(
    ("ingress", "egress", "verdict"),
    [
        ("Enforced", "Enforced", "Enforced"),
        ("Enforced", "NotEnforced", "NotEnforced"),
        ("NotEnforced", "Inconclusive", "NotEnforced"),
        ("Enforced", "Inconclusive", "Inconclusive"),
    ],
)
def test_one_word_for_the_cluster(
    ingress: EnforcementVerdict, egress: EnforcementVerdict, verdict: EnforcementVerdict
) -> None:
    """A hole in one direction is a hole, and the advice says what to set."""
    both = [DirectionResult("ingress", ingress, ""), DirectionResult("egress", egress, "")]
    assert enforcement.overall_verdict(both) == verdict
    right = "assume" if verdict == "Enforced" else "absent"
    advice = enforcement.advice(verdict)
    assert f"--environments-network-enforcement={right}" in advice


def test_half_a_measurement_is_none() -> None:
    """A direction that nobody measured is not enforced."""
    assert (
        enforcement.overall_verdict([DirectionResult("ingress", "Enforced", "")]) == "Inconclusive"
    )
