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
from windlass.base.errors import Stalled
from windlass.gateways.status import pod_discovery
from windlass.gateways.status.pod_discovery import ObservedPod, PodClaim
from windlass.gateways.wire import agent_objects
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.kube.reflector import Scope
from windlass.objects.names import GVR, Key, Object
from windlass.objects.resources import CONFIG_MAPS, PODS, ROLE_BINDINGS, ROLES
from windlass.runtime.informer_index import read_namespace
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.owned import RecentWrites

OWNED_TYPES = (CONFIG_MAPS, ROLES, ROLE_BINDINGS)


@dataclass(frozen=True, slots=True)
class _RepositoryUse:
    """Which repository an IgnitionSync uses; `ref` is empty while it is paused."""

    remote: Remote
    ref: str


class GatewayCache:
    """Informers of the controller; `enqueue` gets each IgnitionSync that a change concerns."""

    def __init__(self, informers: InformerRegistry, enqueue: Callable[[Key], None]) -> None:
        self._enqueue = enqueue
        # Our own writes, until the informer delivers them or something newer.
        self._recent: RecentWrites[tuple[GVR, Key]] = RecentWrites(self._get_from_informer)
        # namespace -> name -> claim of every IgnitionSync; None for one without a valid claim.
        self._claims: defaultdict[str, dict[str, PodClaim | None]] = defaultdict(dict)
        # Repository of each valid IgnitionSync that is not being deleted.
        self._uses: dict[Key, _RepositoryUse] = {}
        self.syncs = informers.add(Scope(registry.IGNITION_SYNCS), self._sync_changed)
        self.pods = informers.add(Scope(PODS), matches=pod_discovery.may_be_gateway)
        self._pods_by_namespace = self.pods.add_index(read_namespace, self._enqueue_namespace)
        self.owned = {
            gvr: informers.add(
                Scope(gvr, selector=agent_objects.OWNED_SELECTOR), self._drop_write_of(gvr)
            )
            for gvr in OWNED_TYPES
        }
        self._owned_by_sync = {
            gvr: informer.add_index(_read_owner, enqueue) for gvr, informer in self.owned.items()
        }

    def get_sync(self, key: Key) -> bytes | None:
        return self.syncs.get(key)

    def claims(self, namespace: str) -> tuple[PodClaim, ...]:
        """Which pods the IgnitionSyncs of a namespace select; invalid ones select none."""
        claims = self._claims.get(namespace, {}).values()
        return tuple(claim for claim in claims if claim is not None)

    def annotated_pods(self, namespace: str) -> tuple[ObservedPod, ...] | None:
        """The annotated pods of a namespace; None until all pods were listed once."""
        if not self.pods.synced.is_set():
            return None
        raw = (self.pods.get(key) for key in self._pods_by_namespace.keys_of(namespace))
        decoded = (pod_discovery.decode_pod(content) for content in raw if content is not None)
        return tuple(pod for pod in decoded if pod is not None)

    def count_pods_sharing(self, remote: str) -> int:
        """How many pods there are in all namespaces whose IgnitionSyncs use a repository."""
        namespaces = {
            key.namespace for key, use in self._uses.items() if use.remote.identity == remote
        }
        return sum(len(self._pods_by_namespace.keys_of(namespace)) for namespace in namespaces)

    def requested_refs(self, remote: Remote) -> Iterator[str]:
        """The refs of all IgnitionSyncs that poll one repository."""
        for use in self._uses.values():
            if use.ref and use.remote.fetch_key == remote.fetch_key:
                yield use.ref

    def get_owned(self, gvr: GVR, namespace: str, name: str) -> Object | None:
        """An owned object, our newest write included."""
        return self._recent.newest((gvr, Key(namespace, name)))

    def list_owned(self, gvr: GVR, sync: Key) -> dict[str, Object]:
        """All objects of a type that are owned by one IgnitionSync, by name."""
        keys = self._owned_by_sync[gvr].keys_of(sync)
        objects = ((key.name, self.get_owned(gvr, key.namespace, key.name)) for key in keys)
        return {name: obj for name, obj in objects if obj is not None}

    def published_data(self, sync: Key) -> Mapping[str, str]:
        """The data of the metadata ConfigMap that agents read now; empty if there is none."""
        config_map = (
            self.get_owned(CONFIG_MAPS, sync.namespace, agent_objects.metadata_name(sync.name))
            or {}
        )
        data: Mapping[str, str] = config_map.get("data") or {}
        return data

    async def record_write(self, gvr: GVR, key: Key, write: Awaitable[Object]) -> Object:
        """Await `write`; its response is what `get_owned` returns from now on."""
        obj = await self._recent.written((gvr, key), write)
        self._owned_by_sync[gvr].enter(key, _owner_key(key, obj))
        return obj

    async def record_delete(self, gvr: GVR, key: Key, delete: Awaitable[object]) -> None:
        """Await `delete`; `get_owned` returns None from now on."""
        await self._recent.deleted((gvr, key), delete)

    def _get_from_informer(self, object_key: tuple[GVR, Key]) -> bytes | None:
        gvr, key = object_key
        return self.owned[gvr].get(key)

    def _sync_changed(self, key: Key) -> None:
        raw = self.syncs.get(key)
        sync = _decode_active(raw) if raw is not None else None
        claims = self._claims[key.namespace]
        before, now = claims.get(key.name), _pod_claim(sync)
        if raw is None:
            claims.pop(key.name, None)
        else:
            claims[key.name] = now
        self._index_use(key, _repository_use(sync))
        self._enqueue(key)
        if before != now:
            self._enqueue_namespace(key.namespace)

    def _index_use(self, key: Key, use: _RepositoryUse | None) -> None:
        if use is None:
            self._uses.pop(key, None)
        else:
            self._uses[key] = use

    def _drop_write_of(self, gvr: GVR) -> Callable[[Key], None]:
        return lambda key: self._recent.cache_changed((gvr, key))

    def _enqueue_namespace(self, namespace: str) -> None:
        for name in self._claims.get(namespace, ()):
            self._enqueue(Key(namespace, name))


def _decode_active(raw: bytes) -> IgnitionSync | None:
    """The IgnitionSync in `raw`; None if it is invalid or being deleted."""
    try:
        sync = IgnitionSync.decode(raw)
    except Stalled:
        return None
    return sync if sync.metadata.deletion_timestamp is None else None


def _pod_claim(sync: IgnitionSync | None) -> PodClaim | None:
    return PodClaim(sync.metadata.name, sync.spec.pod_selector) if sync is not None else None


def _repository_use(sync: IgnitionSync | None) -> _RepositoryUse | None:
    """The repository of an IgnitionSync; None if its address is invalid."""
    if sync is None:
        return None
    try:
        remote = Remote.parse(sync.spec.git.repo)
    except RemoteRefused:
        return None
    return _RepositoryUse(remote, "" if sync.spec.paused else sync.spec.git.ref)


def _read_owner(key: Key, raw: bytes) -> Key | None:
    """The IgnitionSync in an object's label; None also for an object that cannot be decoded."""
    try:
        return _owner_key(key, orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None


def _owner_key(key: Key, obj: Object) -> Key | None:
    name = agent_objects.owner_name(obj)
    return Key(key.namespace, name) if name else None
