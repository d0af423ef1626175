"""Informer: a cache of the objects of one scope that reports which keys changed.

It consumes the events of a reflector (`kube.reflector`):

| event             | the cache                                    | reported as changed  |
|-------------------|----------------------------------------------|----------------------|
| SnapshotStarted   | begins to note which keys arrive             | -                    |
| ADDED, MODIFIED   | stores the object                            | if its version is new|
| DELETED           | drops it                                     | if it was stored     |
| SnapshotComplete  | drops, in one step, what did not arrive      | each dropped key     |
| SnapshotAbandoned | forgets what arrived, drops nothing          | -                    |
| Interrupted       | stays as it is                               | -                    |
| Resumed           | stays as it is                               | -                    |

An object that `matches` refuses counts as deleted, and costs no memory. Every index is in step
with the cache before a change is reported: first to `on_change`, then to those of the indexes.

So an absence is believed only after a complete snapshot, and not even then if the snapshot held
an object whose name could not be read. Before `synced` the cache is partial; afterwards it is
complete, if perhaps behind.

`read_metadata` reads the few fields that a cache needs, without decoding the rest: text that is
no UTF-8 or lone surrogates elsewhere in an object do not hide its name.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, Literal, Protocol

import msgspec
import structlog

from windlass.base.clock import Clock, SystemClock
from windlass.kube.connection import Connection
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    ReflectorEvent,
    Resumed,
    Scope,
    SnapshotAbandoned,
    SnapshotComplete,
    SnapshotStarted,
    reflect,
)
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import Key
from windlass.runtime.informer_index import InformerIndex, V

_DIGEST_BYTES = 16


class UnreadableObject(ValueError):
    """Bytes from which no object name can be read."""


class ObjectMetadata(msgspec.Struct, frozen=True, gc=False):
    """Name and version of one object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    deleted_at: str = msgspec.field(default="", name="deletionTimestamp")

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class _Head(msgspec.Struct, gc=False):
    metadata: ObjectMetadata


_heads = msgspec.json.Decoder(_Head)


def read_metadata(raw: bytes) -> ObjectMetadata:
    """The metadata of an object; `UnreadableObject` if there is none."""
    try:
        return _heads.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_leniently(raw)
    except RecursionError as error:
        raise UnreadableObject("the object is nested too deeply") from error


def version_digest(metadata: ObjectMetadata, raw: bytes) -> bytes:
    """16 bytes that differ between any two versions of objects.

    Not of the bytes where there is a version: a list and a watch encode the same object
    differently.
    """
    if metadata.resource_version:
        raw = f"{metadata.uid}\n{metadata.resource_version}".encode()
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()


def _read_leniently(raw: bytes) -> ObjectMetadata:
    """Parse with the standard library, which accepts what msgspec refuses."""
    try:
        return msgspec.convert(json.loads(raw.decode("utf-8", "replace")), _Head).metadata
    except (ValueError, RecursionError) as error:
        raise UnreadableObject(f"no metadata in {len(raw)} bytes: {error}") from error


_EVENTS_PER_YIELD = 256

_log: Any = structlog.get_logger()


class EventSource(Protocol):
    """The signature of `kube.reflector.reflect`."""

    def __call__(
        self, connection: Connection, scope: Scope, settings: ReflectorSettings, *, clock: Clock
    ) -> AsyncGenerator[ReflectorEvent, None]: ...


