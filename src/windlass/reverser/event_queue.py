"""Queue of Kubernetes Events for GitDestinations that no condition change causes.

Streams and branch workers add Events, one task records them. Adding never blocks a stream or a
push: a few events wait, the rest are dropped with a log line, because no state depends on Events.
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
    """Events on GitDestinations; `lookup` returns the object from the informer cache."""

    def __init__(self, recorder: EventRecorder, lookup: Callable[[Key], bytes | None]) -> None:
        self._recorder = recorder
        self._lookup = lookup
        # (destination, event, transition), at most _CAPACITY of them.
        self._waiting: asyncio.Queue[tuple[Key, OutcomeEvent, str]] = asyncio.Queue(_CAPACITY)

    def add(self, destination: Key, event: OutcomeEvent, transition: str) -> None:
        """Queue an Event; the same transition again is the same Event."""
        try:
            self._waiting.put_nowait((destination, event, transition))
        except asyncio.QueueFull:
            _log.warning(
                "Event dropped; queue is full", destination=str(destination), reason=event.reason
            )

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
