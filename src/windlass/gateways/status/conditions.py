"""Builds the Outcome of a reconcile, with conditions and status fields, from its findings (2.5).

The first finding that applies decides Ready; the others keep their own conditions:

| finding | Ready | besides | requeued after |
|---|---|---|---|
| spec.paused | False/Paused | - | - |
| no commit resolved | False/CloneFailed | Stalled with the cause, or Reconciling | by cause |
| the profiles are invalid | False/ProfilesInvalid | Stalled | 5 min |
| the API key is missing | False/ApiKeyMissing | Reconciling | 15 s |
| no gateway | False/NoGatewaysDiscovered | Reconciling until a commit is resolved | poll |
| a gateway that needs a person | False/SyncFailed | Stalled with its reason | 5 min |
| another failing gateway | False/SyncFailed | Reconciling | poll |
| gateways in progress | False/SyncInProgress | Reconciling | poll |
| the cluster could not be read or written | False/Reconciling | Reconciling | backoff |
| none | True/SyncSucceeded | - | poll |

InvalidSpec comes before all of these: such a reconcile ends with an error of that reason.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from windlass.api.kinds.ignitionsync_status import SourceStatus
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.gateways.status import gateway_status, spec_check, summary
from windlass.gateways.status.gateway_status import FleetStatus, GatewaySyncStatus
from windlass.gateways.status.summary import FirstSynced
from windlass.gateways.wire.agent_report import format_time
from windlass.gateways.wire.metadata import CommitSource
from windlass.git.format import failures
from windlass.objects.condition import Condition
from windlass.objects.names import JSON
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

REPO_CLONED = "RepoCloned"
ALL_SYNCED = "AllGatewaysSynced"
PROFILES_VALID = "ProfilesValid"
SOURCE_TRUSTED = "SourceTrusted"

STALLED_SECONDS = 300.0

SourceTrust = Literal["HostVerified", "HostKeyCheckDisabled", "InsecureTransport"]

USER_ACTION_REASONS = frozenset(
    {
        "SourceMissing",
        "NoRouting",
        "MappingTypeMismatch",
        "ScriptsProjectUnknown",
        "TemplateError",
        "ConfigSyntaxError",
        "UnsafePath",
        "LfsPointer",
        "TooLarge",
        "MassDeleteGuard",
        "DuplicateSystemName",
        "VolumeLocked",
        "ScanUnauthorized",
        "ScanUnsupported",
        "RolledBack",
        "SourceVolumeMissing",
    }
)
"""Failure reasons of gateways that persist until a user changes something."""

_MESSAGE_CHARS = 1024
_ABBREV = 7
_PAUSED_TEXT = "spec.paused is true; gateways are left unchanged"
_TRUST_TEXT = {
    "HostVerified": "the Git host is verified",
    "HostKeyCheckDisabled": (
        "host key verification is disabled (insecureSkipHostKeyCheck); fetched files can be "
        "tampered with in transit"
    ),
    "InsecureTransport": "the transport is neither encrypted nor authenticated; use https or ssh",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of all steps of a reconcile, collected by the reconciler."""

    canonical_url: str  # the repository in canonical form, without credentials
    source: CommitSource | None  # the commit in force, also an older one while polls fail
    fleet: FleetStatus | None  # None while the pods are not known
    trust: SourceTrust = "HostVerified"  # how the Git host is authenticated
    failure: WindlassError | None = None  # why the last poll or Git Secret failed
    problems: tuple[str, ...] = ()  # why the profiles are invalid; empty if they are valid
    api_key_problem: Waiting | None = None  # why gateways cannot be scanned
    first_synced: FirstSynced | None = None  # when all gateways had a commit; None for never yet
    step_errors: tuple[str, ...] = ()  # API errors, one text per step
    is_paused: bool = False  # spec.paused
    due_seconds: float | None = None  # until the next poll or read of a Secret; None for never


@dataclass(frozen=True, slots=True)
class _ReadyState:
    """One row of the table above."""

    verdict: Verdict  # status, reason and message of Ready
    stalled: bool = False  # Stalled is True: only a user can help
    reconciling: bool = False  # Reconciling is True: progress is expected
    because: str = ""  # reason of Stalled or Reconciling; empty for that of Ready
    after: float | None = None  # seconds until the next reconcile; None if this row needs none
    backoff: bool = False  # retried with the queue's backoff, and Ready True is kept meanwhile
    warns: bool = False  # a Warning Event although Stalled is not set


