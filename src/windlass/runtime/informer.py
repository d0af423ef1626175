"""A cache of one scope that says which keys changed.

| item              | the cache                                    | told as changed      |
|-------------------|----------------------------------------------|----------------------|
| SnapshotStarted   | begins to note which keys arrive             | -                    |
| ADDED, MODIFIED   | holds the object                             | if its version is new|
| DELETED           | drops it                                     | if it was held       |
| SnapshotComplete  | drops, in one step, what did not arrive      | each dropped key     |
| SnapshotAbandoned | forgets what arrived, drops nothing          | -                    |
| Interrupted       | stays as it is                               | -                    |
| Resumed           | stays as it is                               | -                    |

An object that `keeps` does not want counts as deleted, and costs no memory.

So an absence is believed only after a complete snapshot, and not even then if the
snapshot held an object whose name could not be read. Before `synced` the cache is
partial; afterwards it is whole, if perhaps behind.

The few fields of an object that a cache needs, read without the rest of it.

Poison in the rest of an object (text that is no UTF-8, lone surrogates) does not hide its name.
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

_DIGEST_BYTES = 16


class UnreadableObject(ValueError):
    """Bytes in which no object's name can be found."""


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


def content_mark(metadata: ObjectMetadata, raw: bytes) -> bytes:
    """16 bytes that differ between any two versions of objects.

    Not of the bytes where there is a version: a list and a watch encode the same object
    differently.
    """
    if metadata.resource_version:
        raw = f"{metadata.uid}\n{metadata.resource_version}".encode()
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()


def _read_leniently(raw: bytes) -> ObjectMetadata:
    """By the standard library's parser, which lets pass what the fast one refuses."""
    try:
        return msgspec.convert(json.loads(raw.decode("utf-8", "replace")), _Head).metadata
    except (ValueError, RecursionError) as error:
        raise UnreadableObject(f"no metadata in {len(raw)} bytes: {error}") from error


_BREATH = 256

_log: Any = structlog.get_logger()


class EventSource(Protocol):
    """How `kube.follow.follow` is called."""

    def __call__(
        self, connection: Connection, scope: Scope, settings: ReflectorSettings, *, clock: Clock
    ) -> AsyncGenerator[ReflectorEvent, None]: ...


class Informer:
    """Objects of one scope: their bytes, or 16 bytes that change with their version."""

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        *,
        on_change: Callable[[Key], None],
        keep: Literal["bytes", "digest"] = "bytes",
        keeps: Callable[[bytes], bool] | None = None,
        settings: ReflectorSettings | None = None,
        clock: Clock | None = None,
        source: EventSource = reflect,
    ) -> None:
        self.scope = scope
        self.synced = asyncio.Event()
        self.version = 0
        self.unreadable = 0
        self._connection = connection
        self._on_change = on_change
        self._keeps = keeps
        self._settings = settings or ReflectorSettings()
        self._clock = clock or SystemClock()
        self._source = source
        self._marks: dict[Key, bytes] = {}
        self._objects: dict[Key, bytes] | None = {} if keep == "bytes" else None
        self._leaving: set[Key] = set()
        self._arriving: set[Key] | None = None
        self._arriving_unreadable = 0

    def get(self, key: Key) -> bytes | None:
        """The object's bytes, or its mark where only digests are kept."""
        return (self._marks if self._objects is None else self._objects).get(key)

    def is_leaving(self, key: Key) -> bool:
        """Whether the object was last seen with a deletionTimestamp; it may be gone since."""
        return key in self._leaving

    def keys(self) -> Iterable[Key]:
        return tuple(self._marks)

    def __len__(self) -> int:
        return len(self._marks)

    async def run(self) -> None:
        """Follow the scope until cancelled."""
        items = self._source(self._connection, self.scope, self._settings, clock=self._clock)
        count = 0
        async with aclosing(items):
            async for item in items:
                self.apply(item)
                count += 1
                if count % _BREATH == 0:
                    # A long snapshot arrives without a pause; others want to run too.
                    await asyncio.sleep(0)

    def apply(self, item: ReflectorEvent) -> None:
        """Take in one item, by the table above."""
        match item:
            case Observed():
                self._observe(item)
            case SnapshotStarted():
                self._arriving, self._arriving_unreadable = set(), 0
            case SnapshotComplete():
                self._complete()
            case SnapshotAbandoned():
                self._arriving = None
                _log.info("snapshot abandoned", scope=str(self.scope), cause=item.cause)
            case Interrupted() | Resumed():
                pass

    def _observe(self, item: Observed) -> None:
        try:
            seen = read_metadata(item.object)
        except UnreadableObject as error:
            self._pass_over(error)
            return
        if item.type == "DELETED" or (self._keeps is not None and not self._keeps(item.object)):
            self._drop(seen.key)
        else:
            self._hold(seen, item.object)

    def _hold(self, seen: ObjectMetadata, raw: bytes) -> None:
        key, mark = seen.key, content_mark(seen, raw)
        if self._arriving is not None:
            self._arriving.add(key)
        if self._marks.get(key) == mark:
            return
        self._marks[key] = mark
        (self._leaving.add if seen.deleted_at else self._leaving.discard)(key)
        if self._objects is not None:
            self._objects[key] = raw
        self._tell(key)

    def _drop(self, key: Key) -> None:
        if self._arriving is not None:
            self._arriving.discard(key)
        if self._marks.pop(key, None) is None:
            return
        if self._objects is not None:
            del self._objects[key]
        self._tell(key)

    def _complete(self) -> None:
        arrived, self._arriving = self._arriving, None
        if arrived is not None and not self._arriving_unreadable:
            self._sweep([key for key in self._marks if key not in arrived])
        self.synced.set()

    def _sweep(self, missing: list[Key]) -> None:
        """Drop all that is missing before anybody is told of any of it."""
        for key in missing:
            del self._marks[key]
            if self._objects is not None:
                del self._objects[key]
        for key in missing:
            self._tell(key)

    def _pass_over(self, error: UnreadableObject) -> None:
        self.unreadable += 1
        self._arriving_unreadable += 1
        _log.error("object without a readable name", scope=str(self.scope), error=str(error))

    def _tell(self, key: Key) -> None:
        self.version += 1
        self._on_change(key)