class Informer:
    """Caches the objects of one scope: their bytes, or a 16-byte digest of their version.

    `on_change` is called on the loop with each key that was stored or dropped.
    """

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        *,
        on_change: Callable[[Key], None] | None = None,
        keep: Literal["bytes", "digest"] = "bytes",
        matches: Callable[[bytes], bool] | None = None,
        settings: ReflectorSettings | None = None,
        clock: Clock | None = None,
        source: EventSource = reflect,
    ) -> None:
        self.scope = scope
        # Set by the first complete snapshot, never cleared.
        self.synced = asyncio.Event()
        # Counts the changes of the cache; equal numbers mean equal content.
        self.version = 0
        # How many objects without a readable name arrived since the start.
        self.unreadable = 0
        self._connection = connection
        self._on_change = on_change
        self._matches = matches
        self._settings = settings or ReflectorSettings()
        self._clock = clock or SystemClock()
        self._source = source
        # The version digest of every stored object.
        self._digests: dict[Key, bytes] = {}
        # The bytes of every stored object, or its version digest once more.
        self._objects: dict[Key, bytes] = {}
        self._keeps_bytes = keep == "bytes"
        # Keys last stored with a deletionTimestamp; dropping an object leaves its key here.
        self._terminating: set[Key] = set()
        # Keys of the snapshot under way; None outside of a snapshot.
        self._arriving: set[Key] | None = None
        # Unreadable objects in the snapshot under way.
        self._arriving_unreadable = 0
        self._indexes: list[InformerIndex[Any]] = []

    def add_index(
        self,
        read: Callable[[Key, bytes], V | None],
        on_change: Callable[[V], None] | None = None,
    ) -> InformerIndex[V]:
        """An index by the value that `read` finds in an object; before the first event only."""
        index = InformerIndex(read, on_change)
        self._indexes.append(index)
        return index

    def get(self, key: Key) -> bytes | None:
        """The bytes of an object, or its digest where only digests are kept."""
        return self._objects.get(key)

    def is_terminating(self, key: Key) -> bool:
        """Whether the object last had a deletionTimestamp; it may be gone since."""
        return key in self._terminating

    def keys(self) -> Iterable[Key]:
        return tuple(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        events = self._source(self._connection, self.scope, self._settings, clock=self._clock)
        count = 0
        async with aclosing(events):
            async for event in events:
                self.apply(event)
                count += 1
                if count % _EVENTS_PER_YIELD == 0:
                    # A long snapshot arrives without a pause; let other tasks run.
                    await asyncio.sleep(0)

    def apply(self, event: ReflectorEvent) -> None:
        """Apply one event of the reflector, by the table above."""
        match event:
            case Observed():
                self._observe(event)
            case SnapshotStarted():
                self._arriving, self._arriving_unreadable = set(), 0
            case SnapshotComplete():
                self._complete()
            case SnapshotAbandoned():
                self._arriving = None
                _log.info("snapshot abandoned", scope=str(self.scope), cause=event.cause)
            case Interrupted() | Resumed():
                pass

    def _observe(self, event: Observed) -> None:
        try:
            metadata = read_metadata(event.object)
        except UnreadableObject as error:
            self._count_unreadable(error)
            return
        if event.type == "DELETED" or (
            self._matches is not None and not self._matches(event.object)
        ):
            self._drop(metadata.key)
        else:
            self._store(metadata, event.object)

    def _store(self, metadata: ObjectMetadata, raw: bytes) -> None:
        key, digest = metadata.key, version_digest(metadata, raw)
        if self._arriving is not None:
            self._arriving.add(key)
        if self._digests.get(key) == digest:
            return
        self._digests[key] = digest
        (self._terminating.add if metadata.deleted_at else self._terminating.discard)(key)
        self._objects[key] = raw if self._keeps_bytes else digest
        self._notify(key, self._update_indexes(key, raw))

    def _drop(self, key: Key) -> None:
        if self._arriving is not None:
            self._arriving.discard(key)
        if key in self._digests:
            self._drop_all([key])

    def _complete(self) -> None:
        arrived, self._arriving = self._arriving, None
        # One of the missing objects may be the one whose name could not be read.
        if arrived is not None and not self._arriving_unreadable:
            self._drop_all([key for key in self._digests if key not in arrived])
        self.synced.set()

    def _drop_all(self, missing: list[Key]) -> None:
        """Drop all missing keys before the first is reported, so that readers see none of them."""
        changes: list[tuple[Key, list[set[Any]]]] = []
        for key in missing:
            del self._digests[key]
            del self._objects[key]
            changes.append((key, self._update_indexes(key, None)))
        for key, values in changes:
            self._notify(key, values)

    def _update_indexes(self, key: Key, raw: bytes | None) -> list[set[Any]]:
        """Bring each index in step; returns the values before and now, index by index."""
        return [index.update(key, raw) for index in self._indexes]

    def _count_unreadable(self, error: UnreadableObject) -> None:
        self.unreadable += 1
        self._arriving_unreadable += 1
        _log.error("object without a readable name", scope=str(self.scope), error=str(error))

    def _notify(self, key: Key, values: list[set[Any]]) -> None:
        self.version += 1
        if self._on_change is not None:
            self._on_change(key)
        for index, changed in zip(self._indexes, values, strict=True):
            index.notify(changed)
