"""What a stream remembers of each object: enough to see a change, never the object.

The tracked resourceVersion moves with every event, also with those that make no
commit, because the next admission record names exactly that version. Versions are
opaque: compared for equality, never ordered.

A cluster has many objects, so each is two small values here: its key as one text, its
state packed into bytes. As objects of their own they would take three times the room.
"""

from __future__ import annotations

import msgspec

from windlass.objects.names import Key
from windlass.reverser.sighting import Sighting


class Tracked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last state seen of one object; `digest` is empty once its deletion was credited.

    `aside` says that it is noise or its controller's: that may turn without a change of
    what is mirrored, so the digest does not show it. `bound` says that it is a Pod with a node.
    """

    uid: str
    resource_version: str
    digest: bytes
    replicas: int | None = None
    aside: bool = False
    bound: bool = False

    @classmethod
    def of(cls, sighting: Sighting, *, credited: bool = False) -> Tracked:
        """The state that a sighting shows."""
        digest = b"" if credited else sighting.digest
        version, replicas = sighting.resource_version, sighting.replicas
        return cls(sighting.uid, version, digest, replicas, sighting.is_aside, sighting.bound)

    def matches(self, sighting: Sighting) -> bool:
        """Whether nothing that is mirrored changed."""
        return (self.digest, self.aside) == (sighting.digest, sighting.is_aside)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Tracked)


class Tracking:
    """Every object of one stream."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._seen: set[str] = set()
        self._in_snapshot = False

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> Tracked | None:
        packed = self._objects.get(_text(key))
        return _decoder.decode(packed) if packed is not None else None

    def put(self, key: Key, tracked: Tracked) -> None:
        """Remember a state; whoever has one was seen."""
        text = _text(key)
        self._objects[text] = _encoder.encode(tracked)
        if self._in_snapshot:
            self._seen.add(text)

    def forget(self, key: Key) -> None:
        self._objects.pop(_text(key), None)

    def begin_snapshot(self) -> None:
        """From now on it counts who is seen."""
        self._in_snapshot, self._seen = True, set()

    def see(self, key: Key) -> None:
        """Somebody is alive whose state cannot be told."""
        if self._in_snapshot:
            self._seen.add(_text(key))

    def abandon_snapshot(self) -> None:
        """It proves nothing: everybody stays known."""
        self._in_snapshot, self._seen = False, set()

    def end_snapshot(self) -> tuple[Key, ...]:
        """Forget everybody who was not seen since it began, and say who that is."""
        gone = tuple(_key(text) for text in self._objects.keys() - self._seen)
        for key in gone:
            self.forget(key)
        self.abandon_snapshot()
        return gone


def _text(key: Key) -> str:
    # Neither names nor namespaces have a slash.
    return f"{key.namespace}/{key.name}"


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)
