"""Informers and indexes: IgnitionSyncs, the pods annotated as gateways, the owned objects.

Five watches for the whole cluster. Of pods only those with our annotation are kept, of
other objects only those with our label. A change enqueues the IgnitionSyncs it concerns:

| what changed | enqueued |
|---|---|
| an IgnitionSync | itself |
| which pods an IgnitionSync claims | all of its namespace |
| a pod | all IgnitionSyncs of its namespace |
| an owned object | the IgnitionSync in its label, before and after |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

import orjson

from windlass.api.kinds import registry
from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.base.clock import Clock
from windlass.base.errors import Stalled
from windlass.gateways.status import pod_discovery
from windlass.gateways.status.pod_discovery import ObservedPod, PodClaim
from windlass.gateways.wire import agent_objects
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Key, Object
from windlass.runtime.informer import Informer
from windlass.runtime.owned import RecentWrites

PODS = GVR("", "v1", "pods")
CONFIG_MAPS = GVR("", "v1", "configmaps")
ROLES = GVR("rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
OWNED_TYPES = (CONFIG_MAPS, ROLES, ROLE_BINDINGS)

_ObjectKey = tuple[GVR, Key]


@dataclass(frozen=True, slots=True)
class _RepositoryUse:
    """Which repository an IgnitionSync uses; `ref` is empty while it asks for none."""

    remote: Remote
    ref: str


class GatewayCache:
    """What the passes look at; `wake` gets the key of every IgnitionSync to look at again."""

    def __init__(
        self,
        connection: Connection,
        wake: Callable[[Key], None],
        *,
        settings: ReflectorSettings,
        clock: Clock,
    ) -> None:
        self._enqueue = wake
        self._recent: RecentWrites[_ObjectKey] = RecentWrites(self._get_from_informer)
        self._claims: defaultdict[str, dict[str, PodClaim | None]] = defaultdict(dict)
        self._uses: dict[Key, _RepositoryUse] = {}
        self._pods: defaultdict[str, set[str]] = defaultdict(set)
        self._owner: dict[_ObjectKey, str] = {}
        self._owned_names: defaultdict[tuple[GVR, Key], set[str]] = defaultdict(set)
        self.syncs = Informer(
            connection,
            Scope(registry.IGNITION_SYNCS),
            on_change=self._sync_changed,
            settings=settings,
            clock=clock,
        )
        self.pods = Informer(
            connection,
            Scope(PODS),
            on_change=self._pod_changed,
            keeps=pod_discovery.may_be_gateway,
            settings=settings,
            clock=clock,
        )
        self.owned = {
            gvr: Informer(
                connection,
                Scope(gvr, selector=agent_objects.OWNED_SELECTOR),
                on_change=self._listener(gvr),
                settings=settings,
                clock=clock,
            )
            for gvr in OWNED_TYPES
        }

    @property
    def informers(self) -> tuple[Informer, ...]:
        return (self.syncs, self.pods, *self.owned.values())

    @property
    def is_synced(self) -> bool:
        return all(informer.synced.is_set() for informer in self.informers)

    def get_sync(self, key: Key) -> bytes | None:
        return self.syncs.get(key)

    def claims(self, namespace: str) -> tuple[PodClaim, ...]:
        """What the IgnitionSyncs of a namespace say about pods; broken ones say nothing."""
        found = self._claims.get(namespace, {}).values()
        return tuple(claim for claim in found if claim is not None)

    def annotated_pods(self, namespace: str) -> tuple[ObservedPod, ...] | None:
        """The annotated pods of a namespace; None before all pods were seen once."""
        if not self.pods.synced.is_set():
            return None
        raw = (self.pods.get(Key(namespace, name)) for name in self._pods.get(namespace, ()))
        read = (pod_discovery.decode_pod(each) for each in raw if each is not None)
        return tuple(pod for pod in read if pod is not None)

    def count_pods_sharing(self, remote: str) -> int:
        """How many pods there are in all namespaces whose IgnitionSyncs use a repository."""
        places = {key.namespace for key, use in self._uses.items() if use.remote.identity == remote}
        return sum(len(self._pods.get(place, ())) for place in places)

    def requested_refs(self, remote: Remote) -> Iterator[str]:
        """The ref texts of all IgnitionSyncs that ask one repository."""
        for use in self._uses.values():
            if use.ref and use.remote.fetch_key == remote.fetch_key:
                yield use.ref

    def get_owned(self, gvr: GVR, namespace: str, name: str) -> Object | None:
        """An owned object, our newest write included."""
        return self._recent.newest((gvr, Key(namespace, name)))

    def list_owned(self, gvr: GVR, sync: Key) -> dict[str, Object]:
        """All objects of a type that are kept for one IgnitionSync, by name."""
        names = sorted(self._owned_names.get((gvr, sync), ()))
        found = ((name, self.get_owned(gvr, sync.namespace, name)) for name in names)
        return {name: obj for name, obj in found if obj is not None}

    def published_data(self, sync: Key) -> Mapping[str, str]:
        """What the agents of an IgnitionSync are told at the moment."""
        found = (
            self.get_owned(CONFIG_MAPS, sync.namespace, agent_objects.metadata_name(sync.name))
            or {}
        )
        data: Mapping[str, str] = found.get("data") or {}
        return data

    async def record_write(self, gvr: GVR, key: Key, write: Awaitable[Object]) -> Object:
        """What `write` answers, seen from now on."""
        obj = await self._recent.written((gvr, key), write)
        self._index_owner(gvr, key, agent_objects.owner_name(obj))
        return obj

    async def record_delete(self, gvr: GVR, key: Key, delete: Awaitable[None]) -> None:
        """Wait for `delete`; the object is not seen any more."""
        await self._recent.deleted((gvr, key), delete)

    def _get_from_informer(self, place: _ObjectKey) -> bytes | None:
        gvr, key = place
        return self.owned[gvr].get(key)

    def _sync_changed(self, key: Key) -> None:
        raw = self.syncs.get(key)
        found = _decode_active(raw) if raw is not None else None
        known = self._claims[key.namespace]
        before, now = known.get(key.name), _pod_claim(found)
        if raw is None:
            known.pop(key.name, None)
        else:
            known[key.name] = now
        self._index_use(key, _repository_use(found))
        self._enqueue(key)
        if before != now:
            self._enqueue_namespace(key.namespace)

    def _index_use(self, key: Key, use: _RepositoryUse | None) -> None:
        if use is None:
            self._uses.pop(key, None)
        else:
            self._uses[key] = use

    def _pod_changed(self, key: Key) -> None:
        names = self._pods[key.namespace]
        (names.discard if self.pods.get(key) is None else names.add)(key.name)
        self._enqueue_namespace(key.namespace)

    def _listener(self, gvr: GVR) -> Callable[[Key], None]:
        return lambda key: self._owned_changed(gvr, key)

    def _owned_changed(self, gvr: GVR, key: Key) -> None:
        self._recent.forget((gvr, key))
        raw = self.owned[gvr].get(key)
        before = self._owner.get((gvr, key), "")
        now = _owner_name(raw) if raw is not None else ""
        self._index_owner(gvr, key, now)
        for name in {before, now} - {""}:
            self._enqueue(Key(key.namespace, name))

    def _index_owner(self, gvr: GVR, key: Key, cr: str) -> None:
        """Note for whom an object is kept; an empty name is nobody."""
        before = self._owner.pop((gvr, key), "")
        if before:
            self._owned_names[gvr, Key(key.namespace, before)].discard(key.name)
        if cr:
            self._owner[gvr, key] = cr
            self._owned_names[gvr, Key(key.namespace, cr)].add(key.name)

    def _enqueue_namespace(self, namespace: str) -> None:
        for name in self._claims.get(namespace, ()):
            self._enqueue(Key(namespace, name))


def _decode_active(raw: bytes) -> IgnitionSync | None:
    """An IgnitionSync that counts for others; None for one that is broken or going."""
    try:
        found = IgnitionSync.decode(raw)
    except Stalled:
        return None
    return found if found.metadata.deletion_timestamp is None else None


def _pod_claim(found: IgnitionSync | None) -> PodClaim | None:
    return PodClaim(found.metadata.name, found.spec.pod_selector) if found is not None else None


def _repository_use(found: IgnitionSync | None) -> _RepositoryUse | None:
    """Which repository is used; None where none can be."""
    if found is None:
        return None
    try:
        remote = Remote.parse(found.spec.git.repo)
    except RemoteRefused:
        return None
    return _RepositoryUse(remote, "" if found.spec.paused else found.spec.git.ref)


def _owner_name(raw: bytes) -> str:
    """For whom an object is kept; an object that cannot be read is nobody's."""
    try:
        return agent_objects.owner_name(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return ""
