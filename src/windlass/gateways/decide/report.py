"""What a pass says about an IgnitionSync: one list of findings in, one Outcome out (2.5).

The first that applies speaks as Ready; the others keep their own conditions:

| finding | Ready | besides | looked at again |
|---|---|---|---|
| spec.paused | False/Paused | - | - |
| no commit is to be had | False/CloneFailed | Stalled with the cause, or Reconciling | by cause |
| the profiles cannot be used | False/ProfilesInvalid | Stalled | 5 min |
| the API key is missing | False/ApiKeyMissing | Reconciling | 15 s |
| no gateway | False/NoGatewaysDiscovered | - | poll |
| a gateway that will not come by itself | False/SyncFailed | Stalled with its reason | 5 min |
| another failing gateway | False/SyncFailed | Reconciling | poll |
| gateways under way | False/SyncInProgress | Reconciling | poll |
| the cluster could not be read or written | False/Reconciling | Reconciling | backoff |
| none | True/SyncSucceeded | - | poll |

InvalidSpec stands before all of these: such a pass ends with an error of that reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from windlass.api.kinds.ignitionsync_status import SourceStatus
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.gateways.decide import gateway_rows, spec_check, standing
from windlass.gateways.decide.metadata import Source
from windlass.gateways.decide.reached import Reached
from windlass.gateways.decide.standing import Standing, Tally
from windlass.gateways.decide.status_report import written
from windlass.git.format import failures
from windlass.objects.condition import Condition
from windlass.objects.names import JSON
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

REPO_CLONED = "RepoCloned"
ALL_SYNCED = "AllGatewaysSynced"
PROFILES_VALID = "ProfilesValid"
SOURCE_TRUSTED = "SourceTrusted"

STALLED_SECONDS = 300.0

Trust = Literal["HostVerified", "HostKeyCheckDisabled", "InsecureTransport"]

PERSON_NEEDED = frozenset(
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
_SHORT = 7
_PAUSED = "spec.paused is true: gateways stay as they are"
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
    source: Source | None
    tally: Tally | None
    trust: Trust = "HostVerified"
    failure: WindlassError | None = None
    problems: tuple[str, ...] = ()
    api_key: Waiting | None = None
    reached: Reached | None = None
    faults: tuple[str, ...] = ()
    is_paused: bool = False
    due_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Word:
    """What Ready says, and how grave it is."""

    verdict: Verdict
    stalled: bool = False
    reconciling: bool = False
    because: str = ""
    after: float | None = None
    backoff: bool = False
    warns: bool = False


def outcome(found: Findings) -> Outcome:
    """The outcome of a pass, by the table above."""
    word = _word(found)
    key = found.api_key.after if found.api_key is not None else None
    waits = [wait for wait in (word.after, found.due_seconds, key) if wait is not None]
    return Outcome(
        ready=word.verdict,
        stalled=word.stalled,
        reconciling=word.reconciling,
        because=word.because,
        conditions=_conditions(found),
        fields=_fields(found),
        requeue_after=min(waits, default=None),
        backoff=word.backoff or bool(found.faults),
        transient=word.backoff,
        warns=word.warns,
        # A pause is somebody's wish, not a failure.
        events=(OutcomeEvent("Normal", "Paused", _PAUSED),) if found.is_paused else (),
    )


def _word(found: Findings) -> _Word:
    if found.is_paused:
        return _Word(_no("Paused", _PAUSED))
    if found.failure is not None:
        return _clone_failed(found.failure)
    if found.problems:
        text = spec_check.sentence(found.problems)
        return _Word(_no("ProfilesInvalid", text), stalled=True, after=STALLED_SECONDS)
    if found.api_key is not None:
        text = f"{found.api_key.message}; files are synced, but gateways are not scanned"
        return _Word(
            _no("ApiKeyMissing", text),
            reconciling=True,
            because="Reconciling",
            after=found.api_key.after,
            warns=True,
        )
    if found.tally is None:
        return _Word(_no("Reconciling", "the pods are not known yet"), reconciling=True)
    return _of_gateways(found, found.tally)


def _clone_failed(error: WindlassError) -> _Word:
    verdict = _no("CloneFailed", _cause(error))
    if isinstance(error, Stalled):
        return _Word(verdict, stalled=True, because=error.reason)
    return _Word(verdict, reconciling=True, because="Reconciling", warns=True)


def _cause(error: WindlassError) -> str:
    return f"{error.reason}: {error.message}{failures.remedy(error.reason)}"


def _of_gateways(found: Findings, tally: Tally) -> _Word:
    if not tally.standings:
        text = "no pod asks to be a gateway: annotate it with ignition-sync.io/inject=true"
        return _Word(_no("NoGatewaysDiscovered", text))
    if tally.failing:
        return _sync_failed(tally)
    if not tally.all_synced:
        return _Word(
            _no("SyncInProgress", f"{tally.message}; wanted is {_at(found.source)}"),
            reconciling=True,
        )
    if found.faults:
        text = "; ".join(found.faults)
        return _Word(_no("Reconciling", text), reconciling=True, backoff=True)
    return _Word(Verdict("True", "SyncSucceeded", f"{tally.message} with {_at(found.source)}"))


def _sync_failed(tally: Tally) -> _Word:
    worst = next((one for one in tally.failing if one.reason in PERSON_NEEDED), tally.failing[0])
    more = f"; also {standing.named(_others(tally, worst))}" if len(tally.failing) > 1 else ""
    verdict = _no("SyncFailed", f"{tally.message}: {_said(worst)}{more}")
    if worst.reason in PERSON_NEEDED:
        return _Word(verdict, stalled=True, because=worst.reason, after=STALLED_SECONDS)
    return _Word(verdict, reconciling=True, because="SyncInProgress", warns=True)


def _others(tally: Tally, worst: Standing) -> tuple[Standing, ...]:
    return tuple(one for one in tally.failing if one is not worst)


def _said(one: Standing) -> str:
    reason = one.reason or one.status
    return f"{one.gateway.name}: {reason}: {one.message}" if one.message else reason


def _conditions(found: Findings) -> tuple[Condition, ...]:
    rows = [_profiles_valid(found.problems)]
    if not found.is_paused:
        rows.append(_repo_cloned(found))
    if found.source is not None and found.failure is None:
        rows.append(_trusted(found.trust))
    if found.tally is not None:
        rows.append(_all_synced(found.tally))
    return tuple(rows)


def _repo_cloned(found: Findings) -> Condition:
    if found.failure is not None:
        text = _cause(found.failure)
        return Condition(REPO_CLONED, "False", "CloneFailed", text[:_MESSAGE_CHARS])
    if found.source is None:
        return Condition(REPO_CLONED, "False", "SyncInProgress", "the remote is being asked")
    return Condition(REPO_CLONED, "True", "CloneSucceeded", found.source.commit)


def _all_synced(tally: Tally) -> Condition:
    if not tally.standings:
        return Condition(ALL_SYNCED, "False", "NoGatewaysDiscovered", tally.message)
    if tally.all_synced:
        return Condition(ALL_SYNCED, "True", "SyncSucceeded", tally.message)
    reason = "SyncFailed" if tally.failing else "SyncInProgress"
    return Condition(ALL_SYNCED, "False", reason, tally.message)


def _profiles_valid(problems: tuple[str, ...]) -> Condition:
    if problems:
        text = spec_check.sentence(problems)[:_MESSAGE_CHARS]
        return Condition(PROFILES_VALID, "False", "ProfilesInvalid", text)
    return Condition(PROFILES_VALID, "True", "ProfilesValid", "the routing can be used")


def _trusted(trust: Trust) -> Condition:
    status: Literal["True", "False"] = "True" if trust == "HostVerified" else "False"
    return Condition(SOURCE_TRUSTED, status, trust, _TRUST_TEXT[trust])


def _fields(found: Findings) -> dict[str, JSON]:
    fields: dict[str, JSON] = {
        "lastSyncTime": written(found.reached.time) if found.reached is not None else None,
    }
    if not found.is_paused:
        # A pause asks nobody, so what was said about the repository stays, as RepoCloned does.
        fields["source"] = _source_status(found)
        fields["repoCloneStatus"] = _clone_status(found)
    if found.source is not None:
        fields["lastSyncRef"] = found.source.ref
        fields["lastSyncCommit"] = found.source.commit
        fields["lastSyncCommitShort"] = found.source.commit[:_SHORT]
    if found.tally is not None:
        fields["gatewayCounts"] = msgspec.to_builtins(found.tally.counts)
        fields["discoveredGateways"] = gateway_rows.rows(found.tally) or None
    return fields


def _source_status(found: Findings) -> JSON:
    cause = found.failure.reason if found.failure is not None else ""
    return msgspec.to_builtins(SourceStatus(canonical_url=found.canonical_url, cause=cause))


def _clone_status(found: Findings) -> str:
    if found.failure is not None:
        return "Error"
    return "Cloned" if found.source is not None else "NotCloned"


def _at(source: Source | None) -> str:
    return f"{source.ref}@{source.commit[:_SHORT]}" if source is not None else "no commit yet"


def _no(reason: str, message: str) -> Verdict:
    return Verdict("False", reason, message[:_MESSAGE_CHARS])
