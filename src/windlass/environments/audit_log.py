"""Audit log of Environments: log lines for transitions, Events for corrected drift.

`log_transition` writes one log line per change of phase or revision, none for a reconcile without
one. `CorrectionEvents` publishes an Event for each object that others changed and that was
restored: at most one per object and minute, because two writers may be fighting. Every correction
counts in the metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from windlass.base.clock import Clock
from windlass.environments.metrics import ReconcileMetrics
from windlass.objects.names import JSON, Object
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome

_log = structlog.get_logger(__name__)
_FAILED_PHASES = frozenset({"Failed", "Degraded"})


def log_transition(obj: Object, outcome: Outcome, seconds: float) -> None:
    """Log the outcome of a reconcile of `obj` if it changes the phase or the revision."""
    before, fields = obj.get("status") or {}, outcome.fields
    phase = fields.get("phase") or before.get("phase")
    revision = fields.get("revision") or before.get("revision")
    if (phase, revision) == (before.get("phase"), before.get("revision")):
        return
    metadata, verdict = obj["metadata"], outcome.ready
    log = _log.warning if phase in _FAILED_PHASES else _log.info
    log(
        "environment changed",
        capability="environments",
        kind="Environment",
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation"),
        revision=revision,
        step=_last_step(fields),
        reason=verdict.reason if verdict is not None else "",
        commit=_commit(fields),
        duration_ms=round(1000 * seconds),
        outcome=phase,
    )


def _last_step(fields: Mapping[str, JSON]) -> str:
    """The name of the last step that ran; empty if none did."""
    names = [row["name"] for row in fields.get("steps") or [] if row["state"] != "Pending"]
    return names[-1] if names else ""


def _commit(fields: Mapping[str, JSON]) -> str:
    sources = fields.get("sources") or []
    return str(sources[0].get("commit", "")) if sources else ""


_EVENT_INTERVAL_SECONDS = 60.0
"""Shortest time between two Events about the same object."""


@dataclass(frozen=True, slots=True)
class Correction:
    """One object with drift that was corrected.

    kind, name: of the object
    writer:     the field manager that changed it; empty if unknown, as after a deletion
    is_removed: it was a foreign NetworkPolicy, and was deleted instead of restored
    """

    kind: str
    name: str
    writer: str = ""
    is_removed: bool = False

    @property
    def text(self) -> str:
        by = f" by {self.writer}" if self.writer else ""
        if self.is_removed:
            return (
                f"Removed {self.kind} {self.name}{f' (added{by})' if by else ''}: policies that "
                "allow traffic are not permitted in an untrusted Environment"
            )
        return f"Drift corrected: {self.kind} {self.name}{f' (changed{by})' if by else ''}"


class CorrectionEvents:
    """Publishes an Event per corrected object, at most one per minute."""

    def __init__(self, recorder: EventRecorder, metrics: ReconcileMetrics, clock: Clock) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        # Monotonic time of the last Event, by uid of the Environment, kind and name of the object.
        self._recorded: dict[tuple[str, str, str], float] = {}
        # Events being written: the event loop itself keeps only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def record(self, environment: Object, correction: Correction) -> None:
        """Count a correction in the namespace of `environment`, and publish its Event."""
        self._metrics.record_correction(correction.kind)
        now = self._clock.monotonic()
        self._recorded = {
            key: at for key, at in self._recorded.items() if now - at < _EVENT_INTERVAL_SECONDS
        }
        key = (environment["metadata"]["uid"], correction.kind, correction.name)
        if key in self._recorded:
            return
        self._recorded[key] = now
        record = self._recorder.record(
            ObjectRef.of(environment),
            "Warning" if correction.is_removed else "Normal",
            "PolicyRemoved" if correction.is_removed else "DriftCorrected",
            correction.text,
            transition=str(now),
        )
        task = asyncio.ensure_future(record)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
