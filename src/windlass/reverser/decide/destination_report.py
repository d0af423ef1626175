"""What a GitDestination says of its mirror.

| Found | Ready | Reason |
|---|---|---|
| folder not opened yet | Unknown | Validating |
| folder open, last write went well | True | Ready |
| anything in the way | False | the reason of the trouble |

`Synced` says whether every scope was seen completely; a destination without rules has
nothing left to do and is synced.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from windlass.base.errors import Stalled, WindlassError
from windlass.objects.condition import Condition
from windlass.objects.json import JSON, Object
from windlass.runtime.outcome import Outcome, Verdict

SYNCED = "Synced"
SECRETS_PROTECTED = "SecretsProtected"


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
    last_commit: str = ""
    last_time: datetime | None = None
    last_files: int = 0
    refused: tuple[tuple[str, str], ...] = ()
    streams: StreamCount = StreamCount()
    waiting_for: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[object, ...]:
        """What is worth a report at once."""
        return self.placed, self.is_open, self.reason, self.synced, self.refused

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


def report(progress: Progress) -> Outcome:
    """The outcome of a pass over a destination whose references are in order."""
    trouble = progress.trouble
    return Outcome(
        ready=_ready(progress),
        stalled=isinstance(trouble, Stalled),
        reconciling=trouble is not None or not progress.is_open,
        conditions=(_synced(progress), _SECRETS),
        fields=_fields(progress),
        transient=progress.settling,
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
    return Condition(SYNCED, "False", "Seeding", text)


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
