"""Finds namespaces whose Environment is gone, and removes them.

That happens only if somebody took our finalizer off by hand. A namespace goes after it was
seen without its Environment in two sweeps, each time by asking the API server itself. A
failed question is no answer, and neither is one about a kind that is not served just now,
where nothing would be found. What does not carry our mark is never looked at. A suspended
operator does not sweep (`controller`).
"""

from __future__ import annotations

import asyncio

import structlog

from windlass.api.kinds import environment
from windlass.environments.decide import marks
from windlass.environments.holdings import NAMESPACES, Holdings
from windlass.environments.measures import Measures
from windlass.environments.spaces import Spaces
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, NotFound
from windlass.objects.names import Object
from windlass.runtime.events import EventRecorder, ObjectRef

INTERVAL_SECONDS = 600.0

_log = structlog.get_logger(__name__)


class Sweep:
    """Looks for orphans every `interval_seconds`."""

    def __init__(
        self,
        api: Api,
        holdings: Holdings,
        spaces: Spaces,
        measures: Measures,
        recorder: EventRecorder,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._api = api
        self._holdings = holdings
        self._spaces = spaces
        self._measures = measures
        self._recorder = recorder
        self._interval_seconds = interval_seconds
        self._suspects: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.once()
            except ApiError as error:
                _log.warning("sweep put off", reason=error.reason, message=error.message)

    async def once(self) -> tuple[str, ...]:
        """One sweep; the namespaces that were removed."""
        present = {obj["metadata"]["uid"] for obj in await self._api.list(environment.KIND.gvr)}
        orphans = {
            live["metadata"]["uid"]: live
            for key in tuple(self._holdings.informers[NAMESPACES].keys())
            if (live := self._holdings.namespace(key.name)) is not None
            and marks.owner_uid(live) not in present
            and await self._is_orphan(live)
        }
        condemned = [live for uid, live in orphans.items() if uid in self._suspects]
        self._suspects = frozenset(orphans)
        for live in condemned:
            name = live["metadata"]["name"]
            _log.warning("removing an orphan", namespace=name, environment=marks.owner_key(live))
            await self._spaces.remove(name, marks.owner_uid(live))
            self._measures.orphan_deleted()
            await self._tell(live)
        return tuple(live["metadata"]["name"] for live in condemned)

    async def _tell(self, live: Object) -> None:
        uid, (namespace, name) = marks.owner_uid(live), marks.owner_key(live)
        kind = environment.KIND
        ref = ObjectRef(kind.gvr.api_version, "Environment", namespace, name, uid)
        text = f"namespace {live['metadata']['name']} had no Environment any more; it is deleted"
        await self._recorder.record(ref, "Warning", "Orphan", text, transition=uid)

    async def _is_orphan(self, live: Object) -> bool:
        uid = marks.owner_uid(live)
        namespace, name = marks.owner_key(live)
        kind = (live["metadata"].get("labels") or {}).get(marks.TYPE)
        if not uid or not name or kind != marks.ENVIRONMENT_TYPE:
            return False
        try:
            found = await self._api.get(environment.KIND.gvr, name, namespace)
        except NotFound:
            return True
        return bool(found["metadata"]["uid"] != uid)
