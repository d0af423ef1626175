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
    ("before", "isolated", "after", "verdict"),
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
    isolated: ProbeObservation | None,
    after: ProbeObservation | None,
    verdict: EnforcementVerdict,
) -> None:
    """Enforced means that the policies alone can have blocked the connection."""
    result = enforcement.judge("ingress", before, isolated, after)
    assert result.verdict == verdict
    assert result.seconds == (2.5 if verdict == "Enforced" else None)


def test_why_the_log_of_a_caller_is_missing_is_reported() -> None:
    """With the message of the API server."""
    silent = ProbeObservation("silent", "open", 5, "cannot read the log of pod stranger: no route")
    assert "no route" in enforcement.judge("egress", silent).message


def _way(*ends: str) -> Reachability:
    return enforcement.reachability(
        [ProbeCall(number, end == "open") for number, end in enumerate(ends)]
    )


def test_a_connection_is_judged_by_its_last_calls() -> None:
    """One lost call proves nothing."""
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
def test_one_verdict_for_the_cluster(
    ingress: EnforcementVerdict, egress: EnforcementVerdict, verdict: EnforcementVerdict
) -> None:
    """One open direction means not enforced, and the advice names the flag."""
    both = [DirectionResult("ingress", ingress, ""), DirectionResult("egress", egress, "")]
    assert enforcement.overall_verdict(both) == verdict
    right = "assume" if verdict == "Enforced" else "absent"
    advice = enforcement.advice(verdict)
    assert f"--environments-network-enforcement={right}" in advice


def test_half_a_measurement_is_inconclusive() -> None:
    """A direction that was not measured does not count as enforced."""
    assert (
        enforcement.overall_verdict([DirectionResult("ingress", "Enforced", "")]) == "Inconclusive"
    )
