"""Deletes everything that was created for an Environment, and nothing else.

`EnvironmentDeletion` reconciles an Environment that is being deleted:

    observed                                  does
    ----------------------------------------  ------------------------------------------
    a namespace with our uid                  delete it, naming its own uid
    such a namespace, still there             report what blocks it, requeue
    none                                      remove the finalizer

Neither the Project nor the spec is needed: the one may be gone, the other invalid. The namespace
in the status is used only if its own uid annotation confirms it. Finalizers of others are left
to them.

`OrphanCleanup` deletes namespaces whose Environment is gone, which happens only if our finalizer
was removed by hand. A namespace is deleted after two runs in a row found it without its
Environment, each time by a request to the API server. A failed request proves nothing, and neither
does one for a kind that is not served at the moment. Namespaces without our labels are never
considered. A suspended operator does not clean up (`controller`).
"""

from __future__ import annotations

import asyncio

import structlog

from windlass.api.install.environment_objects import ENVIRONMENT_TYPE, NAMESPACE_TYPE
from windlass.api.kinds import environment
from windlass.base.clock import Clock
from windlass.environments import ownership
from windlass.environments.metrics import ReconcileMetrics, parse_time
from windlass.environments.namespace.namespace_manager import NamespaceManager, deletion_blockers
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.resource_cache import environment_identity
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, NotFound
from windlass.objects.names import Key, Object
from windlass.objects.resources import NAMESPACES
from windlass.runtime import finalizer
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

# A namespace that terminates is checked after a quarter of the time it has taken so far.
_FIRST_REQUEUE_SECONDS = 5.0
_MAX_REQUEUE_SECONDS = 60.0
_BLOCKED = "DeletionBlocked"


class EnvironmentDeletion:
    """Reconciles Environments with a deletionTimestamp."""

    def __init__(
        self,
        api: Api,
        namespaces: NamespaceManager,
        metrics: ReconcileMetrics,
        recorder: EventRecorder,
        clock: Clock,
        *,
        field_manager: str,
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._namespaces = namespaces
        self._metrics = metrics
        self._clock = clock
        self._field_manager = field_manager

    async def reconcile(self, obj: Object) -> Outcome:
        """Delete the namespaces of an Environment, and its finalizer once they are gone."""
        if not finalizer.has_finalizer(obj, environment.FINALIZER):
            return Outcome.gone()
        uid, reported = obj["metadata"]["uid"], (obj.get("status") or {}).get("namespace") or ""
        remaining = [
            live
            for name in await self._namespaces.find_namespaces(
                environment_identity(obj), uid, reported
            )
            if (live := await self._namespaces.remove(name, uid)) is not None
        ]
        if remaining:
            return self._waiting_outcome(remaining, obj)
        if reported:
            self._metrics.record_namespace_deleted(_object_key(obj), self._seconds_deleting(obj))
            text = f"Namespace {reported} deleted"
            await self._recorder.record(
                ObjectRef.of(obj), "Normal", "NamespaceDeleted", text, transition=uid
            )
        await finalizer.remove_finalizer(
            self._api,
            environment.KIND.gvr,
            obj,
            environment.FINALIZER,
            field_manager=self._field_manager,
        )
        return Outcome.gone()

    def _waiting_outcome(self, remaining: list[Object], obj: Object) -> Outcome:
        """The outcome while namespaces terminate, with what blocks them."""
        names = " ".join(live["metadata"]["name"] for live in remaining)
        blockers = [text for live in remaining for text in deletion_blockers(live)][:5]
        self._metrics.record_deletion(_object_key(obj), is_blocked=bool(blockers))
        text = f"deleting namespace {names}"
        if blockers:
            text += f"; blocked by {blockers[0]} (see kubectl get namespace {names} -o yaml)"
        return Outcome(
            Verdict("False", "Deleting", text),
            reconciling=True,
            because=_BLOCKED if blockers else "",
            fields={
                "phase": "Deleting",
                "message": text[:1024],
                "deletion": {
                    "startedAt": obj["metadata"]["deletionTimestamp"],
                    "blockedBy": blockers or None,
                },
            },
            requeue_after=min(
                _MAX_REQUEUE_SECONDS, max(_FIRST_REQUEUE_SECONDS, self._seconds_deleting(obj) / 4)
            ),
            events=(OutcomeEvent("Warning", _BLOCKED, text),) if blockers else (),
        )

    def _seconds_deleting(self, obj: Object) -> float:
        """How long ago the deletion was requested."""
        since = parse_time(obj["metadata"]["deletionTimestamp"])
        return max(0.0, (self._clock.now() - since).total_seconds())


def _object_key(obj: Object) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])


_log = structlog.get_logger(__name__)


class OrphanCleanup:
    """Searches for orphaned namespaces every `interval_seconds` and deletes confirmed ones."""

    def __init__(
        self,
        api: Api,
        cache: OwnedCache,
        namespaces: NamespaceManager,
        metrics: ReconcileMetrics,
        recorder: EventRecorder,
        *,
        interval_seconds: float,
    ) -> None:
        self._api = api
        self._cache = cache
        self._namespaces = namespaces
        self._metrics = metrics
        self._recorder = recorder
        self._interval_seconds = interval_seconds
        # Uids of the namespaces that the previous run found orphaned.
        self._suspects: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Clean up at each interval until cancelled; a failed run is logged and repeated."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.run_once()
            except ApiError as error:
                _log.warning(
                    "orphan cleanup failed, retrying", reason=error.reason, message=error.message
                )

    async def run_once(self) -> tuple[str, ...]:
        """One run; the names of the namespaces that were deleted."""
        present = {obj["metadata"]["uid"] for obj in await self._api.list(environment.KIND.gvr)}
        orphans = {
            live["metadata"]["uid"]: live
            for live in tuple(self._cache.list_objects(NAMESPACES, ""))
            if ownership.owner_uid(live) not in present and await self._is_orphan(live)
        }
        confirmed = [live for uid, live in orphans.items() if uid in self._suspects]
        self._suspects = frozenset(orphans)
        for live in confirmed:
            name = live["metadata"]["name"]
            _log.warning(
                "deleting orphaned namespace",
                namespace=name,
                environment=ownership.owner_key(live),
            )
            await self._namespaces.remove(name, ownership.owner_uid(live))
            self._metrics.record_orphan_deleted()
            await self._record_event(live)
        return tuple(live["metadata"]["name"] for live in confirmed)

    async def _record_event(self, live: Object) -> None:
        uid, (namespace, name) = ownership.owner_uid(live), ownership.owner_key(live)
        kind = environment.KIND
        ref = ObjectRef(kind.gvr.api_version, "Environment", namespace, name, uid)
        text = f"Namespace {live['metadata']['name']} deleted: its Environment no longer exists"
        await self._recorder.record(ref, "Warning", "Orphan", text, transition=uid)

    async def _is_orphan(self, live: Object) -> bool:
        uid = ownership.owner_uid(live)
        namespace, name = ownership.owner_key(live)
        kind = (live["metadata"].get("labels") or {}).get(NAMESPACE_TYPE)
        if not uid or not name or kind != ENVIRONMENT_TYPE:
            return False
        try:
            namesake = await self._api.get(environment.KIND.gvr, name, namespace)
        except NotFound:
            return True
        return bool(namesake["metadata"]["uid"] != uid)
