"""Writes objects that we own, and only when they are not as wanted.

One write path for every capability: server-side apply under the capability's manager, so
fields of others stay theirs. An object that is as wanted costs nothing, also right after a
restart, because the live object itself says what we own of it.

What we have just written, until a cache shows that it has seen something newer.

A cache lags behind our own writes, and a pass that reads it would write again. So a write
is remembered together with the bytes the cache had before it began; it counts as long as
the cache still has those. Before, not after: the cache may hear of our write, and of what
others make of it, sooner than we get its answer. A write that fails is not remembered.
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

    replaced: bytes | None
    object: Object | None


class RecentWrites(Generic[P]):
    """Our newest writes, by the place of the object; `lookup` asks the cache."""

    def __init__(self, lookup: Callable[[P], bytes | None]) -> None:
        self._lookup = lookup
        self._written: dict[P, _Written] = {}

    def newest(self, place: P) -> Object | None:
        """The object at `place`: our write where the cache has not moved since, else the cache."""
        cached = self._lookup(place)
        written = self._written.get(place)
        if written is not None:
            if written.replaced == cached:
                return written.object
            del self._written[place]
        return orjson.loads(cached) if cached is not None else None

    async def written(self, place: P, write: Awaitable[Object]) -> Object:
        """What `write` answers, remembered until the cache shows something else."""
        replaced = self._lookup(place)
        obj = await write
        self._written[place] = _Written(replaced, obj)
        return obj

    async def deleted(self, place: P, delete: Awaitable[None]) -> None:
        """Wait for `delete`; from then on the object is gone, whatever the cache says."""
        replaced = self._lookup(place)
        await delete
        self._written[place] = _Written(replaced, None)

    def forget(self, place: P) -> None:
        """The cache told of a change at `place`."""
        self._written.pop(place, None)


_SECOND_LOOKS = 4096


class ApplyClient(Protocol):
    """The part of `kube.api.Api` that owning needs."""

    async def apply(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object: ...


class OwnedObjects:
    """Objects applied as `manager`."""

    def __init__(self, api: ApplyClient, manager: str) -> None:
        self._api = api
        self._manager = manager
        self._settled: dict[tuple[str, str], Object] = {}

    def is_as_wanted(self, wanted: Object, live: Object | None) -> bool:
        """Whether nothing of ours is missing in `live`."""
        if live is None:
            return False
        # What the server stores may differ in form from what was sent; then its own answer
        # to that very wish is the measure. And a version once compared need not be again.
        if self._settled.get(_version(live)) == wanted:
            return True
        if not managed_fields.is_up_to_date(wanted, live, self._manager):
            return False
        self._remember(live, wanted)
        return True

    async def ensure(self, gvr: GVR, wanted: Object, live: Object | None) -> Object:
        """`wanted` on the server; the object as it now is."""
        if live is not None and self.is_as_wanted(wanted, live):
            return live
        failpoint.reach("runtime.owned.before")
        written = await self._api.apply(gvr, wanted, field_manager=self._manager)
        failpoint.reach("runtime.owned.after")
        self._remember(written, wanted)
        return written

    def _remember(self, live: Object, wanted: Object) -> None:
        version = _version(live)
        if not all(version):
            return
        if version not in self._settled and len(self._settled) >= _SECOND_LOOKS:
            self._settled.pop(next(iter(self._settled)))
        self._settled[version] = wanted


def _version(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")
