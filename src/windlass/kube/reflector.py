"""Reflector: an endless, gap-free view of one scope, first a snapshot, then changes.

This is the I/O half; `reflector_state` holds the rules and the transition table. A consumer may
rely on:

1. SnapshotStarted ... SnapshotComplete contains every live object once as Observed with `initial`;
   a DELETED in between takes one away again. SnapshotAbandoned instead means that nothing may be
   concluded, least of all an absence.
2. Every change after a complete snapshot is Observed, or a new snapshot begins.
3. An object may be observed twice (after a resume), never in a wrong order.
4. Interrupted comes after every ending, with the wait before the next attempt, and is followed by
   Resumed or a snapshot; objects are bytes as the server sent them, also when no parser reads them.
5. Scopes share nothing except which types must be listed, so a failing scope delays no other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import msgspec

from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Retryable
from windlass.kube import reflector_state, watch
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, Unavailable
from windlass.kube.reflector_state import (
    Ending,
    NextStep,
    Reason,
    ReflectorPhase,
    ReflectorSettings,
    ReflectorState,
)
from windlass.kube.watch import EnvelopeBroken, WatchLine, WatchStream, open_watch
from windlass.objects.names import GVR

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_LARGE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Scope:
    """A type in one namespace; an empty namespace: all of them, or a cluster-scoped type.

    With a `selector` only objects with those labels; one that loses them counts as deleted.
    With a `name` only the object of that name, which is all that a Role may allow.
    """

    gvr: GVR
    namespace: str = ""
    selector: str = ""
    name: str = ""

    @property
    def field_selector(self) -> str:
        return f"metadata.name={self.name}" if self.name else ""

    def __str__(self) -> str:
        type_ = f"{self.gvr} {self.name}" if self.name else str(self.gvr)
        text = f"{type_} in {self.namespace}" if self.namespace else type_
        return f"{text} with {self.selector}" if self.selector else text


@dataclass(frozen=True, slots=True)
class SnapshotStarted:
    """A complete snapshot begins: every live object follows as Observed(initial=True)."""


class Observed(msgspec.Struct, frozen=True, gc=False):
    """One object as the server sent it; a Struct, because there are many."""

    type: ChangeType
    object: bytes
    initial: bool


@dataclass(frozen=True, slots=True)
class SnapshotComplete:
    """Every live object of the scope was observed since SnapshotStarted."""

    resource_version: str
    objects: int
    via: Literal["watchlist", "list"]


@dataclass(frozen=True, slots=True)
class SnapshotAbandoned:
    """The snapshot ended early: nothing may be concluded from it."""

    cause: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The stream ended; the next attempt starts after `retry_seconds`. `status`: HTTP's, or 0."""

    reason: Reason
    message: str
    retry_seconds: float
    status: int = 0
    resumes: bool = True
    """Whether the next attempt continues where this one ended; else a snapshot comes first."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The stream continues where it was interrupted; no change is missing."""


ReflectorEvent: TypeAlias = (
    SnapshotStarted | Observed | SnapshotComplete | SnapshotAbandoned | Interrupted | Resumed
)

_DEFAULTS = ReflectorSettings()


async def reflect(
    connection: Connection,
    scope: Scope,
    settings: ReflectorSettings = _DEFAULTS,
    *,
    clock: Clock | None = None,
    rng: random.Random | None = None,
) -> AsyncGenerator[ReflectorEvent, None]:
    """The objects of `scope` and their changes, until the consumer closes the generator."""
    reflector = _Reflector(
        connection, scope, settings, clock or SystemClock(), rng or random.Random()
    )
    while True:
        async with aclosing(reflector.attempt()) as events:
            async for event in events:
                yield event
        next_step = reflector.next_step
        if next_step.abandons_snapshot:
            yield SnapshotAbandoned(next_step.ending.message)
        if not next_step.is_silent:
            yield _interrupted(next_step)
        await asyncio.sleep(next_step.wait_seconds)


def _interrupted(next_step: NextStep) -> Interrupted:
    ending = next_step.ending
    return Interrupted(
        ending.reason, ending.message, next_step.wait_seconds, ending.status, next_step.resumes
    )


