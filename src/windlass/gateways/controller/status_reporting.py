"""Two wrappers of the status reporter: a rate limit for writes, and Events about crash loops.

`StatusRateLimit` stands between the reporter and the API server. Many agents report at the
same time. A reconcile that would write too soon after the last ones is postponed, so what
came meanwhile takes one write, and nothing is decided twice. Two writes may follow each
other at once: the new commit, and that its gateway has it.

`CrashReporter` stands before the reporter (REC-6). The condition reports a crash at once,
with an id that leads to the log; most pass by themselves. An Event asks for a person, so it
comes with the third crash in a row and then no more, until a reconcile has completed again.
A reconcile that was postponed is neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson

from windlass.base.clock import Clock, RateLimit
from windlass.kube.api import Api
from windlass.objects.names import GVR, Key, Object
from windlass.runtime.controller import INTERNAL, OutcomeReporter
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.reporter import StatusSnapshot

_BURST = 2


class StatusRateLimit:
    """Passes status writes through to the API server and counts them per object."""

    def __init__(self, api: Api, clock: Clock, *, interval_seconds: float) -> None:
        self._api = api
        self._clock = clock
        self._interval_seconds = interval_seconds
        # One limit per object that was written; `forget` drops it with the object.
        self._limits: dict[Key, RateLimit] = {}

    def wait_seconds(self, key: Key) -> float:
        """How long until the status may be written again; 0 for now."""
        limit = self._limits.get(key)
        return limit.wait_seconds(self._clock.monotonic()) if limit is not None else 0.0

    def forget(self, key: Key) -> None:
        self._limits.pop(key, None)

    async def get(self, gvr: GVR, name: str, namespace: str = "") -> Object:
        return await self._api.get(gvr, name, namespace)

    async def merge_patch(
        self,
        gvr: GVR,
        name: str,
        patch: Object,
        namespace: str = "",
        *,
        field_manager: str,
        subresource: str = "",
    ) -> Object:
        written = await self._api.merge_patch(
            gvr, name, patch, namespace, field_manager=field_manager, subresource=subresource
        )
        key = Key(namespace, name)
        limit = self._limits.setdefault(key, RateLimit(self._interval_seconds, _BURST))
        limit.count(self._clock.monotonic())
        return written


CRASHES_BEFORE_EVENT = 3
"""Most crashes pass by themselves; an Event calls for a user."""


class CrashReporter:
    """Counts crashes in a row before it passes outcomes on; `lookup` is the informer's `get`."""

    def __init__(
        self,
        reporter: OutcomeReporter[Key, StatusSnapshot | None],
        recorder: EventRecorder,
        lookup: Callable[[Key], bytes | None],
    ) -> None:
        self._reporter = reporter
        self._recorder = recorder
        self._lookup = lookup
        # Crashes since the last completed reconcile; no entry for none.
        self._consecutive_crashes: dict[Key, int] = {}

    def read_status(self, key: Key) -> StatusSnapshot | None:
        return self._reporter.read_status(key)

    async def report(self, key: Key, snapshot: StatusSnapshot | None, outcome: Outcome) -> None:
        if outcome.ready is None or outcome.ready.reason != INTERNAL:
            if not outcome.is_postponed:
                self._consecutive_crashes.pop(key, None)
            await self._reporter.report(key, snapshot, outcome)
            return
        self._consecutive_crashes[key] = count = self._consecutive_crashes.get(key, 0) + 1
        await self._reporter.report(key, snapshot, replace(outcome, is_quiet=True))
        if count == CRASHES_BEFORE_EVENT:
            await self._record_event(key, outcome.ready)

    async def _record_event(self, key: Key, verdict: Verdict) -> None:
        raw = self._lookup(key)
        if raw is None:
            return
        obj = orjson.loads(raw)
        # Crashes do not change the object, so a restart repeats this Event under the same name.
        transition = str(obj["metadata"].get("resourceVersion", ""))
        await self._recorder.record(
            ObjectRef.of(obj), "Warning", verdict.reason, verdict.message, transition=transition
        )
