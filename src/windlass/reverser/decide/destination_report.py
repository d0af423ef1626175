"""What a GitDestination says of its mirror.

| Found | Ready | Reason |
|---|---|---|
| folder not opened yet | Unknown | Validating |
| folder open, last write went well | True | Ready |
| anything in the way | False | the reason of the trouble |

`Synced` says whether Git has what was seen:

| Found | Synced | Reason |
|---|---|---|
| a scope cannot be seen completely | False | SnapshotIncomplete |
| not every scope was seen, or what was found is not pushed yet | False | Seeding |
| later changes wait | False | CatchingUp |
| else, also without rules: nothing is left to do | True | Synced |

`Attributed` says whether the API server tells us of writes. After a start it takes a moment
until records are complete: a status that says Ready is left alone meanwhile, unless a change
came that has no author because of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.objects.condition import Condition, Status
from windlass.objects.names import JSON, Object
from windlass.reverser.decide.hearing import Standing
from windlass.runtime.outcome import READY, Outcome, OutcomeEvent, Verdict
from windlass.telemetry.reasons import EventReason

SYNCED = "Synced"
SEEDING = "Seeding"
CATCHING_UP = "CatchingUp"
SECRETS_PROTECTED = "SecretsProtected"
ATTRIBUTED = "Attributed"


@dataclass(frozen=True, slots=True)
class StreamCount:
    """The watches that feed a destination."""

    total: int = 0
    synced: int = 0
    forbidden: int = 0
    restarting: int = 0

    def as_object(self) -> Object:
        return {
            "total": self.total,
            "synced": self.synced,
            "forbidden": self.forbidden,
            "restarting": self.restarting,
        }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a destination is."""

    placed: bool = False
    is_open: bool = False
    trouble: WindlassError | None = None
    objects: int = 0
    pending: int = 0
    retained: int = 0
    last_commit: str = ""
    last_time: datetime | None = None
    last_files: int = 0
    refused: tuple[tuple[str, str], ...] = ()
    streams: StreamCount = StreamCount()
    waiting_for: tuple[str, ...] = ()
    idle: bool = True
    """Whether nothing waits for a push or for the comparison of a snapshot with Git."""
    seeded: bool = True
    """Whether it was idle since every scope was seen."""
    attributed: Standing = "Receiving"
    attribution_settles: bool = False

    @property
    def turns(self) -> tuple[object, ...]:
        """What is worth a report at once."""
        return (
            self.placed,
            self.is_open,
            self.reason,
            self.seen,
            self.seeded,
            self.refused,
            self.attributed,
            self.attribution_settles,
        )

    @property
    def reason(self) -> str:
        return self.trouble.reason if self.trouble is not None else ""

    @property
    def settling(self) -> bool:
        """Whether all that is missing is time."""
        if self.trouble is not None:
            return False
        hampered = self.streams.restarting or self.streams.forbidden
        done = self.seen and self.seeded
        return self.attribution_settles or (not done and not hampered)

    @property
    def seen(self) -> bool:
        """Whether a complete snapshot of every scope is at hand."""
        return self.is_open and not self.waiting_for

    @property
    def synced(self) -> bool:
        return self.seen and self.idle


def report(
    progress: Progress, before: Iterable[Condition] = (), *, is_new: bool = False
) -> Outcome:
    """The outcome of a pass over a destination whose references are in order.

    `before` are the conditions as they are stored; what turned since makes an event. One that
    `is_new` has no push in its status: its first snapshot is told, that of a restart is not.
    """
    trouble = progress.trouble
    conditions = (_synced(progress), _SECRETS, _attributed(progress))
    return Outcome(
        ready=_ready(progress),
        stalled=isinstance(trouble, Stalled),
        reconciling=trouble is not None or not progress.is_open,
        conditions=conditions,
        fields=_fields(progress),
        transient=progress.settling and not is_new,
        # Whoever lost the lease does not write; that is how it should be.
        warns=trouble is not None and not isinstance(trouble, Waiting),
        events=tuple(_turns({row.type: row for row in before}, progress, is_new=is_new)),
    )


