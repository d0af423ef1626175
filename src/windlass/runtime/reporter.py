"""Writes outcomes to the status of their objects, at most one write per pass.

`look` is taken before the pass: the report answers for the generation and the
requests that were there then, not for what came while the pass ran. The write is
guarded by the resourceVersion it was computed from; who wrote in between is read
again, never overwritten. An object that is gone, or that was made anew under its
name, gets no report. A cache may not have seen our last write yet; we have. Events are
recorded only when a write changed a condition's status or reason, or acknowledged a
request, or where they are a transition themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from windlass.base import failpoint
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Retryable
from windlass.kube.errors import Conflict, NotFound
from windlass.objects.names import GVR, Key, Object
from windlass.runtime import status
from windlass.runtime import status as runtime_status
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import READY, Outcome, OutcomeEvent, Weight
from windlass.runtime.owned import RecentWrites

_ATTEMPTS = 5

Lookup = Callable[[Key], bytes | None]
Complete = Callable[[Object, Outcome], Outcome]


class StatusWriter(Protocol):
    """The part of `kube.api.Api` that reporting needs."""

    async def get(self, gvr: GVR, name: str, namespace: str = "") -> Object: ...

    async def merge_patch(
        self,
        gvr: GVR,
        name: str,
        patch: Object,
        namespace: str = "",
        *,
        field_manager: str,
        subresource: str = "",
    ) -> Object: ...


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """What of an object a pass answers for."""

    uid: str
    generation: int
    annotations: dict[str, str]


class Reporter:
    """The status of all objects of one kind; `lookup` is the informer's `get`.

    `complete` adds to an outcome what the object's other status fields must say beside it,
    also where a pass ended in an error.
    """

    def __init__(
        self,
        api: StatusWriter,
        gvr: GVR,
        lookup: Lookup,
        *,
        field_manager: str,
        recorder: EventRecorder | None = None,
        clock: Clock | None = None,
        complete: Complete = lambda _, outcome: outcome,
    ) -> None:
        self._complete = complete
        self._api = api
        self._gvr = gvr
        self._field_manager = field_manager
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._recent: RecentWrites[Key] = RecentWrites(lookup)

    def read_status(self, key: Key) -> StatusSnapshot | None:
        """What is there before a pass; None if nothing is."""
        obj = self._recent.newest(key)
        return _sighting(obj) if obj is not None else None

    async def report(self, key: Key, seen: StatusSnapshot | None, outcome: Outcome) -> None:
        """Bring the status of `key` to what `outcome` says, if that changes anything."""
        obj = self._recent.newest(key)
        if outcome.is_gone or obj is None:
            self._recent.forget(key)
            return
        seen = seen or _sighting(obj)
        if outcome.transient and _is_ready(obj, seen.generation):
            return
        for _ in range(_ATTEMPTS):
            if obj is None or _sighting(obj).uid != seen.uid:
                return
            if await self._settled(key, obj, seen, outcome):
                return
            obj = await self._read(key)
        raise Retryable("StatusConflict", f"the status of {key} was written by others {_ATTEMPTS}x")

    async def _settled(self, key: Key, obj: Object, seen: StatusSnapshot, outcome: Outcome) -> bool:
        """Write if there is something to write; False if somebody else wrote first."""
        old = obj.get("status") or {}
        outcome = self._complete(obj, outcome)
        new = runtime_status.build_status(
            old,
            outcome,
            generation=seen.generation,
            annotations=seen.annotations,
            now=self._clock.now(),
        )
        patch = runtime_status.status_patch(old, new)
        if patch is None:
            return True
        try:
            written = await self._recent.written(key, self._write(key, obj, patch))
        except NotFound:
            self._recent.forget(key)
            return True
        except Conflict:
            return False
        await self._announce(written, old, new, outcome)
        return True

    async def _write(self, key: Key, obj: Object, patch: Object) -> Object:
        guard = {"uid": obj["metadata"]["uid"], "resourceVersion": _version(obj)}
        failpoint.reach("runtime.status.before")
        written = await self._api.merge_patch(
            self._gvr,
            key.name,
            {"metadata": guard, "status": patch},
            key.namespace,
            field_manager=self._field_manager,
            subresource="status",
        )
        failpoint.reach("runtime.status.after")
        return written

    async def _read(self, key: Key) -> Object | None:
        try:
            return await self._api.get(self._gvr, key.name, key.namespace)
        except NotFound:
            return None

    async def _announce(self, written: Object, old: Object, new: Object, outcome: Outcome) -> None:
        if self._recorder is None:
            return
        ref = ObjectRef.of(written)
        for notice in condition_events(old, new, outcome):
            await self._recorder.record(
                ref, notice.weight, notice.reason, notice.message, transition=_version(written)
            )


def condition_events(old: Object, new: Object, outcome: Outcome) -> tuple[OutcomeEvent, ...]:
    """The events of one status write: none without a transition, of a condition or their own."""
    changed = runtime_status.transitions(old, new)
    acknowledged = old.get(status.ACKNOWLEDGEMENT) != new.get(status.ACKNOWLEDGEMENT)
    if not changed and not acknowledged:
        return tuple(notice for notice in outcome.events if notice.stands_alone)
    rows = () if outcome.is_quiet else runtime_status.status_conditions(new)
    ready = [row for row in rows if row.type == READY]
    spoken = {notice.reason for notice in outcome.events}
    said = [
        OutcomeEvent(_weight(outcome, row.status), row.reason, row.message)
        for row in ready
        if (row.type, row.status, row.reason) in changed and row.reason not in spoken
    ]
    return (*said, *outcome.events)


def _weight(outcome: Outcome, status: str) -> Weight:
    """Progress is normal; only what needs a person or a retry warns."""
    passes = outcome.reconciling and not (outcome.backoff or outcome.warns)
    return "Warning" if status == "False" and not passes else "Normal"


def _sighting(obj: Object) -> StatusSnapshot:
    metadata = obj["metadata"]
    return StatusSnapshot(
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        annotations=status.object_annotations(obj),
    )


def _is_ready(obj: Object, generation: int) -> bool:
    """Whether the stored status says Ready for what is asked for now."""
    status = obj.get("status") or {}
    rows = runtime_status.status_conditions(status)
    true = any(row.type == READY and row.status == "True" for row in rows)
    return true and status.get("observedGeneration") == generation


def _version(obj: Object) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version
