"""Conditions and status fields of GitDestination.

`destination` calls `destination_outcome` with what it observed.

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
| later changes are pending for long | False | CatchingUp |
| its references are not valid, or its reconcile failed | False | the reason of Ready |
| else, also without rules: nothing is left to do | True | Synced |

`Attributed` of a GitDestination reports whether admission requests arrive. After a start it
takes a moment until records are complete: a status that is Ready is not changed meanwhile,
unless a change arrived that has no author because of it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.objects.condition import Condition, Status
from windlass.objects.names import JSON, Object, format_count
from windlass.reverser.attribution.webhook_coverage import AttributionState
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import READY, Outcome, OutcomeEvent, Verdict
from windlass.telemetry.reasons import EventReason

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
    fight: int = 0
    """Number of the last fight with other writers of the branch, whose lost races are one."""
    objects: int = 0
    """Managed files that the server has."""
    pending: int = 0
    """Paths that are not pushed yet."""
    is_late: bool = True
    """Whether such paths have waited for longer than a push may take."""
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
        Synced back only once it has found one, which `pending` counts. Changes take it back only
        if they wait for long, whatever else the destination is reconciled for meanwhile.
        """
        changes_wait = self.pending and self.is_late
        nothing_waits = self.is_idle or (self.first_sync_done and not changes_wait)
        return self.all_scopes_synced and nothing_waits


def destination_outcome(
    progress: DestinationProgress,
    before: Iterable[Condition] = (),
    *,
    is_new: bool = False,
    fields_before: Mapping[str, JSON] | None = None,
) -> Outcome:
    """The outcome of reconciling a destination whose references are valid.

    `before` are the stored conditions, `fields_before` the other fields of the stored status; a
    transition since then makes an Event. A destination that `is_new` has neither push nor objects
    in its status: its first snapshot is reported, that of a restart is not.
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
        events=(
            *_transition_events(
                {condition.type: condition for condition in before}, progress, is_new=is_new
            ),
            *_refusal_events(fields_before or {}, progress),
        ),
    )


def destination_pending(message: str, *, after: float | None = None) -> Outcome:
    """The outcome for a destination that was not checked yet."""
    return Outcome(
        ready=Verdict("Unknown", "Validating", message),
        reconciling=True,
        transient=True,
        requeue_after=after,
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
    # One that was made again may find all its files in Git.
    mirrors = progress.last_time is not None or progress.objects
    if progress.is_synced and mirrors and (is_new or synced is None or synced.reason == SEEDING):
        text = f"first sync completed: {format_count(progress.objects, 'object')} mirrored"
        yield OutcomeEvent("Normal", EventReason.FIRST_SYNC_COMPLETED, text)
    was_lost = attributed is not None and attributed.reason == "NoAdmissionCalls"
    if progress.attributed == "NoAdmissionCalls" and not was_lost:
        text = "objects change but no admission requests arrive"
        yield OutcomeEvent("Warning", EventReason.ATTRIBUTION_LOST, text)
    if progress.attributed == "Receiving" and was_lost:
        text = "admission requests arrive again"
        yield OutcomeEvent("Normal", EventReason.ATTRIBUTION_RECOVERED, text)


def _refusal_events(
    before: Mapping[str, JSON], progress: DestinationProgress
) -> Iterator[OutcomeEvent]:
    """The Warning that the folder lacks objects, which no condition says."""
    if progress.refused and not before.get("refused"):
        object_, reason = progress.refused[0]
        text = f"{object_} is not mirrored ({reason}); see status.refused"
        yield OutcomeEvent("Warning", EventReason.OBJECTS_REFUSED, text, stands_alone=True)


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