class _Reflector:
    """Runs the attempts of one scope; after each of them `next_step` is set."""

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        settings: ReflectorSettings,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._settings = settings
        self._clock = clock
        self._state = ReflectorState(settings, rng, watchlist=self._may_watchlist())
        # The last observed object, whose version is not read yet; empty: the state is current.
        self._last = b""
        # Live objects in the WatchList snapshot under way.
        self._live = 0
        # Whether the consumer got Interrupted and so must get Resumed or a snapshot.
        self._interrupted = False
        # What follows from the last attempt; unset before the first ended.
        self.next_step: NextStep

    async def attempt(self) -> AsyncGenerator[ReflectorEvent, None]:
        """Snapshot or resume, then watch until the stream ends; sets `next_step`."""
        if not self._may_watchlist():
            self._state.prefer_list()
        try:
            if self._state.state is ReflectorPhase.LIST:
                async with aclosing(self._list()) as items:
                    async for item in items:
                        yield item
            async with aclosing(self._watch()) as items:
                async for item in items:
                    yield item
            ending = reflector_state.CLOSED
        except (ApiError, EnvelopeBroken) as error:
            ending = reflector_state.classify_ending(error)
        except Retryable as error:
            ending = Ending("error", str(error))
        self._finish_attempt(ending)

    def _finish_attempt(self, ending: Ending) -> None:
        self._read_last()
        self.next_step = self._state.ended(ending, self._clock.monotonic())
        self._interrupted = not self.next_step.is_silent
        if not self._state.uses_watchlist:
            self._connection.without_watchlist.add(self._scope.gvr)

    def _may_watchlist(self) -> bool:
        return self._scope.gvr not in self._connection.without_watchlist

    async def _list(self) -> AsyncGenerator[ReflectorEvent, None]:
        pages = Api(self._connection).pages(
            self._scope.gvr,
            self._scope.namespace,
            label_selector=self._scope.selector,
            field_selector=self._scope.field_selector,
            limit=self._settings.page_size,
        )
        version, objects = None, 0
        async with aclosing(pages):
            async for page in pages:
                if version is None:
                    # All pages show the state at the first one's version.
                    version = page.resource_version
                    self._state.opened(self._clock.monotonic())
                    yield SnapshotStarted()
                for item in page.items:
                    yield Observed("ADDED", item, True)
                objects += len(page.items)
        if version is None:
            raise Unavailable(0, "Incomplete", "the list has no pages")
        self._state.synced(version)
        yield SnapshotComplete(version, objects, "list")

    async def _watch(self) -> AsyncGenerator[ReflectorEvent, None]:
        opened = open_watch(
            self._connection,
            self._scope.gvr,
            self._scope.namespace,
            resource_version=self._state.version,
            initial_events=self._state.state is ReflectorPhase.WATCHLIST,
            timeout_seconds=self._state.watch_seconds(),
            idle_seconds=self._settings.idle_seconds,
            label_selector=self._scope.selector,
            field_selector=self._scope.field_selector,
        )
        async with opened as stream:
            self._state.opened(self._clock.monotonic())
            if self._state.in_snapshot:
                self._live = 0
                yield SnapshotStarted()
            elif self._interrupted:
                yield Resumed()
            self._interrupted = False
            async with aclosing(self._events(stream)) as items:
                async for item in items:
                    yield item

    async def _events(self, stream: WatchStream) -> AsyncGenerator[ReflectorEvent, None]:
        async with aclosing(stream.batches()) as batches:
            async for events in batches:
                for event in events:
                    if event.type in _CHANGES:
                        yield self._observed(event)
                    elif complete := self._bookmark(event):
                        yield complete

    def _observed(self, event: WatchLine) -> Observed:
        initial = self._state.in_snapshot
        if initial:
            self._live += (event.type == "ADDED") - (event.type == "DELETED")
        else:
            # Decoding costs time: the version is read only at the end of the stream.
            self._last = event.object
            # A large object must not stay in memory until then.
            if len(event.object) > _LARGE:
                self._read_last()
        return Observed(cast("ChangeType", event.type), event.object, initial)

    def _bookmark(self, event: WatchLine) -> SnapshotComplete | None:
        if event.type == "ERROR":
            raise watch.error_event(event.object)
        if event.type != "BOOKMARK":
            raise EnvelopeBroken(f"unknown event type {event.type[:16]!r}")
        version, ends = watch.bookmark_version(event.object)
        if self._state.in_snapshot:
            if not ends:
                return None
            self._state.synced(version)
            return SnapshotComplete(version, self._live, "watchlist")
        self._last = b""
        self._state.moved(version)
        return None

    def _read_last(self) -> None:
        if self._last:
            self._state.moved(watch.resource_version(self._last))
            self._last = b""
