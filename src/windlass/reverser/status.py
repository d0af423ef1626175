"""Conditions and status fields of GitRepoConfig, GitDestination and the watch rules.

Each reconciler calls its `..._outcome` function here with what it observed.

| GitRepoConfig: remote | Ready | Reason |
|---|---|---|
| not queried yet, and no status is stored | Unknown | Checking |
| all branches exist | True | BranchFound |
| no refs at all | True | EmptyRepository |
| a branch is missing that no destination will create | False | BranchNotFound |
| cannot be queried | False | ConnectionFailed, or what fails closed |

| GitDestination | Ready | Reason |
|---|---|---|
| folder not opened yet | Unknown | Validating |
| folder open, last write succeeded | True | Ready |
| any error | False | the reason of the error |

`Synced` of a GitDestination reports whether Git has what was observed:

| GitDestination | Synced | Reason |
|---|---|---|
| a scope cannot be observed completely | False | SnapshotIncomplete |
| not every scope was listed, or what was found is not pushed yet | False | Seeding |
| later changes are pending | False | CatchingUp |
| its references are not valid, or its reconcile failed | False | the reason of Ready |
| else, also without rules: nothing is left to do | True | Synced |

`Attributed` of a GitDestination reports whether admission requests arrive. After a start it
takes a moment until records are complete: a status that is Ready is not changed meanwhile,
unless a change arrived that has no author because of it.

| WatchRule, ClusterWatchRule | Ready | Reason |
|---|---|---|
| nothing selected | False, reconciling | NoResourceResolved: the type may be served later |
| destination not checked yet | Unknown | Validating |
| destination not ready | False, reconciling | GitDestinationNotReady |
| else | True | Ready |

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.objects.condition import Condition, Status
from windlass.objects.names import JSON, Key, Object, format_count
from windlass.reverser.attribution.webhook_coverage import AttributionState
from windlass.reverser.selection.rules import RuleResolution
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import READY, Outcome, OutcomeEvent, Verdict
from windlass.telemetry.reasons import EventReason

_HEADS = "refs/heads/"
_SHORT_SHA = 8
TRANSPORT_VERIFIED = "TransportVerified"


def repository_checking(*, after: float) -> Outcome:
    """The outcome for a remote that was not queried yet."""
    return Outcome(
        ready=Verdict("Unknown", "Checking", "checking remote"),
        reconciling=True,
        requeue_after=after,
    )


def repository_reachable(
    refs: Mapping[str, str],
    branches: Collection[str],
    *,
    creating: Collection[str],
    remote: str,
    verified: bool,
    after: float | None,
) -> Outcome:
    """The outcome for a remote that answered."""
    rows = [_branch_row(name, refs, creating) for name in branches]
    missing = [row["name"] for row in rows if row["state"] == "Missing"]
    transport = Condition(
        TRANSPORT_VERIFIED,
        "False",
        "HostKeyVerificationDisabled",
        "spec.hostKeyVerification is Disabled, so the connection can be intercepted; set it to "
        "Strict and provide the host keys",
    )
    return Outcome(
        ready=_repository_ready(rows, missing, empty=not refs),
        conditions=() if verified else (transport,),
        withdrawn=frozenset({TRANSPORT_VERIFIED}) if verified else frozenset(),
        fields={"remote": remote, "branches": rows},
        requeue_after=after,
    )


def _branch_row(name: str, refs: Mapping[str, str], creating: Collection[str]) -> Object:
    sha = refs.get(_HEADS + name)
    if sha is not None:
        return {"name": name, "state": "Found", "sha": sha}
    pending = name in creating or not refs
    return {"name": name, "state": "PendingCreation" if pending else "Missing"}


def _repository_ready(rows: list[Object], missing: list[str], *, empty: bool) -> Verdict:
    if missing:
        return Verdict(
            "False",
            "BranchNotFound",
            f"{'branch' if len(missing) == 1 else 'branches'} not found: {', '.join(missing)}; "
            "create in the remote, remove from spec.allowedBranches, or set spec.createBranch in "
            "a GitDestination",
        )
    if empty:
        return Verdict(
            "True", "EmptyRepository", "repository is empty; the first push will create the branch"
        )
    tips = ", ".join(_branch_tip(row) for row in rows)
    count = format_count(len(rows), "branch", "branches")
    return Verdict("True", "BranchFound", f"{count} validated: {tips}")


def _branch_tip(row: Object) -> str:
    if "sha" in row:
        return f"{row['name']}@{row['sha'][:_SHORT_SHA]}"
    return f"{row['name']} (pending creation)"


def repository_unreachable(error: WindlassError, remote: str, *, after: float) -> Outcome:
    """The outcome for a remote that could not be queried."""
    stalled = isinstance(error, Stalled)
    return Outcome(
        ready=Verdict("False", error.reason, f"{remote}: {error.message}"),
        stalled=stalled,
        reconciling=not stalled,
        requeue_after=after,
        warns=True,
    )


SYNCED = "Synced"
SEEDING = "Seeding"
CATCHING_UP = "CatchingUp"
SECRETS_PROTECTED = "SecretsProtected"
ATTRIBUTED = "Attributed"


@dataclass(frozen=True, slots=True)
class StreamCount:
    """The watch streams of a destination, counted by state."""

    total: int = 0
    synced: int = 0
    forbidden: int = 0
    restarting: int = 0

    def as_object(self) -> Object:
        """status.streams of a GitDestination."""
        return {
            "total": self.total,
            "synced": self.synced,
            "forbidden": self.forbidden,
            "restarting": self.restarting,
        }


@dataclass(frozen=True, slots=True)
class DestinationProgress:
    """Observed state of a destination, from which its status is computed."""

    is_open: bool = False
    """Whether its folder is loaded and may be written."""
    error: WindlassError | None = None
    """Error of its folder or its writer group; None if the last attempt succeeded."""
    objects: int = 0
    """Managed files that the server has."""
    pending: int = 0
    """Paths that are not pushed yet."""
    retained: int = 0
    """Files that only the prune mode keeps."""
    last_commit: str = ""
    """Commit of the last acknowledged push; empty before the first."""
    last_time: datetime | None = None
    """When it was acknowledged, wall clock; None before the first."""
    last_files: int = 0
    """Files that it changed in the folder."""
    refused: tuple[tuple[str, str], ...] = ()
    """Objects whose path is occupied, each with the reason."""
    streams: StreamCount = StreamCount()
    """Watch streams of its rules."""
    waiting_for: tuple[str, ...] = ()
    """Rules that were not resolved yet and scopes without a complete snapshot, for the message of
    Synced."""
    is_idle: bool = True
    """Whether nothing waits for a push or for the comparison of a snapshot with Git."""
    first_sync_done: bool = True
    """Whether it was idle once since every scope was listed."""
    attributed: AttributionState = "Receiving"
    """Reason of the condition Attributed."""
    attribution_is_settling: bool = False
    """Whether records will be complete soon, and no change lacks an author because of it."""

    @property
    def transitions(self) -> tuple[object, ...]:
        """The values whose change is reported at once; others wait for the next reconcile."""
        return (
            self.is_open,
            self.reason,
            self.all_scopes_synced,
            self.first_sync_done,
            self.refused,
            self.attributed,
            self.attribution_is_settling,
        )

    @property
    def reason(self) -> str:
        """Reason of the error; empty without one."""
        return self.error.reason if self.error is not None else ""

    @property
    def is_settling(self) -> bool:
        """Whether only time is missing, so that a status that is Ready is not changed yet."""
        if self.error is not None:
            return False
        blocked = self.streams.restarting or self.streams.forbidden
        first_synced = self.all_scopes_synced and self.first_sync_done
        return self.attribution_is_settling or (not first_synced and not blocked)

    @property
    def all_scopes_synced(self) -> bool:
        """Whether every scope has a complete snapshot."""
        return self.is_open and not self.waiting_for

    @property
    def is_synced(self) -> bool:
        """Whether Git has everything that was observed.

        A review or a repeated snapshot that is still to be compared is no change: it takes
        Synced back only once it has found one, which `pending` counts.
        """
        nothing_waits = self.is_idle or (self.first_sync_done and not self.pending)
        return self.all_scopes_synced and nothing_waits


def destination_outcome(
    progress: DestinationProgress, before: Iterable[Condition] = (), *, is_new: bool = False
) -> Outcome:
    """The outcome of reconciling a destination whose references are valid.

    `before` are the stored conditions; a transition since then makes an Event. A destination
    that `is_new` has no push in its status: its first snapshot is reported, that of a restart
    is not.
    """
    error = progress.error
    conditions = (_synced_condition(progress), _SECRETS_CONDITION, _attributed_condition(progress))
    return Outcome(
        ready=_destination_ready(progress),
        stalled=isinstance(error, Stalled),
        reconciling=error is not None or not progress.is_open,
        conditions=conditions,
        fields=_destination_fields(progress),
        transient=progress.is_settling and not is_new,
        # A process without the lease must not write; that is no reason to warn.
        warns=error is not None and not isinstance(error, Waiting),
        events=tuple(
            _transition_events(
                {condition.type: condition for condition in before}, progress, is_new=is_new
            )
        ),
    )


def destination_pending(message: str) -> Outcome:
    """The outcome for a destination that was not checked yet."""
    return Outcome(
        ready=Verdict("Unknown", "Validating", message), reconciling=True, transient=True
    )


def complete_outcome(stored: Object, outcome: Outcome) -> Outcome:
    """The outcome, with Synced=False where a reconcile failed before it observed any progress.

    Otherwise a GitDestination that is not watched any more would keep a stored Synced=True. The
    other kinds have no such condition.
    """
    verdict = outcome.ready
    conditions = runtime_status.status_conditions(stored.get("status") or {})
    has_synced = any(row.type == SYNCED for row in conditions)
    if verdict is None or not outcome.failure or outcome.conditions or not has_synced:
        return outcome
    text = "GitDestination is not Ready; see condition Ready"
    return replace(outcome, conditions=(Condition(SYNCED, "False", verdict.reason, text),))


def _destination_ready(progress: DestinationProgress) -> Verdict:
    if progress.error is not None:
        return Verdict("False", progress.error.reason, progress.error.message)
    if not progress.is_open:
        return Verdict("Unknown", "Validating", "checking branch")
    return Verdict("True", "Ready", f"{format_count(progress.objects, 'object')} mirrored")


def _synced_condition(progress: DestinationProgress) -> Condition:
    streams = progress.streams
    if progress.is_synced:
        text = "all watches synced" if streams.total else "no rule refers to this destination"
        return Condition(SYNCED, "True", "Synced", text)
    if not progress.all_scopes_synced and (streams.restarting or streams.forbidden):
        text = "incomplete snapshots: " + "; ".join(progress.waiting_for)
        return Condition(SYNCED, "False", "SnapshotIncomplete", text)
    if not progress.all_scopes_synced:
        return Condition(SYNCED, "False", SEEDING, _seeding_text(progress))
    return Condition(
        SYNCED,
        "False",
        CATCHING_UP if progress.first_sync_done else SEEDING,
        _pending_text(progress),
    )


def _seeding_text(progress: DestinationProgress) -> str:
    streams = progress.streams
    if not progress.is_open:
        return "waiting for the folder to open; see condition Ready"
    if not streams.total:
        return "waiting for " + "; ".join(progress.waiting_for)
    return f"{streams.synced} of {streams.total} watches synced"


def _pending_text(progress: DestinationProgress) -> str:
    if not progress.pending:
        return "comparing a snapshot with Git"
    return f"{format_count(progress.pending, 'change')} waiting to be pushed"


def _attributed_condition(progress: DestinationProgress) -> Condition:
    status: Status = "True" if progress.attributed == "Receiving" else "False"
    return Condition(
        ATTRIBUTED, status, progress.attributed, _ATTRIBUTED_MESSAGES[progress.attributed]
    )


_ATTRIBUTED_MESSAGES: dict[AttributionState, str] = {
    "Receiving": "receiving admission requests",
    "Starting": "admission records are incomplete after a start; changes have no author until "
    "they are complete",
    "NoAdmissionCalls": "objects change but no admission requests arrive, so changes have no "
    "author; check the ValidatingWebhookConfiguration, its Service and the network",
}


def _transition_events(
    before: Mapping[str, Condition], progress: DestinationProgress, *, is_new: bool
) -> Iterator[OutcomeEvent]:
    """Events of transitions, besides those that the reasons of Ready cause."""
    ready, synced, attributed = (before.get(type_) for type_ in (READY, SYNCED, ATTRIBUTED))
    if SECRETS_PROTECTED not in before:
        yield OutcomeEvent("Normal", EventReason.SECRETS_REDACTED, _SECRETS_CONDITION.message)
    recovered = ready is not None and ready.reason == EventReason.GIT_UNAVAILABLE
    if recovered and progress.is_open and progress.error is None:
        text = "remote is reachable again; pending changes will be pushed"
        yield OutcomeEvent("Normal", EventReason.GIT_RECOVERED, text)
    pushed = progress.is_synced and progress.last_time is not None
    if pushed and (is_new or synced is None or synced.reason == SEEDING):
        text = f"first sync completed: {format_count(progress.objects, 'object')} mirrored"
        yield OutcomeEvent("Normal", EventReason.FIRST_SYNC_COMPLETED, text)
    was_lost = attributed is not None and attributed.reason == "NoAdmissionCalls"
    if progress.attributed == "NoAdmissionCalls" and not was_lost:
        text = "objects change but no admission requests arrive"
        yield OutcomeEvent("Warning", EventReason.ATTRIBUTION_LOST, text)
    if progress.attributed == "Receiving" and was_lost:
        text = "admission requests arrive again"
        yield OutcomeEvent("Normal", EventReason.ATTRIBUTION_RECOVERED, text)


_SECRETS_CONDITION = Condition(
    SECRETS_PROTECTED,
    "True",
    "Redacted",
    "Secret values are replaced by keyed digests; such files cannot be applied, and earlier "
    "history is not rewritten",
)


def _destination_fields(progress: DestinationProgress) -> dict[str, JSON]:
    fields: dict[str, JSON] = {
        "objects": progress.objects,
        "pending": progress.pending,
        "retained": progress.retained,
        "streams": progress.streams.as_object(),
        "refused": [{"object": object_, "reason": reason} for object_, reason in progress.refused]
        or None,
    }
    if progress.last_time is not None:
        fields["lastPush"] = {
            "commit": progress.last_commit,
            "time": progress.last_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "files": progress.last_files,
        }
    return fields


RESOURCES_RESOLVED = "ResourcesResolved"
MAX_RESOLVED = 50
MAX_UNRESOLVED = 20
_DESTINATION_CHECK_SECONDS = 5.0
"""When a rule is reconciled again whose destination has no verdict yet."""


def rule_outcome(
    resolution: RuleResolution,
    *,
    states: Mapping[tuple[str, str], str],
    objects: int,
    destination: Key,
    destination_ready: bool,
    destination_settled: bool,
    failed_groups: Collection[str] = (),
) -> Outcome:
    """The outcome of reconciling a rule whose references are valid.

    `failed_groups` are the API groups that discovery could not read.
    """
    ready = _rule_ready(resolution, destination, destination_ready, destination_settled)
    rows = _rule_fields(resolution, states)
    return Outcome(
        ready=ready,
        reconciling=ready.status != "True",
        conditions=(_resolved_condition(resolution, failed_groups),),
        fields={**rows, "objects": objects},
        # A verdict that changes nothing in the status of the destination requeues no rule.
        requeue_after=None if destination_settled else _DESTINATION_CHECK_SECONDS,
        warns=ready.status == "False",
        transient=not destination_settled
        or (ready.status == "True" and _is_starting(rows["resolved"])),
    )


def rule_pending(message: str) -> Outcome:
    """The outcome for a rule that cannot be resolved yet."""
    return Outcome(
        ready=Verdict("Unknown", "Validating", message), reconciling=True, transient=True
    )


def _is_starting(resolved: JSON) -> bool:
    return any(row["state"] in ("starting", "seeding") for row in resolved or ())


def ingestion_disabled() -> Outcome:
    """The outcome for a rule while watch ingestion is disabled."""
    text = "watch ingestion is disabled (--enable-watch-ingestion=false); nothing is mirrored"
    return Outcome(ready=Verdict("False", "IngestionDisabled", text))


def _rule_ready(
    resolution: RuleResolution, destination: Key, is_ready: bool, is_settled: bool
) -> Verdict:
    if not resolution.scopes:
        return Verdict(
            "False",
            "NoResourceResolved",
            "no entry selects a served type (see status.unresolved); will start when one is served",
        )
    if not is_ready and not is_settled:
        return Verdict("Unknown", "Validating", f"waiting for GitDestination {destination}")
    if not is_ready:
        return Verdict(
            "False",
            "GitDestinationNotReady",
            f"GitDestination {destination} is not Ready; see its status",
        )
    count = format_count(len(resolution.watched), "resource type")
    return Verdict("True", "Ready", f"{count} selected")


def _resolved_condition(resolution: RuleResolution, failed_groups: Collection[str]) -> Condition:
    rows = resolution.unresolved
    if not rows:
        return Condition(RESOURCES_RESOLVED, "True", "AllResolved", "all entries resolved")
    text = "unresolved: " + ", ".join(f"{row.entry} ({row.reason})" for row in rows[:5])
    reasons = {row.reason for row in rows}
    if failed_groups and reasons & {"DiscoveryDegraded", "NotServed"}:
        text += f"; {_failed_groups_text(sorted(group or 'core' for group in failed_groups))}"
    if "DiscoveryDegraded" in reasons:
        return Condition(RESOURCES_RESOLVED, "False", "DiscoveryDegraded", text)
    reason = "PartlyResolved" if resolution.scopes else "NotServed"
    return Condition(RESOURCES_RESOLVED, "False", reason, text)


def _failed_groups_text(groups: list[str]) -> str:
    many = len(groups) > 1
    return (
        f"API group{'s' if many else ''} {', '.join(groups[:5])} cannot be discovered; check "
        f"{'their' if many else 'its'} APIService"
    )


def _rule_fields(
    resolution: RuleResolution, states: Mapping[tuple[str, str], str]
) -> dict[str, JSON]:
    resolved = [
        {
            "gvr": str(gvr),
            "scope": namespace or "Cluster",
            "state": _stream_state(str(gvr), namespace, states),
        }
        for gvr, namespace in resolution.watched[:MAX_RESOLVED]
    ]
    unresolved = [
        {"entry": row.entry, "reason": row.reason} for row in resolution.unresolved[:MAX_UNRESOLVED]
    ]
    return {"resolved": resolved or None, "unresolved": unresolved or None}


def _stream_state(gvr: str, namespace: str, states: Mapping[tuple[str, str], str]) -> str:
    """State of the stream of a scope; a cluster-wide stream may serve a namespace."""
    return states.get((gvr, namespace)) or states.get((gvr, "")) or "starting"
