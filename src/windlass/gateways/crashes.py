"""When passes that crash are worth an event (REC-6).

The condition tells of a crash at once, with an id that leads to the log; most pass by
themselves. An event asks for a person, so it comes with the third crash in a row and then
no more, until a pass has come to its end again. A pass that was put off is neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson

from windlass.objects.names import Key
from windlass.runtime.controller import INTERNAL, OutcomeReporter
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.reporter import StatusSnapshot

CRASHES = 3


class Crashes:
    """Stands before a reporter, and counts; `lookup` is the informer's `get`."""

    def __init__(
        self,
        reporter: OutcomeReporter[Key, StatusSnapshot | None],
        recorder: EventRecorder,
        lookup: Callable[[Key], bytes | None],
    ) -> None:
        self._reporter = reporter
        self._recorder = recorder
        self._lookup = lookup
        self._in_a_row: dict[Key, int] = {}

    def look(self, key: Key) -> StatusSnapshot | None:
        return self._reporter.look(key)

    async def report(self, key: Key, seen: StatusSnapshot | None, outcome: Outcome) -> None:
        if outcome.ready is None or outcome.ready.reason != INTERNAL:
            if not outcome.is_postponed:
                self._in_a_row.pop(key, None)
            await self._reporter.report(key, seen, outcome)
            return
        self._in_a_row[key] = count = self._in_a_row.get(key, 0) + 1
        await self._reporter.report(key, seen, replace(outcome, is_quiet=True))
        if count == CRASHES:
            await self._announce(key, outcome.ready)

    async def _announce(self, key: Key, said: Verdict) -> None:
        raw = self._lookup(key)
        if raw is None:
            return
        found = orjson.loads(raw)
        # Crashes change nothing, so after a restart this is the same event as before it.
        transition = str(found["metadata"].get("resourceVersion", ""))
        await self._recorder.record(
            ObjectRef.of(found), "Warning", said.reason, said.message, transition=transition
        )