def build_outcome(findings: Findings) -> Outcome:
    """The outcome of a reconcile, by the table above."""
    state = _ready_state(findings)
    api_key_wait = findings.api_key_problem.after if findings.api_key_problem is not None else None
    waits = [wait for wait in (state.after, findings.due_seconds, api_key_wait) if wait is not None]
    return Outcome(
        ready=state.verdict,
        stalled=state.stalled,
        reconciling=state.reconciling,
        because=state.because,
        conditions=_conditions(findings),
        fields=_status_fields(findings),
        requeue_after=min(waits, default=None),
        backoff=state.backoff or bool(findings.step_errors),
        transient=state.backoff,
        warns=state.warns,
        # A pause is intended by a user, so its Event is Normal.
        events=(OutcomeEvent("Normal", "Paused", _PAUSED_TEXT),) if findings.is_paused else (),
    )


def _ready_state(findings: Findings) -> _ReadyState:
    if findings.is_paused:
        return _ReadyState(_not_ready("Paused", _PAUSED_TEXT))
    if findings.failure is not None:
        return _clone_failed(findings.failure)
    if findings.problems:
        text = spec_check.join_problems(findings.problems)
        return _ReadyState(_not_ready("ProfilesInvalid", text), stalled=True, after=STALLED_SECONDS)
    if findings.api_key_problem is not None:
        text = f"{findings.api_key_problem.message}; files are synced, but gateways are not scanned"
        return _ReadyState(
            _not_ready("ApiKeyMissing", text),
            reconciling=True,
            because="Reconciling",
            after=findings.api_key_problem.after,
            warns=True,
        )
    if findings.fleet is None:
        return _ReadyState(
            _not_ready("Reconciling", "waiting for the list of pods"), reconciling=True
        )
    return _fleet_state(findings, findings.fleet)


def _clone_failed(error: WindlassError) -> _ReadyState:
    verdict = _not_ready("CloneFailed", _failure_text(error))
    if isinstance(error, Stalled):
        return _ReadyState(verdict, stalled=True, because=error.reason)
    return _ReadyState(verdict, reconciling=True, because="Reconciling", warns=True)


def _failure_text(error: WindlassError) -> str:
    return f"{error.reason}: {error.message}{failures.remedy(error.reason)}"


def _fleet_state(findings: Findings, fleet: FleetStatus) -> _ReadyState:
    if not fleet.gateways:
        text = "no gateway pods found; annotate a pod with ignition-sync.io/inject=true"
        # Without a commit the remote is still being asked: an earlier failure is not over.
        is_resolving = findings.source is None
        return _ReadyState(_not_ready("NoGatewaysDiscovered", text), reconciling=is_resolving)
    if fleet.failing:
        return _sync_failed(fleet)
    if not fleet.all_synced:
        text = f"{fleet.message}; {_waiting_text(fleet, findings.source)}"
        return _ReadyState(_not_ready("SyncInProgress", text), reconciling=True)
    if findings.step_errors:
        text = "; ".join(findings.step_errors)
        return _ReadyState(_not_ready("Reconciling", text), reconciling=True, backoff=True)
    return _ReadyState(
        Verdict("True", "SyncSucceeded", f"{fleet.message} to {_ref_at_commit(findings.source)}")
    )


def _sync_failed(fleet: FleetStatus) -> _ReadyState:
    worst = next(
        (member for member in fleet.failing if member.reason in USER_ACTION_REASONS),
        fleet.failing[0],
    )
    more = (
        f"; also failing: {gateway_status.join_names(_others(fleet, worst))}"
        if len(fleet.failing) > 1
        else ""
    )
    verdict = _not_ready("SyncFailed", f"{fleet.message}: {_gateway_failure_text(worst)}{more}")
    if worst.reason in USER_ACTION_REASONS:
        return _ReadyState(verdict, stalled=True, because=worst.reason, after=STALLED_SECONDS)
    return _ReadyState(verdict, reconciling=True, because="SyncInProgress", warns=True)


