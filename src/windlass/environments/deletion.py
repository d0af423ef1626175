"""Deletes everything that was created for an Environment, and nothing else.

`EnvironmentDeletion` reconciles an Environment that is being deleted:

    found                                     does
    ----------------------------------------  ------------------------------------------
    a namespace with our uid                  delete it, naming its own uid
    such a namespace, still there             report what blocks it, requeue
    none                                      remove the finalizer

Neither the Project nor the spec is needed: the one may be gone, the other broken. What the
status reports of a namespace is believed only where the namespace confirms it. Finalizers of
others are theirs to remove.

`OrphanCleanup` removes namespaces whose Environment is gone, which happens only if our finalizer
was removed by hand. A namespace goes after it was found without its Environment in two runs, each
time by asking the API server itself. A failed request is not an answer, and neither is one about
a kind that is not served at the moment. What does not carry our labels is never considered. A
suspended operator does not clean up (`controller`).
"""

from __future__ import annotations

import asyncio

import structlog

from windlass.api.kinds import environment
from windlass.base.clock import Clock
from windlass.environments import ownership
from windlass.environments.metrics import ReconcileMetrics, parse_time
from windlass.environments.namespace.namespace_manager import NamespaceManager, deletion_blockers
from windlass.environments.namespace.naming import EnvironmentIdentity
from windlass.environments.owned_cache import NAMESPACES, OwnedCache
from windlass.environments.resource_cache import project_ref
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, NotFound
from windlass.objects.names import Key, Object
from windlass.runtime import finalizer
from windlass.runtime.events import EventRecorder, ObjectRef
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

_FIRST_REQUEUE_SECONDS = 5.0
_MAX_REQUEUE_SECONDS = 60.0
_BLOCKED = "DeletionBlocked"


class EnvironmentDeletion:
    """Environments on their way out."""

    def __init__(
        self,
        api: Api,
        spaces: NamespaceManager,
        measures: ReconcileMetrics,
        recorder: EventRecorder,
        clock: Clock,
        *,
        field_manager: str,
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._namespaces = spaces
        self._metrics = measures
        self._clock = clock
        self._field_manager = field_manager

    async def reconcile(self, obj: Object) -> Outcome:
        """One pass over an Environment that is being deleted."""
        if not finalizer.has_finalizer(obj, environment.FINALIZER):
            return Outcome.gone()
        uid, known = obj["metadata"]["uid"], (obj.get("status") or {}).get("namespace") or ""
        left = [
            live
            for name in await self._namespaces.find_namespaces(
                environment_identity(obj), uid, known
            )
            if (live := await self._namespaces.remove(name, uid)) is not None
        ]
        if left:
            return self._waiting_outcome(left, obj)
        if known:
            self._metrics.record_namespace_deleted(_object_key(obj), self._seconds_deleting(obj))
            text = "everything that was made for it is gone"
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

    def _waiting_outcome(self, left: list[Object], obj: Object) -> Outcome:
        names = " ".join(live["metadata"]["name"] for live in left)
        blocked = [text for live in left for text in deletion_blockers(live)][:5]
        self._metrics.record_deletion(_object_key(obj), is_blocked=bool(blocked))
        text = f"namespace {names} is being deleted"
        if blocked:
            text += f"; blocked by {blocked[0]} (kubectl get namespace {names} -o yaml)"
        return Outcome(
            Verdict("False", "Deleting", text),
            reconciling=True,
            because=_BLOCKED if blocked else "",
            fields={
                "phase": "Deleting",
                "message": text[:1024],
                "deletion": {
                    "startedAt": obj["metadata"]["deletionTimestamp"],
                    "blockedBy": blocked or None,
                },
            },
            requeue_after=min(
                _MAX_REQUEUE_SECONDS, max(_FIRST_REQUEUE_SECONDS, self._seconds_deleting(obj) / 4)
            ),
            events=(OutcomeEvent("Warning", _BLOCKED, text),) if blocked else (),
        )

    def _seconds_deleting(self, obj: Object) -> float:
        since = parse_time(obj["metadata"]["deletionTimestamp"])
        return max(0.0, (self._clock.now() - since).total_seconds())


def environment_identity(obj: Object) -> EnvironmentIdentity:
    """Which Environment this is."""
    metadata = obj["metadata"]
    project = str(project_ref(obj).get("name") or "")
    return EnvironmentIdentity(metadata["namespace"], project, metadata["name"])


def _object_key(obj: Object) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])


CLEANUP_INTERVAL_SECONDS = 600.0

_log = structlog.get_logger(__name__)


class OrphanCleanup:
    """Looks for orphans every `interval_seconds`."""

    def __init__(
        self,
        api: Api,
        holdings: OwnedCache,
        spaces: NamespaceManager,
        measures: ReconcileMetrics,
        recorder: EventRecorder,
        *,
        interval_seconds: float = CLEANUP_INTERVAL_SECONDS,
    ) -> None:
        self._api = api
        self._cache = holdings
        self._namespaces = spaces
        self._metrics = measures
        self._recorder = recorder
        self._interval_seconds = interval_seconds
        self._suspects: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.run_once()
            except ApiError as error:
                _log.warning("sweep put off", reason=error.reason, message=error.message)

    async def run_once(self) -> tuple[str, ...]:
        """One sweep; the namespaces that were removed."""
        present = {obj["metadata"]["uid"] for obj in await self._api.list(environment.KIND.gvr)}
        orphans = {
            live["metadata"]["uid"]: live
            for key in tuple(self._cache.informers[NAMESPACES].keys())
            if (live := self._cache.namespace(key.name)) is not None
            and ownership.owner_uid(live) not in present
            and await self._is_orphan(live)
        }
        condemned = [live for uid, live in orphans.items() if uid in self._suspects]
        self._suspects = frozenset(orphans)
        for live in condemned:
            name = live["metadata"]["name"]
            _log.warning(
                "removing an orphan", namespace=name, environment=ownership.owner_key(live)
            )
            await self._namespaces.remove(name, ownership.owner_uid(live))
            self._metrics.record_orphan_deleted()
            await self._record_event(live)
        return tuple(live["metadata"]["name"] for live in condemned)

    async def _record_event(self, live: Object) -> None:
        uid, (namespace, name) = ownership.owner_uid(live), ownership.owner_key(live)
        kind = environment.KIND
        ref = ObjectRef(kind.gvr.api_version, "Environment", namespace, name, uid)
        text = f"namespace {live['metadata']['name']} had no Environment any more; it is deleted"
        await self._recorder.record(ref, "Warning", "Orphan", text, transition=uid)

    async def _is_orphan(self, live: Object) -> bool:
        uid = ownership.owner_uid(live)
        namespace, name = ownership.owner_key(live)
        kind = (live["metadata"].get("labels") or {}).get(ownership.NAMESPACE_TYPE)
        if not uid or not name or kind != ownership.ENVIRONMENT_TYPE:
            return False
        try:
            found = await self._api.get(environment.KIND.gvr, name, namespace)
        except NotFound:
            return True
        return bool(found["metadata"]["uid"] != uid)
