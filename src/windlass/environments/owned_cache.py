"""Cache of all objects in the cluster that carry our ownership label, over all Environments.

One watch per kind, selected by label, so the cost follows what the operator created and not the
size of the cluster; but all NetworkPolicies, because a foreign one without our label opens a
namespace as well. A change inside a namespace enqueues the Environment that the Namespace
names; a Namespace whose uid annotation and label disagree belongs to none.

Our own writes are visible at once, before the informer delivers them (`runtime.owned`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator

import orjson

from windlass.api.install.environment_objects import WATCHED_BUNDLE_RESOURCES, WATCHED_RESOURCES
from windlass.base.clock import Clock
from windlass.environments import ownership
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Key, Object
from windlass.objects.resources import (
    NAMESPACES,
    NETWORK_POLICIES,
    STORAGE_CLASSES,
)
from windlass.runtime.informer import Informer
from windlass.runtime.owned import RecentWrites

_PARSED_OBJECTS = 256
"""How many objects stay parsed: those of a few reconciles, which read each of them repeatedly."""


def _selector(gvr: GVR) -> str:
    return "" if gvr == NETWORK_POLICIES else ownership.MANAGED_SELECTOR


class OwnedCache:
    """Live objects with our ownership label, by kind, and all NetworkPolicies.

    `on_change` gets the key of the Environment that a change concerns.
    """

    def __init__(
        self,
        connection: Connection,
        on_change: Callable[[Key], None],
        *,
        settings: ReflectorSettings,
        clock: Clock,
    ) -> None:
        self._on_change = on_change
        # Our newest writes, until the informer shows something newer.
        self._recent: RecentWrites[tuple[GVR, Key]] = RecentWrites(self._cached)
        # Parsed objects, oldest first; None = absent. Dropped on each change.
        self._parsed: dict[tuple[GVR, Key], Object | None] = {}
        # By namespace: the Environment that it belongs to.
        self._owners: dict[str, Key] = {}
        # By namespace: the uid of that Environment.
        self._uids: dict[str, str] = {}
        # Names of the objects of one kind in one namespace; no entry for none.
        self._names: defaultdict[tuple[GVR, str], set[str]] = defaultdict(set)
        self.informers = {
            gvr: Informer(
                connection,
                Scope(gvr, selector=_selector(gvr)),
                on_change=self._on_change_of(gvr),
                settings=settings,
                clock=clock,
            )
            for gvr in WATCHED_RESOURCES
        }
        # The administrator's, so they do not carry our label; there are few of them.
        self.informers[STORAGE_CLASSES] = Informer(
            connection,
            Scope(STORAGE_CLASSES),
            on_change=self._storage_changed,
            settings=settings,
            clock=clock,
        )

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
        for name in sorted(self._names.get((gvr, namespace), ())):
            obj = self.get(gvr, namespace, name)
            if obj is not None:
                yield obj

    def bundle_objects(self, namespace: str) -> Iterator[Object]:
        """All objects in one namespace of the kinds that bundles may contain, without Secrets."""
        for gvr in WATCHED_BUNDLE_RESOURCES:
            yield from self.list_objects(gvr, namespace)

    def namespaces_of(self, uid: str) -> tuple[str, ...]:
        """The namespaces that were created for the Environment with this uid."""
        names = sorted(name for name, owner in self._uids.items() if owner == uid)
        candidates = ((name, self.namespace(name)) for name in names)
        return tuple(name for name, obj in candidates if obj and ownership.owner_uid(obj) == uid)

    def waits_for_a_pod(self, claim: Object) -> bool:
        """Whether the StorageClass of a claim binds volumes only for the first pod that uses it."""
        name = (claim.get("spec") or {}).get("storageClassName") or ""
        storage_class = self.get(STORAGE_CLASSES, "", name) or {}
        return bool(storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")

    def storage_classes(self) -> Iterator[Object]:
        """Every StorageClass of the cluster."""
        for key in self.informers[STORAGE_CLASSES].keys():  # noqa: SIM118 - it is no mapping
            storage_class = self.get(STORAGE_CLASSES, "", key.name)
            if storage_class is not None:
                yield storage_class

    async def await_write(
        self, gvr: GVR, namespace: str, name: str, write: Awaitable[Object]
    ) -> Object:
        """Await `write`; its answer is what `get` returns until the informer shows a change."""
        ref = (gvr, Key(namespace, name))
        obj = await self._recent.written(ref, write)
        self._parsed.pop(ref, None)
        self._names[gvr, namespace].add(name)
        return obj

    async def await_deletion(
        self, gvr: GVR, namespace: str, name: str, delete: Awaitable[None]
    ) -> None:
        """Await `delete`; from then on `get` returns None until the informer shows a change."""
        ref = (gvr, Key(namespace, name))
        await self._recent.deleted(ref, delete)
        self._parsed.pop(ref, None)

    def _cached(self, ref: tuple[GVR, Key]) -> bytes | None:
        gvr, key = ref
        return self.informers[gvr].get(key)

    def _forget(self, ref: tuple[GVR, Key]) -> None:
        self._recent.forget(ref)
        self._parsed.pop(ref, None)

    def _on_change_of(self, gvr: GVR) -> Callable[[Key], None]:
        if gvr == NAMESPACES:
            return self._namespace_changed
        return lambda key: self._changed(gvr, key)

    def _namespace_changed(self, key: Key) -> None:
        """Index the owner of a namespace, and enqueue both the previous and the new one."""
        self._forget((NAMESPACES, key))
        raw = self.informers[NAMESPACES].get(key)
        namespace: Object = orjson.loads(raw) if raw is not None else {}
        owner = self._owner(namespace)
        before = self._owners.pop(key.name, None)
        self._uids.pop(key.name, None)
        if owner is not None:
            self._owners[key.name] = owner
            self._uids[key.name] = ownership.owner_uid(namespace)
        for environment in {before, owner} - {None}:
            assert environment is not None
            self._on_change(environment)

    def _storage_changed(self, key: Key) -> None:
        self._forget((STORAGE_CLASSES, key))
        # Also Environments without claims: a claim may have been refused for want of this class.
        for environment in set(self._owners.values()):
            self._on_change(environment)

    def _changed(self, gvr: GVR, key: Key) -> None:
        self._forget((gvr, key))
        self._index_name(gvr, key)
        environment = self._owners.get(key.namespace)
        if environment is not None:
            self._on_change(environment)

    def _index_name(self, gvr: GVR, key: Key) -> None:
        """Keep `_names` in step with the informer; a namespace that is empty has no entry."""
        index = (gvr, key.namespace)
        if self.informers[gvr].get(key) is not None:
            self._names[index].add(key.name)
        elif index in self._names:
            self._names[index].discard(key.name)
            if not self._names[index]:
                del self._names[index]

    @staticmethod
    def _owner(namespace: Object) -> Key | None:
        if not ownership.owner_uid(namespace):
            return None
        owner_namespace, name = ownership.owner_key(namespace)
        return Key(owner_namespace, name) if owner_namespace and name else None
