"""Derives the phase of an Environment from its conditions; it is never stored as input.

First match wins:

| # | Phase | When | Ready | Also True |
|---|---|---|---|---|
| 1 | Deleting | it is being deleted | False Deleting | Reconciling |
| 2 | Failed | a condition carries a terminal reason | False, that reason | Stalled |
| 3 | Pending | nothing serves, its Project is missing or blocks it | False | Reconciling |
| 4 | Initializing | namespace, policies or secrets are not ready | False | Reconciling |
| 5 | Building | BuildReady is not True | False | Reconciling |
| 6 | Degraded | the desired revision was Ready, and what runs no longer is | False | - |
| 7 | Deploying | DeploymentReady or IngressReady is not True | False | Reconciling |
| 8 | Ready | all are True | True Succeeded | - |

A condition that is Unknown is under way and not worse: what was Ready and is being replaced is
Deploying. What is Degraded stays so until it is Ready again: a program that crashes in a loop
is under way between two crashes. A reason is terminal until inputs change. Reasons of workloads
and routes are terminal only while the desired revision has never been Ready: later they may heal
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
"""Why IngressReady is False where a bundle brings a route; it keeps nothing from being Ready."""

CONDITIONS = (NAMESPACE, POLICIES, SECRETS, BUILD, DEPLOYMENT, INGRESS)

_FOUNDATIONS = (NAMESPACE, POLICIES, SECRETS)

TERMINAL_REASONS: Mapping[str, frozenset[str]] = {
    NAMESPACE: frozenset({"NamespaceNotOwned", "NamespaceReserved"}),
    POLICIES: frozenset({"QuotaAboveMaximum", "EgressNotAllowed", "EnforcementAbsent"}),
    BUILD: frozenset(
        {
            "SourceUnknown",
            "RepoNotFound",
            "RefNotFound",
            "CommitNotOnRef",
            "GitAuthFailed",
            "HostKeyMismatch",
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


@dataclass(frozen=True, slots=True)
class PhaseContext:
    """What decides beside the conditions."""

    deleting: bool = False
    blocked_reason: str = ""
    blocked_message: str = ""
    is_serving: bool = False
    was_ready: bool = False
    was_degraded: bool = False


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


def derive_phase(conditions: Mapping[str, Condition], around: PhaseContext) -> DerivedPhase:
    """Where an Environment stands, by the table above."""
    if around.deleting:
        return DerivedPhase("Deleting", "Deleting", "everything that was made for it is removed")
    for kind in CONDITIONS:
        row = conditions.get(kind)
        if row is not None and is_terminal(row, was_ready=around.was_ready):
            return DerivedPhase("Failed", row.reason, row.message)
    if around.blocked_reason and not around.is_serving:
        return DerivedPhase("Pending", around.blocked_reason, around.blocked_message)
    first = _first_not_true(conditions)
    if first is None:
        return DerivedPhase("Ready", "Succeeded", "the wished revision runs")
    return DerivedPhase(_unfinished_phase(conditions, around), first.reason, first.message)


def phase_for_ready(phase: str, *, ready: str, stalled: bool, deleting: bool) -> str:
    """The phase that goes with a Ready condition, where a pass ended before it found one.

    `phase` is what was said last. Whoever reads PHASE and READY side by side must never see
    one of them say that it runs and the other that it does not.
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


def is_terminal(row: Condition, *, was_ready: bool) -> bool:
    """Whether nothing happens until inputs change."""
    if row.status == "True" or row.reason not in TERMINAL_REASONS.get(row.type, frozenset()):
        return False
    return not (was_ready and row.reason in _WORKLOAD_REASONS)


def is_failure(row: Condition) -> bool:
    """Whether something went wrong, also where it may heal by itself: that is no progress."""
    if row.status != "False":
        return False
    return row.type == BUILD or row.reason in TERMINAL_REASONS.get(row.type, frozenset())


def _unfinished_phase(conditions: Mapping[str, Condition], around: PhaseContext) -> Phase:
    if not _all_true(conditions, _FOUNDATIONS):
        return "Initializing"
    if not _all_true(conditions, (BUILD,)):
        return "Building"
    rows = (conditions.get(kind) for kind in (DEPLOYMENT, INGRESS))
    is_worse = any(
        row is not None and row.status == "False" and row.reason != ROUTES_NOT_SUPPORTED
        for row in rows
    )
    is_degraded = around.was_ready and (is_worse or around.was_degraded)
    return "Degraded" if is_degraded else "Deploying"


def _first_not_true(conditions: Mapping[str, Condition]) -> Condition | None:
    for kind in CONDITIONS:
        row = conditions.get(kind)
        if row is None:
            return Condition(kind, "Unknown", "Progressing", "it has not been looked at yet")
        if row.status != "True" and row.reason != ROUTES_NOT_SUPPORTED:
            return row
    return None


def _all_true(conditions: Mapping[str, Condition], wanted: tuple[str, ...]) -> bool:
    rows = (conditions.get(kind) for kind in wanted)
    return all(row is not None and row.status == "True" for row in rows)
