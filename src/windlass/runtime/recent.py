"""What we have just written, until a cache shows that it has seen something newer.

A cache lags behind our own writes, and a pass that reads it would write again. So a write
is remembered together with the bytes the cache had before it began; it counts as long as
the cache still has those. Before, not after: the cache may hear of our write, and of what
others make of it, sooner than we get its answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson

from windlass.objects.json import Object

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Written:
    """Our last write of one object, and what the cache had then; None = deleted or absent."""

    replaced: bytes | None
    object: Object | None


class Recent(Generic[P]):
    """Our newest writes, by the place of the object."""

    def __init__(self) -> None:
        self._written: dict[P, _Written] = {}

    def newest(self, place: P, cached: bytes | None) -> Object | None:
        """The object at `place`: our write where the cache has not moved since, else the cache."""
        written = self._written.get(place)
        if written is not None:
            if written.replaced == cached:
                return written.object
            del self._written[place]
        return orjson.loads(cached) if cached is not None else None

    def note(self, place: P, cached: bytes | None, obj: Object | None) -> None:
        """Remember what we wrote over `cached`; None for a deletion."""
        self._written[place] = _Written(cached, obj)

    def forget(self, place: P) -> None:
        """The cache told of a change at `place`."""
        self._written.pop(place, None)
