"""Cache of everything in the cluster that carries our ownership label, over all Environments.

One watch per kind, selected by label, so the cost follows what the operator created and not the
size of the cluster; but all NetworkPolicies, because one that others add opens a namespace
without our label. A change inside a namespace enqueues the Environment that the Namespace
names; a Namespace whose uid annotation and label disagree belongs to none.

What was written a moment ago is not in an informer yet; a reconcile right after a write still
gets it from here (`runtime.owned`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator

import orjson

from windlass.base.clock import Clock
from windlass.environments import ownership
from windlass.environments.bundle import kinds
from windlass.kube.connection import Connection
from windlass.kube.reflector import Scope
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Key, Object
from windlass.runtime.informer import Informer
from windlass.runtime.owned import RecentWrites

NAMESPACES = GVR("", "v1", "namespaces")
RESOURCE_QUOTAS = GVR("", "v1", "resourcequotas")
LIMIT_RANGES = GVR("", "v1", "limitranges")
NETWORK_POLICIES = GVR("networking.k8s.io", "v1", "networkpolicies")
ROLE_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
SERVICE_ACCOUNTS = GVR("", "v1", "serviceaccounts")
CONFIG_MAPS = GVR("", "v1", "configmaps")
PODS = GVR("", "v1", "pods")
VOLUME_CLAIMS = GVR("", "v1", "persistentvolumeclaims")
SECRETS = GVR("", "v1", "secrets")
STORAGE_CLASSES = GVR("storage.k8s.io", "v1", "storageclasses")

_PARSED_OBJECTS = 256
"""How many objects stay parsed: those of some passes, which look at each of them repeatedly."""

_BUNDLE_RESOURCES = frozenset(allowed.gvr for allowed in kinds.ALLOWED_KINDS.values())

WATCHED: tuple[GVR, ...] = (
    NAMESPACES,
    RESOURCE_QUOTAS,
    LIMIT_RANGES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    # Never Secrets: nobody here may list them.
    *sorted(_BUNDLE_RESOURCES - {SECRETS}),
)


def _selector(gvr: GVR) -> str:
    return "" if gvr == NETWORK_POLICIES else ownership.MANAGED_SELECTOR


class OwnedCache:
    """Everything with our mark, by kind; and all NetworkPolicies.

    `on_change` gets the key of an Environment, `on_leave` the name of a namespace that is gone.
    """

    def __init__(
        self,
        connection: Connection,
        on_change: Callable[[Key], None],
        *,
        on_leave: Callable[[str], None],
        settings: ReflectorSettings,
        clock: Clock,
    ) -> None:
        self._on_change = on_change
        self._on_leave = on_leave
        self._recent: RecentWrites[tuple[GVR, Key]] = RecentWrites(self._cached)
        self._parsed: dict[tuple[GVR, Key], Object | None] = {}
        self._owners: dict[str, Key] = {}
        self._uids: dict[str, str] = {}
        self._names: defaultdict[tuple[GVR, str], set[str]] = defaultdict(set)
        self.informers = {
            gvr: Informer(
                connection,
                Scope(gvr, selector=_selector(gvr)),
                on_change=self._on_change_of(gvr),
                settings=settings,
                clock=clock,
            )
            for gvr in WATCHED
        }
        # The administrator's, so they carry no mark of ours; there are few of them.
        self.informers[STORAGE_CLASSES] = Informer(
            connection,
            Scope(STORAGE_CLASSES),
            on_change=self._storage_changed,
            settings=settings,
            clock=clock,
        )

    def get(self, gvr: GVR, namespace: str, name: str) -> Object | None:
        """A live object, our newest write included; nobody may change it."""
        place = (gvr, Key(namespace, name))
        if place not in self._parsed:
            if len(self._parsed) >= _PARSED_OBJECTS:
                self._parsed.pop(next(iter(self._parsed)))
            self._parsed[place] = self._recent.newest(place)
        return self._parsed[place]

    def namespace(self, name: str) -> Object | None:
        return self.get(NAMESPACES, "", name)

    def list_objects(self, gvr: GVR, namespace: str) -> Iterator[Object]:
        """All objects of a kind in one namespace."""
        for name in sorted(self._names.get((gvr, namespace), ())):
            found = self.get(gvr, namespace, name)
            if found is not None:
                yield found

    def bundle_objects(self, namespace: str) -> Iterator[Object]:
        """All objects in one namespace of the kinds that projects bring."""
        for gvr in sorted(_BUNDLE_RESOURCES - {SECRETS}):
            yield from self.list_objects(gvr, namespace)

    def namespaces_of(self, uid: str) -> tuple[str, ...]:
        """The namespaces that were made for an Environment."""
        names = sorted(name for name, owner in self._uids.items() if owner == uid)
        found = ((name, self.namespace(name)) for name in names)
        return tuple(name for name, obj in found if obj and ownership.owner_uid(obj) == uid)

    def waits_for_a_pod(self, claim: Object) -> bool:
        """Whether a claim gets its volume only when the first pod wants it."""
        name = (claim.get("spec") or {}).get("storageClassName") or ""
        found = self.get(STORAGE_CLASSES, "", name) or {}
        return bool(found.get("volumeBindingMode") == "WaitForFirstConsumer")

    def storage_classes(self) -> Iterator[Object]:
        """Every StorageClass of the cluster."""
        for key in self.informers[STORAGE_CLASSES].keys():  # noqa: SIM118 - it is no mapping
            found = self.get(STORAGE_CLASSES, "", key.name)
            if found is not None:
                yield found

    async def await_write(
        self, gvr: GVR, namespace: str, name: str, write: Awaitable[Object]
    ) -> Object:
        """What `write` answers, remembered until the cache shows something else."""
        place = (gvr, Key(namespace, name))
        obj = await self._recent.written(place, write)
        self._parsed.pop(place, None)
        self._names[gvr, namespace].add(name)
        return obj

    async def await_deletion(
        self, gvr: GVR, namespace: str, name: str, delete: Awaitable[None]
    ) -> None:
        """Wait for `delete`; from then on the object is gone, whatever the cache says."""
        place = (gvr, Key(namespace, name))
        await self._recent.deleted(place, delete)
        self._parsed.pop(place, None)

    def _cached(self, place: tuple[GVR, Key]) -> bytes | None:
        gvr, key = place
        return self.informers[gvr].get(key)

    def _forget(self, place: tuple[GVR, Key]) -> None:
        self._recent.forget(place)
        self._parsed.pop(place, None)

    def _on_change_of(self, gvr: GVR) -> Callable[[Key], None]:
        if gvr == NAMESPACES:
            return self._namespace_changed
        return lambda key: self._changed(gvr, key)

    def _namespace_changed(self, key: Key) -> None:
        self._forget((NAMESPACES, key))
        raw = self.informers[NAMESPACES].get(key)
        namespace: Object = orjson.loads(raw) if raw is not None else {}
        owner = self._owner(namespace)
        before = self._owners.pop(key.name, None)
        self._uids.pop(key.name, None)
        if owner is not None:
            self._owners[key.name] = owner
            self._uids[key.name] = ownership.owner_uid(namespace)
        if raw is None:
            self._on_leave(key.name)
        for environment in {before, owner} - {None}:
            assert environment is not None
            self._on_change(environment)

    def _storage_changed(self, key: Key) -> None:
        self._forget((STORAGE_CLASSES, key))
        # Also those without claims: theirs may have been refused for want of this class.
        for environment in set(self._owners.values()):
            self._on_change(environment)

    def _changed(self, gvr: GVR, key: Key) -> None:
        self._forget((gvr, key))
        self._index_name(gvr, key)
        environment = self._owners.get(key.namespace)
        if environment is not None:
            self._on_change(environment)

    def _index_name(self, gvr: GVR, key: Key) -> None:
        """Know by name what is in a namespace; of an empty one nothing is kept."""
        here = (gvr, key.namespace)
        if self.informers[gvr].get(key) is not None:
            self._names[here].add(key.name)
        elif here in self._names:
            self._names[here].discard(key.name)
            if not self._names[here]:
                del self._names[here]

    @staticmethod
    def _owner(namespace: Object) -> Key | None:
        if not ownership.owner_uid(namespace):
            return None
        there, name = ownership.owner_key(namespace)
        return Key(there, name) if there and name else None
