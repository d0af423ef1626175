"""What we have just written, until a cache shows that it has seen something newer.

A cache lags behind our own writes, and a pass that reads it would write again. So a write
is remembered together with the bytes the cache had before it began; it counts as long as
the cache still has those. Before, not after: the cache may hear of our write, and of what
others make of it, sooner than we get its answer. A write that fails is not remembered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson

from windlass.objects.names import Object

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Written:
    """Our last write of one object, and what the cache had then; None = deleted or absent."""

    replaced: bytes | None
    object: Object | None


class Recent(Generic[P]):
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
