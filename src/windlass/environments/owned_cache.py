"""Cache of all objects in the cluster that carry our ownership label, over all Environments.

One watch per kind, selected by label, so the cost follows what the operator created and not the
size of the cluster; but all NetworkPolicies, because a foreign one without our label opens a
namespace as well. A change inside a namespace enqueues the Environment that the Namespace
names; a Namespace whose uid annotation and label disagree belongs to none.

Our own writes are visible at once, before the informer delivers them (`runtime.owned`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import orjson

from windlass.api.install.environment_objects import WATCHED_BUNDLE_RESOURCES, WATCHED_RESOURCES
from windlass.environments import ownership
from windlass.kube.reflector import Scope
from windlass.objects.names import GVR, Key, Object
from windlass.objects.resources import (
    NAMESPACES,
    NETWORK_POLICIES,
    STORAGE_CLASSES,
)
from windlass.runtime.informer_index import read_namespace
from windlass.runtime.informer_registry import InformerRegistry
from windlass.runtime.owned import RecentWrites

_PARSED_OBJECTS = 256
"""How many objects stay parsed: those of a few reconciles, which read each of them repeatedly."""


def _selector(gvr: GVR) -> str:
    return "" if gvr == NETWORK_POLICIES else ownership.MANAGED_SELECTOR


class OwnedCache:
    """Live objects with our ownership label, by kind, and all NetworkPolicies.

    `on_change` gets the key of the Environment that a change concerns.
    """

    def __init__(self, informers: InformerRegistry, on_change: Callable[[Key], None]) -> None:
        self._on_change = on_change
        # Our newest writes, until the informer shows something newer.
        self._recent: RecentWrites[tuple[GVR, Key]] = RecentWrites(self._cached)
        # Parsed objects, oldest first; None = absent. Dropped on each change.
        self._parsed: dict[tuple[GVR, Key], Object | None] = {}
        self._informers = {
            gvr: informers.add(Scope(gvr, selector=_selector(gvr)), self._on_change_of(gvr))
            for gvr in WATCHED_RESOURCES
        }
        # The administrator's, so they do not carry our label; there are few of them.
        self._informers[STORAGE_CLASSES] = informers.add(
            Scope(STORAGE_CLASSES), self._storage_changed
        )
        self._by_namespace = {
            gvr: informer.add_index(read_namespace) for gvr, informer in self._informers.items()
        }
        # Namespaces by the Environment that they belong to, and by its uid.
        namespaces = self._informers[NAMESPACES]
        self._namespaces_by_owner = namespaces.add_index(_read_owner, on_change)
        self._namespaces_by_uid = namespaces.add_index(_read_owner_uid)

    def get(self, gvr: GVR, namespace: str, name: str) -> Object | None:
        """A live object, our newest write included; shared, so callers must not modify it."""
        ref = (gvr, Key(namespace, name))
        if ref not in self._parsed:
            if len(self._parsed) >= _PARSED_OBJECTS:
                self._parsed.pop(next(iter(self._parsed)))
            self._parsed[ref] = self._recent.newest(ref)
        return self._parsed[ref]

    def namespace(self, name: str) -> Object | None:
        return self.get(NAMESPACES, "", name)

    def list_objects(self, gvr: GVR, namespace: str) -> Iterator[Object]:
        """All objects of a kind in one namespace."""
        for key in self._by_namespace[gvr].keys_of(namespace):
            obj = self.get(gvr, key.namespace, key.name)
            if obj is not None:
                yield obj

    def bundle_objects(self, namespace: str) -> Iterator[Object]:
        """All objects in one namespace of the kinds that bundles may contain, without Secrets."""
        for gvr in WATCHED_BUNDLE_RESOURCES:
            yield from self.list_objects(gvr, namespace)

    def namespaces_of(self, uid: str) -> tuple[str, ...]:
        """The namespaces that were created for the Environment with this uid."""
        keys = self._namespaces_by_uid.keys_of(uid)
        candidates = ((key.name, self.namespace(key.name)) for key in keys)
        return tuple(name for name, obj in candidates if obj and ownership.owner_uid(obj) == uid)

    def waits_for_a_pod(self, claim: Object) -> bool:
        """Whether the StorageClass of a claim binds volumes only for the first pod that uses it."""
        name = (claim.get("spec") or {}).get("storageClassName") or ""
        storage_class = self.get(STORAGE_CLASSES, "", name) or {}
        return bool(storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")

    def storage_classes(self) -> Iterator[Object]:
        """Every StorageClass of the cluster."""
        return self.list_objects(STORAGE_CLASSES, "")

    async def await_write(
        self, gvr: GVR, namespace: str, name: str, write: Awaitable[Object]
    ) -> Object:
        """Await `write`; its answer is what `get` returns until the informer shows a change."""
        ref = (gvr, Key(namespace, name))
        obj = await self._recent.written(ref, write)
        self._parsed.pop(ref, None)
        self._by_namespace[gvr].enter(ref[1], namespace)
        return obj

    async def await_deletion(
        self, gvr: GVR, namespace: str, name: str, delete: Awaitable[object]
    ) -> None:
        """Await `delete`; from then on `get` returns None until the informer shows a change."""
        ref = (gvr, Key(namespace, name))
        await self._recent.deleted(ref, delete)
        self._parsed.pop(ref, None)

    async def await_termination(self, gvr: GVR, name: str, delete: Awaitable[Object]) -> Object:
        """Await `delete` of what finalizers keep; `get` returns its answer like that of a write."""
        # What the informer does not have never leaves it, and would terminate forever.
        if self._cached((gvr, Key("", name))) is None:
            return await delete
        return await self.await_write(gvr, "", name, delete)

    def _cached(self, ref: tuple[GVR, Key]) -> bytes | None:
        gvr, key = ref
        return self._informers[gvr].get(key)

    def _on_change_of(self, gvr: GVR) -> Callable[[Key], None]:
        return lambda key: self._changed(gvr, key)

    def _changed(self, gvr: GVR, key: Key) -> None:
        self._recent.cache_changed((gvr, key))
        self._parsed.pop((gvr, key), None)
        environment = self._namespaces_by_owner.value_of(Key("", key.namespace))
        if environment is not None:
            self._on_change(environment)

    def _storage_changed(self, key: Key) -> None:
        self._parsed.pop((STORAGE_CLASSES, key), None)  # we write none of them
        # Also Environments without claims: a claim may have been refused for want of this class.
        for environment in self._namespaces_by_owner.values():
            self._on_change(environment)


def _read_owner(key: Key, raw: bytes) -> Key | None:
    """The Environment that a namespace belongs to; None also if it cannot be decoded."""
    del key
    try:
        namespace: Object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    if not ownership.owner_uid(namespace):
        return None
    owner_namespace, name = ownership.owner_key(namespace)
    return Key(owner_namespace, name) if owner_namespace and name else None


def _read_owner_uid(key: Key, raw: bytes) -> str | None:
    """The uid of that Environment; None where `_read_owner` finds no owner."""
    return ownership.owner_uid(orjson.loads(raw)) if _read_owner(key, raw) else None
