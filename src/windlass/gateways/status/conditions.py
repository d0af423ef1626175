"""Builds the Outcome of a reconcile, with its conditions, from what it found (2.5).

The first finding that applies decides Ready; the others keep their own conditions:

| finding | Ready | besides | requeued after |
|---|---|---|---|
| spec.paused | False/Paused | - | - |
| no commit resolved | False/CloneFailed | Stalled with the cause, or Reconciling | by cause |
| the profiles are invalid | False/ProfilesInvalid | Stalled | 5 min |
| the API key is missing | False/ApiKeyMissing | Reconciling | 15 s |
| no gateway | False/NoGatewaysDiscovered | - | poll |
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
"""Reasons of gateways that nobody but a person can take away."""

_MESSAGE_CHARS = 1024
_ABBREV = 7
_PAUSED_TEXT = "spec.paused is true: gateways stay as they are"
_TRUST_TEXT = {
    "HostVerified": "the host proves who it is",
    "HostKeyCheckDisabled": "any host key is accepted (insecureSkipHostKeyCheck); somebody in "
    "between can change what is fetched",
    "InsecureTransport": "the transport is neither encrypted nor authenticated; use https or ssh",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """What a pass found out.

    `source` is the commit in force, also while a newer question has no answer: then
    `failure` says why. `tally` is None where the pods are not known. `due_seconds` is when
    the remote or a Secret is looked at again.
    """

    canonical_url: str
    source: CommitSource | None
    fleet: FleetStatus | None
    trust: SourceTrust = "HostVerified"
    failure: WindlassError | None = None
    problems: tuple[str, ...] = ()
    api_key_problem: Waiting | None = None
    first_synced: FirstSynced | None = None
    step_errors: tuple[str, ...] = ()
    is_paused: bool = False
    due_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _ReadyState:
    """What Ready says, and how grave it is."""

    verdict: Verdict
    stalled: bool = False
    reconciling: bool = False
    because: str = ""
    after: float | None = None
    backoff: bool = False
    warns: bool = False


def build_outcome(found: Findings) -> Outcome:
    """The outcome of a pass, by the table above."""
    word = _ready_state(found)
    key = found.api_key_problem.after if found.api_key_problem is not None else None
    waits = [wait for wait in (word.after, found.due_seconds, key) if wait is not None]
    return Outcome(
        ready=word.verdict,
        stalled=word.stalled,
        reconciling=word.reconciling,
        because=word.because,
        conditions=_conditions(found),
        fields=_status_fields(found),
        requeue_after=min(waits, default=None),
        backoff=word.backoff or bool(found.step_errors),
        transient=word.backoff,
        warns=word.warns,
        # A pause is somebody's wish, not a failure.
        events=(OutcomeEvent("Normal", "Paused", _PAUSED_TEXT),) if found.is_paused else (),
    )


def _ready_state(found: Findings) -> _ReadyState:
    if found.is_paused:
        return _ReadyState(_not_ready("Paused", _PAUSED_TEXT))
    if found.failure is not None:
        return _clone_failed(found.failure)
    if found.problems:
        text = spec_check.join_problems(found.problems)
        return _ReadyState(_not_ready("ProfilesInvalid", text), stalled=True, after=STALLED_SECONDS)
    if found.api_key_problem is not None:
        text = f"{found.api_key_problem.message}; files are synced, but gateways are not scanned"
        return _ReadyState(
            _not_ready("ApiKeyMissing", text),
            reconciling=True,
            because="Reconciling",
            after=found.api_key_problem.after,
            warns=True,
        )
    if found.fleet is None:
        return _ReadyState(
            _not_ready("Reconciling", "the pods are not known yet"), reconciling=True
        )
    return _fleet_state(found, found.fleet)


def _clone_failed(error: WindlassError) -> _ReadyState:
    verdict = _not_ready("CloneFailed", _failure_text(error))
    if isinstance(error, Stalled):
        return _ReadyState(verdict, stalled=True, because=error.reason)
    return _ReadyState(verdict, reconciling=True, because="Reconciling", warns=True)


def _failure_text(error: WindlassError) -> str:
    return f"{error.reason}: {error.message}{failures.remedy(error.reason)}"


def _fleet_state(found: Findings, tally: FleetStatus) -> _ReadyState:
    if not tally.gateways:
        text = "no pod asks to be a gateway: annotate it with ignition-sync.io/inject=true"
        return _ReadyState(_not_ready("NoGatewaysDiscovered", text))
    if tally.failing:
        return _sync_failed(tally)
    if not tally.all_synced:
        return _ReadyState(
            _not_ready(
                "SyncInProgress", f"{tally.message}; wanted is {_ref_at_commit(found.source)}"
            ),
            reconciling=True,
        )
    if found.step_errors:
        text = "; ".join(found.step_errors)
        return _ReadyState(_not_ready("Reconciling", text), reconciling=True, backoff=True)
    return _ReadyState(
        Verdict("True", "SyncSucceeded", f"{tally.message} with {_ref_at_commit(found.source)}")
    )


def _sync_failed(tally: FleetStatus) -> _ReadyState:
    worst = next(
        (one for one in tally.failing if one.reason in USER_ACTION_REASONS), tally.failing[0]
    )
    more = (
        f"; also {gateway_status.join_names(_others(tally, worst))}"
        if len(tally.failing) > 1
        else ""
    )
    verdict = _not_ready("SyncFailed", f"{tally.message}: {_gateway_failure_text(worst)}{more}")
    if worst.reason in USER_ACTION_REASONS:
        return _ReadyState(verdict, stalled=True, because=worst.reason, after=STALLED_SECONDS)
    return _ReadyState(verdict, reconciling=True, because="SyncInProgress", warns=True)


def _others(tally: FleetStatus, worst: GatewaySyncStatus) -> tuple[GatewaySyncStatus, ...]:
    return tuple(one for one in tally.failing if one is not worst)


def _gateway_failure_text(one: GatewaySyncStatus) -> str:
    reason = one.reason or one.status
    return f"{one.gateway.name}: {reason}: {one.message}" if one.message else reason


def _conditions(found: Findings) -> tuple[Condition, ...]:
    rows = [_profiles_valid(found.problems)]
    if not found.is_paused:
        rows.append(_repo_cloned(found))
    if found.source is not None and found.failure is None:
        rows.append(_source_trusted(found.trust))
    if found.fleet is not None:
        rows.append(_all_synced(found.fleet))
    return tuple(rows)


def _repo_cloned(found: Findings) -> Condition:
    if found.failure is not None:
        text = _failure_text(found.failure)
        return Condition(REPO_CLONED, "False", "CloneFailed", text[:_MESSAGE_CHARS])
    if found.source is None:
        return Condition(REPO_CLONED, "False", "SyncInProgress", "the remote is being asked")
    return Condition(REPO_CLONED, "True", "CloneSucceeded", found.source.commit)


def _all_synced(tally: FleetStatus) -> Condition:
    if not tally.gateways:
        return Condition(ALL_SYNCED, "False", "NoGatewaysDiscovered", tally.message)
    if tally.all_synced:
        return Condition(ALL_SYNCED, "True", "SyncSucceeded", tally.message)
    reason = "SyncFailed" if tally.failing else "SyncInProgress"
    return Condition(ALL_SYNCED, "False", reason, tally.message)


def _profiles_valid(problems: tuple[str, ...]) -> Condition:
    if problems:
        text = spec_check.join_problems(problems)[:_MESSAGE_CHARS]
        return Condition(PROFILES_VALID, "False", "ProfilesInvalid", text)
    return Condition(PROFILES_VALID, "True", "ProfilesValid", "the routing can be used")


def _source_trusted(trust: SourceTrust) -> Condition:
    status: Literal["True", "False"] = "True" if trust == "HostVerified" else "False"
    return Condition(SOURCE_TRUSTED, status, trust, _TRUST_TEXT[trust])


def _status_fields(found: Findings) -> dict[str, JSON]:
    fields: dict[str, JSON] = {
        "lastSyncTime": format_time(found.first_synced.time)
        if found.first_synced is not None
        else None,
    }
    if not found.is_paused:
        # A pause asks nobody, so what was said about the repository stays, as RepoCloned does.
        fields["source"] = _source_status(found)
        fields["repoCloneStatus"] = _clone_status(found)
    if found.source is not None:
        fields["lastSyncRef"] = found.source.ref
        fields["lastSyncCommit"] = found.source.commit
        fields["lastSyncCommitShort"] = found.source.commit[:_ABBREV]
    if found.fleet is not None:
        fields["gatewayCounts"] = msgspec.to_builtins(found.fleet.counts)
        fields["discoveredGateways"] = summary.status_rows(found.fleet) or None
    return fields


def _source_status(found: Findings) -> JSON:
    cause = found.failure.reason if found.failure is not None else ""
    return msgspec.to_builtins(SourceStatus(canonical_url=found.canonical_url, cause=cause))


def _clone_status(found: Findings) -> str:
    if found.failure is not None:
        return "Error"
    return "Cloned" if found.source is not None else "NotCloned"


def _ref_at_commit(source: CommitSource | None) -> str:
    return f"{source.ref}@{source.commit[:_ABBREV]}" if source is not None else "no commit yet"


def _not_ready(reason: str, message: str) -> Verdict:
    return Verdict("False", reason, message[:_MESSAGE_CHARS])
