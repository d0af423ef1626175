"""What a GitDestination says of its mirror.

| Found | Ready | Reason |
|---|---|---|
| folder not opened yet | Unknown | Validating |
| folder open, last write went well | True | Ready |
| anything in the way | False | the reason of the trouble |

`Synced` says whether every scope was seen completely; a destination without rules has
nothing left to do and is synced. `Attributed` says whether the API server tells us of
writes; while nobody can know that, it keeps what it said last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.objects.condition import Condition
from windlass.objects.json import JSON, Object
from windlass.runtime.outcome import READY, Notice, Outcome, Verdict
from windlass.telemetry.reasons import EventReason

SYNCED = "Synced"
SEEDING = "Seeding"
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
    attributed: bool | None = None

    @property
    def turns(self) -> tuple[object, ...]:
        """What is worth a report at once."""
        return (
            self.placed,
            self.is_open,
            self.reason,
            self.synced,
            self.refused,
            self.attributed,
        )

    @property
    def reason(self) -> str:
        return self.trouble.reason if self.trouble is not None else ""

    @property
    def settling(self) -> bool:
        """Whether all that is missing is time."""
        hampered = self.streams.restarting or self.streams.forbidden
        return self.trouble is None and not self.synced and not hampered

    @property
    def synced(self) -> bool:
        return self.is_open and not self.waiting_for


def report(progress: Progress, before: Iterable[Condition] = ()) -> Outcome:
    """The outcome of a pass over a destination whose references are in order.

    `before` are the conditions as they are stored; what turned since makes an event.
    """
    trouble = progress.trouble
    conditions = (_synced(progress), _SECRETS, *_attributed(progress))
    return Outcome(
        ready=_ready(progress),
        stalled=isinstance(trouble, Stalled),
        reconciling=trouble is not None or not progress.is_open,
        conditions=conditions,
        fields=_fields(progress),
        transient=progress.settling,
        # Whoever lost the lease does not write; that is how it should be.
        warns=trouble is not None and not isinstance(trouble, Waiting),
        events=tuple(_turns({row.type: row for row in before}, progress)),
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
    return Verdict("True", "Ready", f"mirrors {progress.objects} objects")


def _synced(progress: Progress) -> Condition:
    if progress.synced:
        return Condition(SYNCED, "True", "Synced", "every selected object was seen")
    if progress.streams.restarting or progress.streams.forbidden:
        text = "not completely seen: " + "; ".join(progress.waiting_for)
        return Condition(SYNCED, "False", "SnapshotIncomplete", text)
    text = f"{progress.streams.synced} of {progress.streams.total} types are read"
    return Condition(SYNCED, "False", SEEDING, text)


def _attributed(progress: Progress) -> tuple[Condition, ...]:
    if progress.attributed is None:
        return ()
    if progress.attributed:
        text = "the API server tells who makes a change"
        return (Condition(ATTRIBUTED, "True", "Receiving", text),)
    text = (
        "objects change, but no admission call arrives, so nobody can be credited; look at the "
        "ValidatingWebhookConfiguration, its Service and the network between"
    )
    return (Condition(ATTRIBUTED, "False", "NoAdmissionCalls", text),)


def _turns(before: Mapping[str, Condition], progress: Progress) -> Iterator[Notice]:
    """The events of what turned, beside those that Ready's own reasons are."""
    ready, synced, told = (before.get(one) for one in (READY, SYNCED, ATTRIBUTED))
    if SECRETS_PROTECTED not in before:
        yield Notice("Normal", EventReason.SECRETS_REDACTED, _SECRETS.message)
    recovered = ready is not None and ready.reason == EventReason.GIT_UNAVAILABLE
    if recovered and progress.is_open and progress.trouble is None:
        text = "the remote answers again; what waited is written"
        yield Notice("Normal", EventReason.GIT_RECOVERED, text)
    if progress.synced and (synced is None or synced.reason == SEEDING):
        text = f"every selected object was seen; {progress.objects} have a file"
        yield Notice("Normal", EventReason.FIRST_SYNC_COMPLETED, text)
    if progress.attributed is False and (told is None or told.status != "False"):
        text = "objects change, but no admission call arrives"
        yield Notice("Warning", EventReason.ATTRIBUTION_LOST, text)
    if progress.attributed and told is not None and told.status == "False":
        text = "admission calls arrive again"
        yield Notice("Normal", EventReason.ATTRIBUTION_RECOVERED, text)


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
