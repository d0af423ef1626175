"""Queue of Kubernetes Events for GitDestinations that no condition change causes.

Recording never blocks a stream or a push: a few events wait, the rest are dropped with a log
line, because an Event is a courtesy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from windlass.objects.names import Key
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import OutcomeEvent

_CAPACITY = 256

_log = structlog.get_logger(__name__)


class EventQueue:
    """Events on GitDestinations; `lookup` finds the object as the informer has it."""

    def __init__(self, recorder: EventRecorder, lookup: Callable[[Key], bytes | None]) -> None:
        self._recorder = recorder
        self._lookup = lookup
        self._waiting: asyncio.Queue[tuple[Key, OutcomeEvent, str]] = asyncio.Queue(_CAPACITY)

    def add(self, destination: Key, event: OutcomeEvent, transition: str) -> None:
        """Have an event recorded; the same transition told again is the same event."""
        try:
            self._waiting.put_nowait((destination, event, transition))
        except asyncio.QueueFull:
            _log.warning("event left out", destination=str(destination), reason=event.reason)

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            destination, event, transition = await self._waiting.get()
            raw = self._lookup(destination)
            if raw is not None:
                ref = ObjectRef.of(msgspec.json.decode(raw))
                await self._recorder.record(
                    ref, event.weight, event.reason, event.message, transition=transition
                )
