"""Tracked object states of one stream, and the progress of its running snapshot.

Used by `Stream` alone.

The tracked resourceVersion moves with every event, also with those that make no
commit, because the next admission record names exactly that version. Versions are
opaque: compared for equality, never ordered.

A cluster has many objects, so each is two small values here: its key as one string, its
state packed into bytes. As Python objects they would take three times the memory.

Only a complete snapshot in which every object had a name proves deletions; from it
`SnapshotProgress` builds the scope snapshot of each destination.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.content.clean_object import CleanObject
from windlass.reverser.file_operation import Operation
from windlass.reverser.publish.file_update import ScopeSnapshot


class TrackedObject(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last observed state of one object."""

    uid: str  # of the object; another uid under the same name is another object
    resource_version: str  # of the last event; opaque
    digest: bytes  # of the sanitized content; empty once its deletion was attributed
    replicas: int | None = None  # spec.replicas, which a scale request changes
    is_excluded: bool = False  # noise or controller-owned; may flip while the digest stays equal
    is_bound: bool = False  # a Pod with a node

    @classmethod
    def from_object(cls, obj: CleanObject, *, deletion_attributed: bool = False) -> TrackedObject:
        """The state of `obj`; with `deletion_attributed` its next event removes nothing again."""
        digest = b"" if deletion_attributed else obj.digest
        version, replicas = obj.resource_version, obj.replicas
        return cls(obj.uid, version, digest, replicas, obj.is_excluded, obj.is_bound)

    def matches(self, obj: CleanObject) -> bool:
        """Whether nothing that is mirrored changed."""
        return (self.digest, self.is_excluded) == (obj.digest, obj.is_excluded)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(TrackedObject)


class ObjectTracker:
    """The last observed state of every object of one stream."""

    def __init__(self) -> None:
        # `namespace/name` -> packed TrackedObject.
        self._objects: dict[str, bytes] = {}
        # Keys observed since the running snapshot began; empty outside of one.
        self._listed: set[str] = set()
        self._in_snapshot = False

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> TrackedObject | None:
        packed = self._objects.get(_key_text(key))
        return _decoder.decode(packed) if packed is not None else None

    def put(self, key: Key, tracked: TrackedObject) -> None:
        """Store the state of an object; inside a snapshot this also counts it as listed."""
        text = _key_text(key)
        self._objects[text] = _encoder.encode(tracked)
        if self._in_snapshot:
            self._listed.add(text)

    def forget(self, key: Key) -> None:
        self._objects.pop(_key_text(key), None)

    def begin_snapshot(self) -> None:
        """Start to collect which objects are listed."""
        self._in_snapshot, self._listed = True, set()

    def mark_listed(self, key: Key) -> None:
        """Count an object as listed although its state cannot be read."""
        if self._in_snapshot:
            self._listed.add(_key_text(key))

    def abandon_snapshot(self) -> None:
        """End a snapshot that proves nothing: every object stays tracked."""
        self._in_snapshot, self._listed = False, set()

    def end_snapshot(self) -> tuple[Key, ...]:
        """End a complete snapshot: forget the objects that were not listed and return them."""
        missing = tuple(_parse_key(text) for text in self._objects.keys() - self._listed)
        for key in missing:
            self.forget(key)
        self.abandon_snapshot()
        return missing


def _key_text(key: Key) -> str:
    # Neither names nor namespaces have a slash.
    return f"{key.namespace}/{key.name}"


def _parse_key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)


@dataclass(slots=True)
class SnapshotProgress:
    """What a running snapshot has listed so far; the stream writes it."""

    started: float  # monotonic time
    # Paths of live objects, by destination.
    live_paths: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Paths of live objects that are not mirrored and what those are, by destination.
    excluded: dict[Key, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    items: int = 0  # objects listed, unreadable ones included
    has_nameless: bool = False  # whether one had no readable name

    def scope_snapshot(
        self,
        gvr: GVR,
        kind: str,
        destination: Key,
        namespace: str,
        mask: frozenset[Operation],
        missing: Iterable[Key],
    ) -> ScopeSnapshot:
        """What the snapshot proves to one destination that needs `namespace`, or all ("").

        `missing` were tracked and are not listed.
        """
        return ScopeSnapshot(
            gvr=gvr,
            kind=kind,
            namespace=namespace,
            live_paths=frozenset(self.live_paths.get(destination, ())),
            is_empty=self.items == 0,
            mask=mask,
            missing=tuple(
                Identity(gvr, key.namespace, key.name)
                for key in missing
                if namespace in ("", key.namespace)
            ),
            excluded=self.excluded.get(destination, {}),
        )
