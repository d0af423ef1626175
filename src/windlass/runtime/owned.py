"""Writes objects that we own by server-side apply, and only where a write changes something.

`OwnedObjects` is the one write path of every capability: server-side apply under the field
manager of the capability, so fields of others stay theirs. An object that is up to date costs no
request, also right after a restart, because managedFields of the live object list what we own.

`RecentWrites` covers the time until a cache shows our own write. A cache lags behind, and a
reconcile that reads it would write again. So a write is remembered together with the bytes the
cache had before it began; it counts as long as the cache still has those. Before, not after: the
cache may receive our write, and what others make of it, sooner than we get the response. Of
several writes in a row the newest counts, also while the cache shows an earlier one of them, or
the version that a guarded write was computed from. A write that fails is not remembered, and
neither is one during which the object left the cache: that may have been what it wrote.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import orjson

from windlass.base import failpoint
from windlass.objects import managed_fields
from windlass.objects.names import GVR, Object

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Written:
    """Our last write of one object, and what the cache had then; None = deleted or absent."""

    object: Object | None
    replaced: bytes | None
    earlier: frozenset[str]  # versions before it that the cache did not have: ours, and its base

    def is_newer_than(self, cached: bytes | None) -> bool:
        """Whether the cache has not got as far as this write yet."""
        if cached == self.replaced:
            return True
        if cached is None or not self.earlier:
            return False
        try:
            return _resource_version(orjson.loads(cached)) in self.earlier
        except orjson.JSONDecodeError:
            return False


class RecentWrites(Generic[P]):
    """Our newest writes by the key of their object; `lookup` reads the cache."""

    def __init__(self, lookup: Callable[[P], bytes | None]) -> None:
        self._lookup = lookup
        # Writes that the cache may not show yet.
        self._written: dict[P, _Written] = {}
        # Writes under way, at most one of a key: whether the object left the cache meanwhile.
        self._under_way: dict[P, bool] = {}

    def newest(self, key: P) -> Object | None:
        """The object: our write where the cache has not changed since, else the cached one."""
        cached = self._lookup(key)
        written = self._written.get(key)
        if written is not None and written.is_newer_than(cached):
            return written.object
        self._written.pop(key, None)
        return orjson.loads(cached) if cached is not None else None

    async def written(self, key: P, write: Awaitable[Object], *, base: str = "") -> Object:
        """The result of `write`, remembered until the cache changes.

        `base` is the version that the write is guarded by; the cache may get it only later.
        """
        cached, earlier = self._state_before(key)
        self._under_way[key] = False
        try:
            obj = await write
        finally:
            has_left = self._under_way.pop(key)
        if has_left:
            # The cache had our write and its deletion sooner than we got the response: it would
            # look like before, and the object would count as live for ever.
            self._written.pop(key, None)
            return obj
        # A write without effect returns the version of the one before: that is not an earlier one.
        earlier = earlier.union((base,) if base else ()) - {_resource_version(obj)}
        self._written[key] = _Written(obj, cached, earlier)
        return obj

    async def deleted(self, key: P, delete: Awaitable[object]) -> None:
        """Await `delete`; from then on the object counts as gone until the cache changes."""
        before = self._state_before(key)
        await delete
        self._written[key] = _Written(None, *before)

    def forget(self, key: P) -> None:
        """Drop what is remembered of `key`."""
        self._written.pop(key, None)

    def cache_changed(self, key: P) -> None:
        """Drop our write of `key`, unless the cache shows an earlier one of ours.

        An object that left the cache had been in it, so its absence is newer than our write.
        """
        written, cached = self._written.get(key), self._lookup(key)
        if cached is None and key in self._under_way:
            self._under_way[key] = True
        if written is not None and (cached is None or not written.is_newer_than(cached)):
            del self._written[key]

    def _state_before(self, key: P) -> tuple[bytes | None, frozenset[str]]:
        """What the cache has before a write, and the versions of ours that it lacks."""
        cached, written = self._lookup(key), self._written.get(key)
        if written is None or not written.is_newer_than(cached):
            return cached, frozenset()
        version = _resource_version(written.object or {})
        return cached, written.earlier.union((version,) if version else ())


_MOST_SETTLED = 4096


class ApplyClient(Protocol):
    """The part of `kube.api.Api` that `OwnedObjects` needs."""

    async def apply(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object: ...


class OwnedObjects:
    """Objects applied as field manager `manager`."""

    def __init__(self, api: ApplyClient, manager: str) -> None:
        self._api = api
        self._manager = manager
        # By (uid, resourceVersion): what we applied to get, or compared with, that version.
        self._settled: dict[tuple[str, str], Object] = {}

    def is_up_to_date(self, desired: Object, live: Object | None) -> bool:
        """Whether `live` has everything that applying `desired` would set."""
        if live is None:
            return False
        # The server may store another form than was sent (defaults, quantities); then the version
        # that it answered to exactly this apply counts. A version is compared only once.
        if self._settled.get(_version(live)) == desired:
            return True
        if not managed_fields.is_up_to_date(desired, live, self._manager):
            return False
        self._remember(live, desired)
        return True

    async def ensure(self, gvr: GVR, desired: Object, live: Object | None) -> Object:
        """Apply `desired` unless `live` is up to date; returns the object as it now is."""
        if live is not None and self.is_up_to_date(desired, live):
            return live
        failpoint.reach("runtime.owned.before")
        written = await self._api.apply(gvr, desired, field_manager=self._manager)
        failpoint.reach("runtime.owned.after")
        self._remember(written, desired)
        return written

    def _remember(self, live: Object, desired: Object) -> None:
        version = _version(live)
        if not all(version):
            return
        if version not in self._settled and len(self._settled) >= _MOST_SETTLED:
            self._settled.pop(next(iter(self._settled)))
        self._settled[version] = desired


def _resource_version(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")


def _version(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")
