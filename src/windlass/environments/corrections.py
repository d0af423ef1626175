"""Tells of objects that somebody had changed and that were put right.

One event per object and minute: somebody may be fighting with us. Every correction counts.
"""

from __future__ import annotations

import asyncio

from windlass.base.clock import Clock
from windlass.environments.measures import Measures
from windlass.objects.json import Object
from windlass.runtime.events import EventRecorder, ObjectRef

_QUIET_SECONDS = 60.0


class Corrections:
    """What was corrected lately."""

    def __init__(self, recorder: EventRecorder, measures: Measures, clock: Clock) -> None:
        self._recorder = recorder
        self._measures = measures
        self._clock = clock
        self._told: dict[tuple[str, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, environment: Object, name: str) -> None:
        """`name` (Kind/name) in the namespace of `environment` was put right."""
        self._measures.corrected(name)
        now = self._clock.monotonic()
        self._told = {key: at for key, at in self._told.items() if now - at < _QUIET_SECONDS}
        key = (environment["metadata"]["uid"], name)
        if key in self._told:
            return
        self._told[key] = now
        text = f"{name} was not as wished; it was put right"
        record = self._recorder.record(
            ObjectRef.of(environment), "Normal", "DriftCorrected", text, transition=str(now)
        )
        task = asyncio.ensure_future(record)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
