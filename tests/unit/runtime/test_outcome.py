"""Outcomes and how gates are joined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.objects.condition import Condition
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict, join_outcomes

FINE = Outcome(Verdict("True", "Ready", "fine"))
BUSY = Outcome(Verdict("False", "GitRepoConfigNotReady", "soon"), reconciling=True)
STUCK = Outcome(Verdict("False", "AccessDenied", "ask"), stalled=True)


def test_stalled_wins_over_reconciling() -> None:
    """No later gate can turn Stalled into Reconciling by setting a flag."""
    outcome = replace(STUCK, reconciling=True)
    assert outcome.stalled
    assert not outcome.reconciling


@pytest.mark.parametrize("gates", [(STUCK, BUSY, FINE), (FINE, BUSY, STUCK), (BUSY, STUCK, FINE)])
def test_the_gravest_gate_speaks(gates: tuple[Outcome, ...]) -> None:
    """Whatever the order of the gates, Stalled stays."""
    outcome = join_outcomes(*gates)
    assert outcome.stalled
    assert not outcome.reconciling
    assert outcome.ready == STUCK.ready


def test_of_equals_the_first_speaks() -> None:
    """Two waits: the first reason is told."""
    later = Outcome(Verdict("False", "Validating", "later"), reconciling=True)
    assert join_outcomes(BUSY, later).ready == BUSY.ready


def test_gone_wins_over_all() -> None:
    """An object that is gone has nothing more to say."""
    assert join_outcomes(STUCK, Outcome.gone()).is_gone


def test_joining_adds_up() -> None:
    """Conditions, fields and events of all gates are kept; the shortest wait wins."""
    notice = OutcomeEvent("Normal", "Synced", "m")
    first = replace(
        FINE, requeue_after=60, fields={"a": 1, "b": 1}, withdrawn=frozenset({"Gate", "Old"})
    )
    second = replace(
        FINE,
        requeue_after=30,
        fields={"b": 2},
        conditions=(Condition("Gate", "True", "Open", ""),),
        events=(notice,),
    )
    outcome = join_outcomes(first, second, BUSY)
    assert outcome.requeue_after == 30
    assert outcome.fields == {"a": 1, "b": 2}
    assert [row.type for row in outcome.conditions] == ["Gate"]
    assert outcome.withdrawn == {"Old"}
    assert outcome.events == (notice,)


@pytest.mark.parametrize("name", ["Ready", "Reconciling", "Stalled"])
def test_the_summary_types_are_not_for_conditions(name: str) -> None:
    """Only the summariser says Ready, Reconciling and Stalled."""
    with pytest.raises(ValueError, match="set by ready"):
        replace(FINE, conditions=(Condition(name, "True", "X", ""),))
    with pytest.raises(ValueError, match="set by ready"):
        replace(FINE, withdrawn=frozenset({name}))


def test_a_type_is_said_once() -> None:
    """Two rows of one type would be refused by the API server."""
    row = Condition("Gate", "True", "Open", "")
    with pytest.raises(ValueError, match="twice"):
        replace(FINE, conditions=(row, row))
