"""The one word an Environment is in, derived from its conditions."""

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
    around: PhaseContext = PLAIN


READY = PhaseContext(was_ready=True)
HELD = PhaseContext(blocked_reason="ProjectNotFound", blocked_message="no Project")
ROWS = [
    Row("Ready", "Succeeded"),
    Row("Ready", "Succeeded", around=READY),
    Row("Deleting", "Deleting", around=PhaseContext(deleting=True)),
    Row("Deleting", "Deleting", ((DEPLOYMENT, "KindNotAllowed"),), PhaseContext(deleting=True)),
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
    Row("Pending", "ProjectNotFound", ((NAMESPACE, "NamespacePending"),), HELD),
    Row("Pending", "ProjectNotFound", (), HELD),
    Row("Failed", "KindNotAllowed", ((DEPLOYMENT, "KindNotAllowed"),), HELD),
    Row(
        "Ready",
        "Succeeded",
        (),
        PhaseContext(blocked_reason="ProjectSuspended", blocked_message="x", is_serving=True),
    ),
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
]


@pytest.mark.scenario("E30")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.phase}-{row.reason}")
def test_the_table(row: Row) -> None:
    """The first row that fits speaks, with the reason of the first condition that is not True."""
    wrong = {kind: Condition(kind, "False", reason, "why") for kind, reason in row.wrong}
    found = phase.derive_phase({**ALL, **wrong}, row.around)
    assert (found.phase, found.reason) == (row.phase, row.reason)


@pytest.mark.scenario("E30")
def test_what_was_never_looked_at_is_not_true() -> None:
    """The first pass over a new Environment."""
    assert phase.derive_phase({}, PhaseContext()).phase == "Initializing"
    known = {kind: ALL[kind] for kind in (NAMESPACE, POLICIES, SECRETS)}
    assert phase.derive_phase(known, PhaseContext()).phase == "Building"
    known[BUILD] = ALL[BUILD]
    for around in (PhaseContext(), READY):
        found = phase.derive_phase(known, around)
        assert (found.phase, found.reason) == ("Deploying", "Progressing")


@pytest.mark.parametrize(
    ("around", "wanted"),
    [
        (READY, "Deploying"),
        (PhaseContext(was_ready=True, was_degraded=True), "Degraded"),
        (PhaseContext(was_degraded=True), "Deploying"),
    ],
)
def test_degraded_ends_with_ready_and_not_before(around: PhaseContext, wanted: str) -> None:
    """Between two crashes it is under way, which is no recovery; a new revision begins anew."""
    under_way = {DEPLOYMENT: Condition(DEPLOYMENT, "Unknown", "RolloutProgressing", "why")}
    assert phase.derive_phase({**ALL, **under_way}, around).phase == wanted
    assert phase.derive_phase(ALL, around).phase == "Ready"


def test_a_reason_is_terminal_only_where_it_belongs() -> None:
    """The same word in another condition means something else; a True one means nothing."""
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
def test_what_readers_of_conditions_see(word: Phase, stalled: bool, reconciling: bool) -> None:
    """Failed is stalled; what goes on by itself is reconciling."""
    found = phase.DerivedPhase(word, "x", "y")
    assert (found.stalled, found.reconciling) == (stalled, reconciling)


@given(
    st.sampled_from(["", *PHASES]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.booleans(),
    st.booleans(),
)
def test_phase_and_ready_never_contradict(
    said: str, ready: str, stalled: bool, deleting: bool
) -> None:
    """Whatever was said last, and however a pass ended."""
    agreed = phase.phase_for_ready(said, ready=ready, stalled=stalled, deleting=deleting)
    assert agreed in PHASES
    if not deleting:
        assert (agreed == "Ready") is (ready == "True")
    assert phase.phase_for_ready(agreed, ready=ready, stalled=stalled, deleting=deleting) == agreed


@pytest.mark.parametrize(
    ("said", "stalled", "deleting", "agreed"),
    [
        ("Ready", False, False, "Deploying"),
        ("Ready", True, False, "Failed"),
        ("Ready", False, True, "Deleting"),
        ("Building", False, False, "Building"),
        ("", False, False, "Pending"),
    ],
)
def test_the_phase_after_a_fault(said: str, stalled: bool, deleting: bool, agreed: str) -> None:
    """It runs no longer for all that is known; what was under way still is."""
    assert phase.phase_for_ready(said, ready="False", stalled=stalled, deleting=deleting) == agreed
