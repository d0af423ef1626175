"""Writes outcomes to the status of their objects, at most one write per reconcile.

`read_status` is called before the reconcile: the report answers for the generation and the
requests of that time, not for those that came while the reconcile ran. The write is guarded by
the resourceVersion it was computed from; if another client wrote in between, the object is read
again, never overwritten. An object that is gone, or was created again under its name, gets no
report. A cache may not show our last write yet; `RecentWrites` does, and so does `newest`, from
which a reconcile begins that compares with the status before it. Events are recorded only when a
write changed the status or reason of a condition, or acknowledged a request, or where they are a
transition themselves.
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
    """What of an object a reconcile answers for."""

    uid: str
    generation: int
    annotations: dict[str, str]


class Reporter:
    """The status of all objects of one kind; `lookup` is the informer's `get`.

    `complete` adds to an outcome the other status fields of the object that follow from it, also
    where a reconcile ended in an error.
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
        # Our own status writes that the informer may not show yet.
        self._recent: RecentWrites[Key] = RecentWrites(lookup)

    def newest(self, key: Key) -> Object | None:
        """The object, our last status write included; shared, so callers must not modify it."""
        return self._recent.newest(key)

    def read_status(self, key: Key) -> StatusSnapshot | None:
        """The snapshot to take before a reconcile; None if the object does not exist."""
        obj = self.newest(key)
        return _snapshot(obj) if obj is not None else None

    async def report(self, key: Key, snapshot: StatusSnapshot | None, outcome: Outcome) -> None:
        """Write `outcome` to the status of `key`, if that changes anything."""
        obj = self.newest(key)
        if outcome.is_gone or obj is None:
            if not outcome.is_postponed:  # that one did not begin: our last write still counts
                self._recent.forget(key)
            return
        snapshot = snapshot or _snapshot(obj)
        if outcome.transient and _is_ready(obj, snapshot.generation):
            return
        for _ in range(_ATTEMPTS):
            if obj is None or _snapshot(obj).uid != snapshot.uid:
                return
            if await self._write_status(key, obj, snapshot, outcome):
                return
            obj = await self._read(key)
        raise Retryable(
            "StatusConflict", f"the status of {key} was changed by others in {_ATTEMPTS} attempts"
        )

    async def _write_status(
        self, key: Key, obj: Object, snapshot: StatusSnapshot, outcome: Outcome
    ) -> bool:
        """Write the status if it changes; False if another client wrote first."""
        old = obj.get("status") or {}
        outcome = self._complete(obj, outcome)
        new = runtime_status.build_status(
            old,
            outcome,
            generation=snapshot.generation,
            annotations=snapshot.annotations,
            now=self._clock.now(),
        )
        patch = runtime_status.status_patch(old, new)
        if patch is None:
            return True
        try:
            write = self._write(key, obj, patch)
            written = await self._recent.written(key, write, base=_version(obj))
        except NotFound:
            self._recent.forget(key)
            return True
        except Conflict:
            return False
        await self._record_events(written, old, new, outcome)
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

    async def _record_events(
        self, written: Object, old: Object, new: Object, outcome: Outcome
    ) -> None:
        if self._recorder is None:
            return
        ref = ObjectRef.of(written)
        for event in condition_events(old, new, outcome):
            await self._recorder.record(
                ref, event.weight, event.reason, event.message, transition=_version(written)
            )


def condition_events(old: Object, new: Object, outcome: Outcome) -> tuple[OutcomeEvent, ...]:
    """The events of one status write: none without a transition, of a condition or their own."""
    changed = runtime_status.transitions(old, new)
    acknowledged = old.get(runtime_status.ACKNOWLEDGEMENT) != new.get(
        runtime_status.ACKNOWLEDGEMENT
    )
    if not changed and not acknowledged:
        return tuple(event for event in outcome.events if event.stands_alone)
    rows = () if outcome.is_quiet else runtime_status.status_conditions(new)
    ready = [row for row in rows if row.type == READY]
    explicit = {event.reason for event in outcome.events}
    of_ready = [
        OutcomeEvent(_weight(outcome, row.status), row.reason, row.message)
        for row in ready
        if (row.type, row.status, row.reason) in changed and row.reason not in explicit
    ]
    return (*of_ready, *outcome.events)


def _weight(outcome: Outcome, status: str) -> Weight:
    """Normal for progress; Warning for what needs a person or a retry."""
    is_progress = outcome.reconciling and not (outcome.backoff or outcome.warns)
    return "Warning" if status == "False" and not is_progress else "Normal"


def _snapshot(obj: Object) -> StatusSnapshot:
    metadata = obj["metadata"]
    return StatusSnapshot(
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        annotations=runtime_status.object_annotations(obj),
    )


def _is_ready(obj: Object, generation: int) -> bool:
    """Whether the stored status is Ready for `generation`."""
    status = obj.get("status") or {}
    rows = runtime_status.status_conditions(status)
    true = any(row.type == READY and row.status == "True" for row in rows)
    return true and status.get("observedGeneration") == generation


def _version(obj: Object) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version
