"""What a stream remembers of each object, and the progress of a running snapshot.

The tracked resourceVersion moves with every event, also with those that make no
commit, because the next admission record names exactly that version. Versions are
opaque: compared for equality, never ordered.

A cluster has many objects, so each is two small values here: its key as one text, its
state packed into bytes. As objects of their own they would take three times the memory.

Only a snapshot that came whole, and in which every object had a name, proves anything;
then `SnapshotProgress` builds what each destination may conclude from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from windlass.kube.reflector import Scope
from windlass.objects.names import Identity, Key
from windlass.reverser.content.clean_object import CleanObject
from windlass.reverser.file_operation import Operation
from windlass.reverser.publish.file_update import ScopeSnapshot


class TrackedObject(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last state seen of one object; `digest` is empty once its deletion was credited.

    `aside` says that it is noise or its controller's: that may turn without a change of
    what is mirrored, so the digest does not show it. `bound` says that it is a Pod with a node.
    """

    uid: str
    resource_version: str
    digest: bytes
    replicas: int | None = None
    is_excluded: bool = False
    is_bound: bool = False

    @classmethod
    def from_object(cls, sighting: CleanObject, *, credited: bool = False) -> TrackedObject:
        """The state that a sighting shows."""
        digest = b"" if credited else sighting.digest
        version, replicas = sighting.resource_version, sighting.replicas
        return cls(sighting.uid, version, digest, replicas, sighting.is_excluded, sighting.is_bound)

    def matches(self, sighting: CleanObject) -> bool:
        """Whether nothing that is mirrored changed."""
        return (self.digest, self.is_excluded) == (sighting.digest, sighting.is_excluded)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(TrackedObject)


class ObjectTracker:
    """Every object of one stream."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._seen: set[str] = set()
        self._in_snapshot = False

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> TrackedObject | None:
        packed = self._objects.get(_key_text(key))
        return _decoder.decode(packed) if packed is not None else None

    def put(self, key: Key, tracked: TrackedObject) -> None:
        """Remember a state; whoever has one was seen."""
        text = _key_text(key)
        self._objects[text] = _encoder.encode(tracked)
        if self._in_snapshot:
            self._seen.add(text)

    def forget(self, key: Key) -> None:
        self._objects.pop(_key_text(key), None)

    def begin_snapshot(self) -> None:
        """From now on it counts who is seen."""
        self._in_snapshot, self._seen = True, set()

    def mark_seen(self, key: Key) -> None:
        """Somebody is alive whose state cannot be told."""
        if self._in_snapshot:
            self._seen.add(_key_text(key))

    def abandon_snapshot(self) -> None:
        """It proves nothing: everybody stays known."""
        self._in_snapshot, self._seen = False, set()

    def end_snapshot(self) -> tuple[Key, ...]:
        """Forget everybody who was not seen since it began, and say who that is."""
        gone = tuple(_parse_key(text) for text in self._objects.keys() - self._seen)
        for key in gone:
            self.forget(key)
        self.abandon_snapshot()
        return gone


def _key_text(key: Key) -> str:
    # Neither names nor namespaces have a slash.
    return f"{key.namespace}/{key.name}"


def _parse_key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)


@dataclass(slots=True)
class SnapshotProgress:
    """Which files are alive in each destination, how many objects came, and who had no name.

    `aside` are the paths of objects that came and are not mirrored, and what those are.
    """

    started: float
    live_paths: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    excluded: dict[Key, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    items: int = 0
    has_nameless: bool = False

    def scope_snapshot(
        self,
        scope: Scope,
        kind: str,
        coverage: tuple[Key, str, frozenset[Operation]],
        missed: Iterable[Key],
    ) -> ScopeSnapshot:
        """What a destination may conclude; `missed` were tracked and did not come."""
        destination, namespace, mask = coverage
        return ScopeSnapshot(
            gvr=scope.gvr,
            kind=kind,
            namespace=namespace,
            live_paths=frozenset(self.live_paths.get(destination, ())),
            is_empty=self.items == 0,
            mask=mask,
            missing=tuple(
                Identity(scope.gvr, key.namespace, key.name)
                for key in missed
                if namespace in ("", key.namespace)
            ),
            excluded=self.excluded.get(destination, {}),
        )
