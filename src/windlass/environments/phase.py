"""Derives the phase of an Environment from its conditions; it is never stored as input.

First match wins:

| # | Phase | When | Ready | Also True |
|---|---|---|---|---|
| 1 | Deleting | it is being deleted | False Deleting | Reconciling |
| 2 | Pending | nothing serves, and its Project blocks it | False | Reconciling |
| 3 | Failed | a condition carries a terminal reason | False, that reason | Stalled |
| 4 | Initializing | namespace, policies or secrets are not ready | False | Reconciling |
| 5 | Building | BuildReady is not True | False | Reconciling |
| 6 | Degraded | the desired revision was Ready, and what runs no longer is | False | - |
| 7 | Deploying | DeploymentReady or IngressReady is not True | False | Reconciling |
| 8 | Ready | all are True | True Succeeded | - |

The first two are reported by `deletion` and `preconditions`, before any step runs.
A condition that is Unknown is in progress and not worse: what was Ready and is being replaced is
Deploying. What is Degraded stays so until it is Ready again: a program that crashes in a loop
is in progress between two crashes. A terminal reason holds until inputs change. Reasons of
workloads are terminal only while the desired revision has never been Ready: later they may heal
by themselves, and the phase is Degraded.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from windlass.objects.condition import Condition

Phase = Literal[
    "Deleting",
    "Failed",
    "Pending",
    "Initializing",
    "Building",
    "Degraded",
    "Deploying",
    "Ready",
]

NAMESPACE = "NamespaceReady"
POLICIES = "PoliciesReady"
SECRETS = "SecretsReady"
BUILD = "BuildReady"
DEPLOYMENT = "DeploymentReady"
INGRESS = "IngressReady"
ROUTES_NOT_SUPPORTED = "RoutesNotSupported"
"""Reason of IngressReady if a bundle contains a route; the only one that does not prevent Ready."""

CONDITIONS = (NAMESPACE, POLICIES, SECRETS, BUILD, DEPLOYMENT, INGRESS)

_FOUNDATIONS = (NAMESPACE, POLICIES, SECRETS)
"""Conditions that must be True before anything is resolved, rendered or applied."""

TERMINAL_REASONS: Mapping[str, frozenset[str]] = {
    NAMESPACE: frozenset({"NamespaceNotOwned", "NamespaceReserved"}),
    POLICIES: frozenset({"QuotaAboveMaximum", "EgressNotAllowed", "EnforcementAbsent"}),
    BUILD: frozenset(
        {
            "SourceUnknown",
            "ConfigInvalid",
            "RepoNotFound",
            "RefNotFound",
            "CommitNotOnRef",
            "CommitUnreachable",
            "GitAuthFailed",
            "HostBlocked",
            "HostKeyMismatch",
            "HostKeyUnknown",
            "InsecureTransport",
            "TLSFailed",
            "SourceTooLarge",
            "UnsafePath",
        }
    ),
    DEPLOYMENT: frozenset(
        {
            "TemplateMissing",
            "ModeMismatch",
            "ConfigInvalid",
            "RenderFailed",
            "RenderTooLarge",
            "SandboxUnavailable",
            "KindNotAllowed",
            "KindUnknown",
            "ApiVersionNotSupported",
            "FieldNotAllowed",
            "TokenNotAllowed",
            "LimitAboveMaximum",
            "ImageMissing",
            "NameReserved",
            "ApplyForbidden",
            "ImmutableField",
            "HookFailed",
            "RolloutStuck",
            "QuotaExceeded",
            "PodSecurityDenied",
            "ImagePullFailed",
            "CrashLooping",
            "OutOfMemory",
        }
    ),
}
_WORKLOAD_REASONS = frozenset(
    {
        "RolloutStuck",
        "QuotaExceeded",
        "PodSecurityDenied",
        "ImagePullFailed",
        "CrashLooping",
        "OutOfMemory",
    }
)
"""Terminal reasons that may heal by themselves once the revision has been Ready."""

_WARNED_REASONS = frozenset({"Contested", "Unschedulable"})
"""Reasons that are never terminal and yet no progress: others, or a node, have to act."""


@dataclass(frozen=True, slots=True)
class PhaseContext:
    """What the phase depends on beside the conditions."""

    was_ready: bool = False  # the desired revision has been Ready before
    was_degraded: bool = False  # the phase in the status is Degraded


@dataclass(frozen=True, slots=True)
class DerivedPhase:
    """The phase, and the condition that explains it."""

    phase: Phase
    reason: str
    message: str

    @property
    def stalled(self) -> bool:
        return self.phase == "Failed"

    @property
    def reconciling(self) -> bool:
        return self.phase not in {"Failed", "Degraded", "Ready"}


def derive_phase(
    conditions: Mapping[str, Condition], context: PhaseContext, *, revision: int = 0
) -> DerivedPhase:
    """The phase by the table above; `revision` is the number of the desired one."""
    for kind in CONDITIONS:
        row = conditions.get(kind)
        if row is not None and is_terminal(row, was_ready=context.was_ready):
            return DerivedPhase("Failed", row.reason, row.message)
    first = _first_not_true(conditions)
    if first is None:
        return DerivedPhase("Ready", "Succeeded", f"Revision {revision} is ready")
    return DerivedPhase(_unfinished_phase(conditions, context), first.reason, first.message)


def phase_for_ready(phase: str, *, ready: str, stalled: bool, deleting: bool) -> str:
    """The phase that agrees with a Ready condition, for a reconcile that ended without a phase.

    `phase` is the last reported one. PHASE and READY are columns side by side and must never
    contradict each other.
    """
    if (phase == "Ready") is (ready == "True") and phase:
        return phase
    if deleting:
        return "Deleting"
    if ready == "True":
        return "Ready"
    if stalled:
        return "Failed"
    return "Deploying" if phase else "Pending"


def unchecked_policies(reason: str, cause: str) -> Condition:
    """PoliciesReady of a namespace whose isolation is not checked; no phase follows from it."""
    return Condition(POLICIES, "Unknown", reason, f"not checked: {cause}")


def is_terminal(row: Condition, *, was_ready: bool) -> bool:
    """Whether a condition carries a reason that only a change of inputs can resolve."""
    if row.status == "True" or row.reason not in TERMINAL_REASONS.get(row.type, frozenset()):
        return False
    return not (was_ready and row.reason in _WORKLOAD_REASONS)


def is_failure(row: Condition) -> bool:
    """Whether a condition reports an error rather than progress, also one that may heal."""
    if row.status != "False":
        return False
    terminal = TERMINAL_REASONS.get(row.type, frozenset())
    return row.type == BUILD or row.reason in terminal | _WARNED_REASONS


def _unfinished_phase(conditions: Mapping[str, Condition], context: PhaseContext) -> Phase:
    if not _all_true(conditions, _FOUNDATIONS):
        return "Initializing"
    if not _all_true(conditions, (BUILD,)):
        return "Building"
    rows = (conditions.get(kind) for kind in (DEPLOYMENT, INGRESS))
    is_worse = any(
        row is not None and row.status == "False" and row.reason != ROUTES_NOT_SUPPORTED
        for row in rows
    )
    is_degraded = context.was_ready and (is_worse or context.was_degraded)
    return "Degraded" if is_degraded else "Deploying"


def _first_not_true(conditions: Mapping[str, Condition]) -> Condition | None:
    for kind in CONDITIONS:
        row = conditions.get(kind)
        if row is None:
            return Condition(kind, "Unknown", "Progressing", "not checked yet")
        if row.status != "True" and row.reason != ROUTES_NOT_SUPPORTED:
            return row
    return None


def _all_true(conditions: Mapping[str, Condition], required: tuple[str, ...]) -> bool:
    rows = (conditions.get(kind) for kind in required)
    return all(row is not None and row.status == "True" for row in rows)