def settling(message: str) -> Outcome:
    """The report of a destination of which nothing is known yet."""
    return Outcome(
        ready=Verdict("Unknown", "Validating", message), reconciling=True, transient=True
    )


def _ready(progress: Progress) -> Verdict:
    if progress.trouble is not None:
        return Verdict("False", progress.trouble.reason, progress.trouble.message)
    if not progress.is_open:
        return Verdict("Unknown", "Validating", "looking at the branch")
    return Verdict("True", "Ready", f"{_counted(progress.objects, 'object')} mirrored")


def _synced(progress: Progress) -> Condition:
    streams = progress.streams
    if progress.synced:
        text = "all watches synced" if streams.total else "no rule selects this destination"
        return Condition(SYNCED, "True", "Synced", text)
    if not progress.seen and (streams.restarting or streams.forbidden):
        text = "incomplete snapshots: " + "; ".join(progress.waiting_for)
        return Condition(SYNCED, "False", "SnapshotIncomplete", text)
    if not progress.seen:
        text = f"{streams.synced} of {streams.total} watches synced"
        return Condition(SYNCED, "False", SEEDING, text)
    return Condition(SYNCED, "False", CATCHING_UP if progress.seeded else SEEDING, _waits(progress))


def _waits(progress: Progress) -> str:
    if not progress.pending:
        return "a snapshot is being compared with Git"
    return f"{_counted(progress.pending, 'change')} waiting to be pushed"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _attributed(progress: Progress) -> Condition:
    status: Status = "True" if progress.attributed == "Receiving" else "False"
    return Condition(ATTRIBUTED, status, progress.attributed, _ATTRIBUTED[progress.attributed])


_ATTRIBUTED: dict[Standing, str] = {
    "Receiving": "admission requests are recorded",
    "Starting": "admission requests are not recorded completely yet; changes have no author "
    "until they are",
    "NoAdmissionCalls": "objects change, but no admission request arrives, so changes have no "
    "author; check the ValidatingWebhookConfiguration, its Service and the network between",
}


def _turns(
    before: Mapping[str, Condition], progress: Progress, *, is_new: bool
) -> Iterator[OutcomeEvent]:
    """The events of what turned, beside those that Ready's own reasons are."""
    ready, synced, told = (before.get(one) for one in (READY, SYNCED, ATTRIBUTED))
    if SECRETS_PROTECTED not in before:
        yield OutcomeEvent("Normal", EventReason.SECRETS_REDACTED, _SECRETS.message)
    recovered = ready is not None and ready.reason == EventReason.GIT_UNAVAILABLE
    if recovered and progress.is_open and progress.trouble is None:
        text = "the remote answers again; what waited is written"
        yield OutcomeEvent("Normal", EventReason.GIT_RECOVERED, text)
    pushed = progress.synced and progress.last_time is not None
    if pushed and (is_new or synced is None or synced.reason == SEEDING):
        text = f"first sync completed: {_counted(progress.objects, 'object')} mirrored"
        yield OutcomeEvent("Normal", EventReason.FIRST_SYNC_COMPLETED, text)
    deaf = told is not None and told.reason == "NoAdmissionCalls"
    if progress.attributed == "NoAdmissionCalls" and not deaf:
        text = "objects change, but no admission call arrives"
        yield OutcomeEvent("Warning", EventReason.ATTRIBUTION_LOST, text)
    if progress.attributed == "Receiving" and deaf:
        text = "admission calls arrive again"
        yield OutcomeEvent("Normal", EventReason.ATTRIBUTION_RECOVERED, text)


_SECRETS = Condition(
    SECRETS_PROTECTED,
    "True",
    "Redacted",
    "values of Secrets are replaced by keyed digests; such files cannot be applied, and earlier "
    "history is not rewritten",
)


def _fields(progress: Progress) -> dict[str, JSON]:
    fields: dict[str, JSON] = {
        "objects": progress.objects,
        "pending": progress.pending,
        "retained": progress.retained,
        "streams": progress.streams.as_object(),
        "refused": [{"object": one, "reason": reason} for one, reason in progress.refused] or None,
    }
    if progress.last_time is not None:
        fields["lastPush"] = {
            "commit": progress.last_commit,
            "time": progress.last_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "files": progress.last_files,
        }
    return fields
