"""Events about objects that somebody had changed and that were restored.

One event per object and minute: somebody may be fighting with us. Every correction counts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from windlass.base.clock import Clock
from windlass.environments.measures import Measures
from windlass.objects.names import Object
from windlass.runtime.events import EventRecorder, ObjectRef

_QUIET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Correction:
    """One object that was not as desired.

    kind, name: which one
    writer:     the field manager that had changed it, where one signed
    is_removed: it was somebody else's NetworkPolicy, and is deleted
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
                f"Removed {self.kind} {self.name}, added{by or ' by others'}: it allows traffic, "
                "and this Environment is untrusted"
            )
        return f"Drift corrected: {self.kind} {self.name}{f' (changed{by})' if by else ''}"


class Corrections:
    """What was corrected lately."""

    def __init__(self, recorder: EventRecorder, measures: Measures, clock: Clock) -> None:
        self._recorder = recorder
        self._measures = measures
        self._clock = clock
        self._told: dict[tuple[str, str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, environment: Object, found: Correction) -> None:
        """Something in the namespace of `environment` was corrected."""
        self._measures.corrected(found.kind)
        now = self._clock.monotonic()
        self._told = {key: at for key, at in self._told.items() if now - at < _QUIET_SECONDS}
        key = (environment["metadata"]["uid"], found.kind, found.name)
        if key in self._told:
            return
        self._told[key] = now
        record = self._recorder.record(
            ObjectRef.of(environment),
            "Warning" if found.is_removed else "Normal",
            "PolicyRemoved" if found.is_removed else "DriftCorrected",
            found.text,
            transition=str(now),
        )
        task = asyncio.ensure_future(record)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
