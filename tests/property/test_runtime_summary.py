"""The summariser over arbitrary histories."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime import kstatus
from tests.unit.runtime.fakes import START, merged
from windlass.objects.condition import Condition
from windlass.runtime import summary
from windlass.runtime.outcome import Outcome, Verdict, joined
from windlass.runtime.requests import ANNOTATIONS

STATUSES = st.sampled_from(["True", "False", "Unknown"])
REASONS = st.sampled_from(["Ready", "Validating", "AccessDenied"])
TEXTS = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from(["alpha", "beta", "gamma"]), VALUES)
EXTRAS = st.lists(
    st.builds(Condition, st.sampled_from(["Gate", "Fresh"]), STATUSES, REASONS, TEXTS),
    max_size=2,
    unique_by=lambda row: row.type,
).map(tuple)
OUTCOMES = st.builds(
    Outcome,
    ready=st.builds(Verdict, STATUSES | st.none(), REASONS, TEXTS),
    stalled=st.booleans(),
    reconciling=st.booleans(),
    conditions=EXTRAS,
    withdrawn=st.frozensets(st.sampled_from(["Old", "Older"])),
    fields=FIELDS,
)
MOMENTS = st.sampled_from(["", "go", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"])
REQUESTS = st.dictionaries(st.sampled_from(ANNOTATIONS), MOMENTS)
PASSES = st.lists(st.tuples(OUTCOMES, st.integers(1, 3), REQUESTS), min_size=1, max_size=5)


def played(passes: list[tuple[Outcome, int, dict[str, str]]]) -> list[dict[str, Any]]:
    """The statuses that a series of passes leaves behind, a minute apart."""
    statuses: list[dict[str, Any]] = [{}]
    for minute, (outcome, generation, asked) in enumerate(passes):
        now = START + timedelta(minutes=minute)
        statuses.append(
            summary.summarise(
                statuses[-1], outcome, generation=generation, now=now, annotations=asked
            )
        )
    return statuses


def rows(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Conditions by type."""
    return {row["type"]: row for row in status.get("conditions", [])}


@given(PASSES)
def test_the_same_pass_again_writes_nothing(
    passes: list[tuple[Outcome, int, dict[str, str]]],
) -> None:
    """Whatever came before, summarising an outcome twice is no patch."""
    *_, before, after = played([*passes, passes[-1]])
    assert summary.status_patch(before, after) is None


@given(PASSES)
def test_transition_times_move_with_the_status_only(
    passes: list[tuple[Outcome, int, dict[str, str]]],
) -> None:
    """A condition's time is that of the pass that changed its status."""
    statuses = played(passes)
    for minute, (before, after) in enumerate(itertools.pairwise(statuses)):
        now = summary.timestamp(START + timedelta(minutes=minute))
        for name, row in rows(after).items():
            known = rows(before).get(name)
            kept = known is not None and known["status"] == row["status"]
            assert row["lastTransitionTime"] == (known["lastTransitionTime"] if kept else now)


@given(PASSES)
def test_kstatus_always_understands(passes: list[tuple[Outcome, int, dict[str, str]]]) -> None:
    """Stalled is failed, Reconciling is in progress, never both, and Ready is always there."""
    status = played(passes)[-1]
    outcome, generation, _ = passes[-1]
    said = rows(status)
    assert "Ready" in said
    assert not ("Stalled" in said and "Reconciling" in said)
    assert all(
        said[name]["status"] == "True" for name in ("Stalled", "Reconciling") if name in said
    )
    assert kstatus.judge(generation + 1, status) == "InProgress"
    if outcome.stalled:
        assert kstatus.judge(generation, status) == "Failed"
    elif outcome.reconciling:
        assert kstatus.judge(generation, status) == "InProgress"


@given(st.lists(OUTCOMES, min_size=1, max_size=5), st.integers(0, 4))
def test_no_order_of_gates_hides_a_stalled_one(gates: list[Outcome], place: int) -> None:
    """Wherever the stalled gate stands, the object is failed and not in progress."""
    stuck = Outcome(Verdict("False", "AccessDenied", "ask"), stalled=True)
    gates.insert(place, stuck)
    outcome = replace(joined(*gates), reconciling=True)
    status = summary.summarise({}, outcome, generation=1, now=START)
    assert kstatus.judge(1, status) == "Failed"


@given(old=FIELDS, new=FIELDS)
def test_the_patch_leads_from_old_to_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Applied as the API server does it, a patch yields the new status, then nothing more."""
    stored = without_null(old)
    patch = summary.status_patch(stored, new)
    result = stored if patch is None else merged(stored, patch)
    assert without_null(result) == without_null(new)
    assert summary.status_patch(without_null(result), new) is None


def without_null(value: Any) -> Any:
    """As the server stores it: a null field is no field."""
    if isinstance(value, dict):
        return {name: without_null(inner) for name, inner in value.items() if inner is not None}
    return [without_null(inner) for inner in value] if isinstance(value, list) else value
