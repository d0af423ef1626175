"""What a stream remembers of each object: enough to see a change, never the object.

The tracked resourceVersion moves with every event, also with those that make no
commit, because the next admission record names exactly that version. Versions are
opaque: compared for equality, never ordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.objects.key import Key


@dataclass(slots=True)
class Tracked:
    """The last state seen of one object; `digest` is empty once its deletion was credited."""

    uid: str
    resource_version: str
    digest: bytes
    replicas: int | None = None


class Tracking:
    """Every object of one stream."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Tracked] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def keys(self) -> Iterator[Key]:
        return (Key(namespace, name) for namespace, name in self._objects)

    def get(self, key: Key) -> Tracked | None:
        return self._objects.get((key.namespace, key.name))

    def put(self, key: Key, tracked: Tracked) -> None:
        self._objects[(key.namespace, key.name)] = tracked

    def forget(self, key: Key) -> Tracked | None:
        return self._objects.pop((key.namespace, key.name), None)
