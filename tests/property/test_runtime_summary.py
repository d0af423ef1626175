"""The status summary over arbitrary histories."""

from __future__ import annotations

import itertools
import random
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies.batched import maps_of_json, row, substitute_numbers
from tests.unit.runtime import kstatus
from tests.unit.runtime.fakes import START, merged
from windlass.objects.condition import Condition
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.status import ANNOTATIONS

STATUSES = ("True", "False", "Unknown")
REASONS = ("Ready", "Validating", "AccessDenied")
NAMES = ("alpha", "beta", "gamma", "x", "y", "z")
FIELDS = st.builds(
    lambda shape, text: substitute_numbers(
        shape, (None, False, True, *range(-3, 4), "", "a", text, text)
    ),
    maps_of_json(range(14), NAMES, 20),
    st.text(max_size=3),
)
MOMENTS = (None, "", "go", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")
EXTRAS = ((), ("Gate",), ("Fresh",), ("Gate", "Fresh"), ("Fresh", "Gate"))
WITHDRAWN = (
    frozenset[str](),
    frozenset({"Old"}),
    frozenset({"Older"}),
    frozenset({"Old", "Older"}),
)
PREVIOUS_STATUSES = (STATUSES, REASONS, range(4))


def _pass(
    reported: tuple[Any, ...], texts: tuple[str, str], fields: dict[str, Any]
) -> tuple[Outcome, int, dict[str, str]]:
    """An outcome, its generation, the pending request."""
    messages = ("", "a", *texts)
    stalled, reconciling, withdrawn, extras, generation = reported[:5]
    ready, conditions = reported[5:8], {"Gate": reported[8:11], "Fresh": reported[11:14]}
    requested = dict(zip(ANNOTATIONS, reported[14:], strict=True))
    outcome = Outcome(
        ready=Verdict(ready[0], ready[1], messages[ready[2]]),
        stalled=stalled,
        reconciling=reconciling,
        conditions=tuple(
            Condition(kind, status, reason, messages[text])
            for kind in extras
            for status, reason, text in (conditions[kind],)
        ),
        withdrawn=withdrawn,
        fields=fields,
    )
    return outcome, generation, {name: text for name, text in requested.items() if text is not None}


PASS = st.builds(
    _pass,
    row(
        (False, True),
        (False, True),
        WITHDRAWN,
        EXTRAS,
        (1, 2, 3),
        *((*STATUSES, None), REASONS, range(4)),
        *PREVIOUS_STATUSES,
        *PREVIOUS_STATUSES,
        *[MOMENTS] * len(ANNOTATIONS),
    ),
    st.tuples(st.text(max_size=8), st.text(max_size=8)),
    FIELDS,
)
OUTCOMES = PASS.map(lambda one: one[0])
PASSES = st.lists(PASS, min_size=1, max_size=5)


def played(passes: list[tuple[Outcome, int, dict[str, str]]]) -> list[dict[str, Any]]:
    """The statuses after each of a series of reconciles, a minute apart."""
    statuses: list[dict[str, Any]] = [{}]
    for minute, (outcome, generation, requested) in enumerate(passes):
        now = START + timedelta(minutes=minute)
        statuses.append(
            runtime_status.build_status(
                statuses[-1], outcome, generation=generation, now=now, annotations=requested
            )
        )
    return statuses


def rows(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Conditions by type."""
    return {row["type"]: row for row in status.get("conditions", [])}


@given(PASSES)
def test_the_same_outcome_again_writes_nothing(
    passes: list[tuple[Outcome, int, dict[str, str]]],
) -> None:
    """After any history, summarizing an outcome twice is no patch."""
    *_, before, after = played([*passes, passes[-1]])
    assert runtime_status.status_patch(before, after) is None


@given(PASSES)
def test_transition_times_change_with_the_status_only(
    passes: list[tuple[Outcome, int, dict[str, str]]],
) -> None:
    """A condition's time is that of the reconcile that changed its status."""
    statuses = played(passes)
    for minute, (before, after) in enumerate(itertools.pairwise(statuses)):
        now = runtime_status.timestamp(START + timedelta(minutes=minute))
        for name, reported in rows(after).items():
            known = rows(before).get(name)
            kept = known is not None and known["status"] == reported["status"]
            assert reported["lastTransitionTime"] == (known["lastTransitionTime"] if kept else now)


@given(PASSES)
def test_kstatus_always_agrees(passes: list[tuple[Outcome, int, dict[str, str]]]) -> None:
    """Stalled is failed, Reconciling is in progress, never both, and Ready is always set."""
    status = played(passes)[-1]
    outcome, generation, _ = passes[-1]
    reported = rows(status)
    assert "Ready" in reported
    assert not ("Stalled" in reported and "Reconciling" in reported)
    assert all(
        reported[name]["status"] == "True"
        for name in ("Stalled", "Reconciling")
        if name in reported
    )
    assert kstatus.judge(generation + 1, status) == "InProgress"
    if outcome.stalled:
        assert kstatus.judge(generation, status) == "Failed"
    elif outcome.reconciling:
        assert kstatus.judge(generation, status) == "InProgress"


def mixed(old: Any, other: Any, chance: random.Random) -> Any:
    """A mixture of both: fields and items are kept, exchanged and omitted, at any depth."""
    if isinstance(old, list):
        return chance.choice([old, other, old[:-1], [*old, other]])
    if not isinstance(old, dict) or not isinstance(other, dict):
        return chance.choice([old, other])
    result = {}
    for name in sorted({*old, *other}):
        there = [side[name] for side in (old, other) if name in side]
        if chance.random() < 0.8:
            result[name] = mixed(there[0], there[-1] if len(there) > 1 else {}, chance)
    return result


@given(old=FIELDS, other=FIELDS, seed=st.integers(0, 2**16))
def test_the_patch_leads_from_old_to_new(
    old: dict[str, Any], other: dict[str, Any], seed: int
) -> None:
    """Applied as the API server does, a patch yields the new status, then nothing more."""
    new = mixed(old, other, random.Random(seed))
    stored = without_null(old)
    patch = runtime_status.status_patch(stored, new)
    result = stored if patch is None else merged(stored, patch)
    assert without_null(result) == without_null(new)
    assert runtime_status.status_patch(without_null(result), new) is None


def without_null(value: Any) -> Any:
    """As the server stores it: a null field is no field."""
    if isinstance(value, dict):
        return {name: without_null(inner) for name, inner in value.items() if inner is not None}
    return [without_null(inner) for inner in value] if isinstance(value, list) else value
