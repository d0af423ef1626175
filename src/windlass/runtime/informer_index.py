"""Index of an informer: its objects by a value that is read from their bytes.

With it a reconcile finds the objects that concern it without decoding all others, so its cost
follows what it finds and not what the cluster holds. An object has one value or none:

| index | value of an object |
|---|---|
| Environments by Project | the Project that it names |
| owned objects by owner | the owner in its label; none without the label |

Whoever listens to an index gets the value that a changed object had before and the one that it
has now, so that a reconcile of both is queued. Pure: the informer calls it on every change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from windlass.objects.names import Key

V = TypeVar("V", bound=Hashable)


class InformerIndex(Generic[V]):
    """Keys of the objects of an informer by their value.

    `read` gets key and bytes of an object and returns its value, or None for none; it must not
    raise, since an object of any content may arrive.
    """

    def __init__(
        self,
        read: Callable[[Key, bytes], V | None],
        on_change: Callable[[V], None] | None = None,
    ) -> None:
        self._read = read
        self._on_change = on_change
        # The value of each object that has one.
        self._values: dict[Key, V] = {}
        # The inverse; a value without objects has no entry.
        self._keys: dict[V, set[Key]] = {}

    def keys_of(self, value: V) -> tuple[Key, ...]:
        """The objects with a value, in order."""
        return tuple(sorted(self._keys.get(value, ())))

    def values(self) -> Iterable[V]:
        """Every value that an object has, once."""
        return tuple(self._keys)

    def value_of(self, key: Key) -> V | None:
        return self._values.get(key)

    def enter(self, key: Key, value: V | None) -> None:
        """Enter a value, for example of an object that we wrote and the informer does not show."""
        before = self._values.pop(key, None)
        if before is not None:
            self._keys[before].discard(key)
            if not self._keys[before]:
                del self._keys[before]
        if value is not None:
            self._values[key] = value
            self._keys.setdefault(value, set()).add(key)

    def update(self, key: Key, raw: bytes | None) -> set[V]:
        """Enter an object, or remove it for None; returns its values before and now."""
        before, now = self._values.get(key), self._read(key, raw) if raw is not None else None
        self.enter(key, now)
        return {value for value in (before, now) if value is not None}

    def notify(self, values: Iterable[V]) -> None:
        """Report values whose objects changed."""
        if self._on_change is not None:
            for value in values:
                self._on_change(value)


def read_namespace(key: Key, raw: bytes) -> str:
    """The value of an index by namespace."""
    del raw
    return key.namespace