def _waiting_text(fleet: FleetStatus, source: CommitSource | None) -> str:
    """Which gateways are not at the commit yet; which commit."""
    if source is None:
        return "waiting for a commit"
    late = tuple(member for member in fleet.gateways if member.is_counted and not member.is_synced)
    return f"waiting for {gateway_status.join_names(late)} to reach {_ref_at_commit(source)}"


def _others(fleet: FleetStatus, worst: GatewaySyncStatus) -> tuple[GatewaySyncStatus, ...]:
    return tuple(member for member in fleet.failing if member is not worst)


def _gateway_failure_text(member: GatewaySyncStatus) -> str:
    text = f"{member.gateway.name}: {member.reason or member.status}"
    return f"{text}: {member.message}" if member.message else text


def _conditions(findings: Findings) -> tuple[Condition, ...]:
    conditions = [_profiles_valid(findings.problems)]
    if not findings.is_paused:
        conditions.append(_repo_cloned(findings))
    if findings.source is not None and findings.failure is None:
        conditions.append(_source_trusted(findings.trust))
    if findings.fleet is not None:
        conditions.append(_all_synced(findings.fleet))
    return tuple(conditions)


def _repo_cloned(findings: Findings) -> Condition:
    if findings.failure is not None:
        text = _failure_text(findings.failure)
        return Condition(REPO_CLONED, "False", "CloneFailed", text[:_MESSAGE_CHARS])
    if findings.source is None:
        return Condition(REPO_CLONED, "False", "SyncInProgress", "checking the remote")
    return Condition(REPO_CLONED, "True", "CloneSucceeded", findings.source.commit)


def _all_synced(fleet: FleetStatus) -> Condition:
    if not fleet.gateways:
        return Condition(ALL_SYNCED, "False", "NoGatewaysDiscovered", fleet.message)
    if fleet.all_synced:
        return Condition(ALL_SYNCED, "True", "SyncSucceeded", fleet.message)
    reason = "SyncFailed" if fleet.failing else "SyncInProgress"
    return Condition(ALL_SYNCED, "False", reason, fleet.message)


def _profiles_valid(problems: tuple[str, ...]) -> Condition:
    if problems:
        text = spec_check.join_problems(problems)[:_MESSAGE_CHARS]
        return Condition(PROFILES_VALID, "False", "ProfilesInvalid", text)
    return Condition(PROFILES_VALID, "True", "ProfilesValid", "profiles and mappings are valid")


def _source_trusted(trust: SourceTrust) -> Condition:
    status: Literal["True", "False"] = "True" if trust == "HostVerified" else "False"
    return Condition(SOURCE_TRUSTED, status, trust, _TRUST_TEXT[trust])


def _status_fields(findings: Findings) -> dict[str, JSON]:
    fields: dict[str, JSON] = {
        "lastSyncTime": format_time(findings.first_synced.time)
        if findings.first_synced is not None
        else None,
    }
    if not findings.is_paused:
        # While paused the remote is not polled: what was reported about it stays, as RepoCloned.
        fields["source"] = _source_status(findings)
        fields["repoCloneStatus"] = _clone_status(findings)
    if findings.source is not None:
        fields["lastSyncRef"] = findings.source.ref
        fields["lastSyncCommit"] = findings.source.commit
        fields["lastSyncCommitShort"] = findings.source.commit[:_ABBREV]
    if findings.fleet is not None:
        fields["gatewayCounts"] = msgspec.to_builtins(findings.fleet.counts)
        fields["discoveredGateways"] = summary.status_rows(findings.fleet) or None
    return fields


def _source_status(findings: Findings) -> JSON:
    cause = findings.failure.reason if findings.failure is not None else ""
    return msgspec.to_builtins(SourceStatus(canonical_url=findings.canonical_url, cause=cause))


def _clone_status(findings: Findings) -> str:
    if findings.failure is not None:
        return "Error"
    return "Cloned" if findings.source is not None else "NotCloned"


def _ref_at_commit(source: CommitSource | None) -> str:
    if source is None:
        return "no commit yet"
    commit = source.commit[:_ABBREV]
    return commit if source.ref == source.commit else f"{source.ref}@{commit}"


def _not_ready(reason: str, message: str) -> Verdict:
    return Verdict("False", reason, message[:_MESSAGE_CHARS])
