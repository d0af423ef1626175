"""Rules that every outcome keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.objects.condition import Condition
from windlass.runtime.outcome import Outcome, Verdict

FINE = Outcome(Verdict("True", "Ready", "fine"))
STUCK = Outcome(Verdict("False", "AccessDenied", "ask"), stalled=True)


def test_stalled_wins_over_reconciling() -> None:
    """No later gate can turn Stalled into Reconciling by setting a flag."""
    outcome = replace(STUCK, reconciling=True)
    assert outcome.stalled
    assert not outcome.reconciling


@pytest.mark.parametrize("name", ["Ready", "Reconciling", "Stalled"])
def test_the_summary_types_are_not_for_conditions(name: str) -> None:
    """Only the status summary sets Ready, Reconciling and Stalled."""
    with pytest.raises(ValueError, match="set by ready"):
        replace(FINE, conditions=(Condition(name, "True", "X", ""),))
    with pytest.raises(ValueError, match="set by ready"):
        replace(FINE, withdrawn=frozenset({name}))


def test_a_condition_type_occurs_once() -> None:
    """The API server would reject two rows of one type."""
    row = Condition("Gate", "True", "Open", "")
    with pytest.raises(ValueError, match="twice"):
        replace(FINE, conditions=(row, row))
