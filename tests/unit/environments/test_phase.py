"""The phase of an Environment, derived from its conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.environments import phase
from windlass.environments.phase import (
    BUILD,
    CONDITIONS,
    DEPLOYMENT,
    INGRESS,
    NAMESPACE,
    POLICIES,
    SECRETS,
    Phase,
    PhaseContext,
)
from windlass.objects.condition import Condition

PHASES = get_args(Phase)

ALL = {kind: Condition(kind, "True", "Fine", "") for kind in CONDITIONS}

PLAIN = PhaseContext()


@dataclass(frozen=True)
class Row:
    """One row of the table: conditions that differ from True, circumstances, the phase."""

    phase: Phase
    reason: str
    wrong: tuple[tuple[str, str], ...] = ()
    context: PhaseContext = PLAIN


READY = PhaseContext(was_ready=True)
ROWS = [
    Row("Ready", "Succeeded"),
    Row("Ready", "Succeeded", context=READY),
    Row("Failed", "NamespaceNotOwned", ((NAMESPACE, "NamespaceNotOwned"),)),
    Row("Failed", "NamespaceReserved", ((NAMESPACE, "NamespaceReserved"),)),
    Row("Failed", "QuotaAboveMaximum", ((POLICIES, "QuotaAboveMaximum"),)),
    Row("Failed", "EgressNotAllowed", ((POLICIES, "EgressNotAllowed"),)),
    Row("Failed", "CommitNotOnRef", ((BUILD, "CommitNotOnRef"),)),
    Row("Failed", "KindNotAllowed", ((DEPLOYMENT, "KindNotAllowed"),)),
    Row("Failed", "KindNotAllowed", ((DEPLOYMENT, "KindNotAllowed"),), READY),
    Row("Failed", "CrashLooping", ((DEPLOYMENT, "CrashLooping"),)),
    Row("Degraded", "CrashLooping", ((DEPLOYMENT, "CrashLooping"),), READY),
    Row("Degraded", "QuotaExceeded", ((DEPLOYMENT, "QuotaExceeded"),), READY),
    Row("Degraded", "RolloutProgressing", ((DEPLOYMENT, "RolloutProgressing"),), READY),
    Row("Degraded", "WaitingForBackends", ((INGRESS, "WaitingForBackends"),), READY),
    Row("Failed", "RefNotFound", ((BUILD, "RefNotFound"), (DEPLOYMENT, "CrashLooping"))),
    Row("Failed", "CrashLooping", ((NAMESPACE, "NamespacePending"), (DEPLOYMENT, "CrashLooping"))),
    Row("Initializing", "NamespacePending", ((NAMESPACE, "NamespacePending"),)),
    Row("Initializing", "NamespaceTerminating", ((NAMESPACE, "NamespaceTerminating"),), READY),
    Row("Initializing", "PolicyApplyFailed", ((POLICIES, "PolicyApplyFailed"),)),
    Row("Initializing", "SecretForbidden", ((SECRETS, "SecretForbidden"), (BUILD, "Queued"))),
    Row("Building", "GitUnavailable", ((BUILD, "GitUnavailable"),)),
    Row("Building", "GitUnavailable", ((BUILD, "GitUnavailable"), (DEPLOYMENT, "Applying")), READY),
    Row("Deploying", "Applying", ((DEPLOYMENT, "Applying"),)),
    Row("Deploying", "Unschedulable", ((DEPLOYMENT, "Unschedulable"),)),
    Row("Deploying", "CertificatePending", ((INGRESS, "CertificatePending"),)),
    Row("Ready", "Succeeded", ((INGRESS, phase.ROUTES_NOT_SUPPORTED),), READY),
    Row("Deploying", "Applying", ((DEPLOYMENT, "Applying"), (INGRESS, phase.ROUTES_NOT_SUPPORTED))),
    Row("Failed", "RepoNotFound", ((BUILD, "RepoNotFound"),)),
    Row("Failed", "TLSFailed", ((BUILD, "TLSFailed"),), READY),
]


@pytest.mark.scenario("E30")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.phase}-{row.reason}")
def test_the_table(row: Row) -> None:
    """The first row that matches decides; Deleting and Pending need no conditions."""
    wrong = {kind: Condition(kind, "False", reason, "why") for kind, reason in row.wrong}
    derived = phase.derive_phase({**ALL, **wrong}, row.context)
    assert (derived.phase, derived.reason) == (row.phase, row.reason)


@pytest.mark.scenario("E30")
def test_conditions_that_were_never_checked_are_not_true() -> None:
    """The first reconcile of a new Environment."""
    assert phase.derive_phase({}, PhaseContext()).phase == "Initializing"
    known = {kind: ALL[kind] for kind in (NAMESPACE, POLICIES, SECRETS)}
    assert phase.derive_phase(known, PhaseContext()).phase == "Building"
    known[BUILD] = ALL[BUILD]
    for context in (PhaseContext(), READY):
        derived = phase.derive_phase(known, context)
        assert (derived.phase, derived.reason) == ("Deploying", "Progressing")


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        (READY, "Deploying"),
        (PhaseContext(was_ready=True, was_degraded=True), "Degraded"),
        (PhaseContext(was_degraded=True), "Deploying"),
    ],
)
def test_degraded_ends_with_ready_and_not_before(context: PhaseContext, wanted: str) -> None:
    """Progress between two crashes is no recovery; a new revision starts again."""
    under_way = {DEPLOYMENT: Condition(DEPLOYMENT, "Unknown", "RolloutProgressing", "why")}
    assert phase.derive_phase({**ALL, **under_way}, context).phase == wanted
    assert phase.derive_phase(ALL, context).phase == "Ready"


def test_a_reason_is_terminal_only_where_it_belongs() -> None:
    """The same reason in another condition means something else; with True it means nothing."""
    assert not phase.is_terminal(Condition(BUILD, "False", "CrashLooping", ""), was_ready=False)
    assert not phase.is_terminal(Condition(DEPLOYMENT, "True", "CrashLooping", ""), was_ready=False)


@pytest.mark.parametrize(
    ("word", "stalled", "reconciling"),
    [
        ("Deleting", False, True),
        ("Failed", True, False),
        ("Pending", False, True),
        ("Initializing", False, True),
        ("Building", False, True),
        ("Degraded", False, False),
        ("Deploying", False, True),
        ("Ready", False, False),
    ],
)
def test_stalled_and_reconciling_follow_the_phase(
    word: Phase, stalled: bool, reconciling: bool
) -> None:
    """Failed is stalled; what continues by itself is reconciling."""
    derived = phase.DerivedPhase(word, "x", "y")
    assert (derived.stalled, derived.reconciling) == (stalled, reconciling)


@given(
    st.sampled_from(["", *PHASES]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.booleans(),
    st.booleans(),
)
def test_phase_and_ready_never_contradict(
    previous: str, ready: str, stalled: bool, deleting: bool
) -> None:
    """Whatever was reported last, and however a reconcile ended."""
    agreed = phase.phase_for_ready(previous, ready=ready, stalled=stalled, deleting=deleting)
    assert agreed in PHASES
    if not deleting:
        assert (agreed == "Ready") is (ready == "True")
    assert phase.phase_for_ready(agreed, ready=ready, stalled=stalled, deleting=deleting) == agreed


@pytest.mark.parametrize(
    ("previous", "stalled", "deleting", "agreed"),
    [
        ("Ready", False, False, "Deploying"),
        ("Ready", True, False, "Failed"),
        ("Ready", False, True, "Deleting"),
        ("Building", False, False, "Building"),
        ("", False, False, "Pending"),
    ],
)
def test_the_phase_after_an_internal_error(
    previous: str, stalled: bool, deleting: bool, agreed: str
) -> None:
    """Ready becomes Deploying, Failed or Deleting; other phases stay."""
    assert (
        phase.phase_for_ready(previous, ready="False", stalled=stalled, deleting=deleting) == agreed
    )
