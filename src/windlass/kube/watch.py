"""Watch request: one stream of events, from its response to its end.

`open_watch` returns as soon as the server responded with 200; its `batches` end when the server
closes cleanly between two lines. Every other end is an error: ApiError (a status, a broken
transport, Idle when no byte came for too long) or EnvelopeBroken. A half line at the end is never
delivered.

`parse_line` decodes the envelope of one event; the object stays bytes. An object may be unreadable
for a parser (text that is not UTF-8, lone surrogates, endless nesting) and still be a proper object
of the API server: then its bytes are cut out of the line and passed on, and the reader of objects
decides. A line whose brackets do not close is not an event: `EnvelopeBroken`.

`LineSplitter` splits chunks into lines. A line has no size limit: an object of 1.5 MiB is one line
in many chunks. Parts of an unfinished line are kept apart and joined once, so the cost is linear in
the bytes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import msgspec

from windlass.base import failpoint
from windlass.kube import api, errors, lenient_json
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError
from windlass.objects.names import GVR


class LineSplitter:
    """Bytes in, whole lines out; empty lines are dropped."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        # The chunks of the unfinished line.
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line breaks."""
        lines = chunk.split(b"\n")
        unfinished = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if unfinished:
            self._parts.append(unfinished)
        return [line for line in lines if line] if b"" in lines else lines

    @property
    def has_unfinished(self) -> bool:
        """Whether the last chunk ended in the middle of a line."""
        return bool(self._parts)


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class EnvelopeBroken(ValueError):
    """A line that is not a watch event."""


class WatchLine(msgspec.Struct, frozen=True, gc=False):
    """One event: its type and the bytes of its object; a Struct, because there are many."""

    type: str
    object: bytes


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the name on the wire
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _Metadata


class _VersionOnly(msgspec.Struct):
    resourceVersion: str  # noqa: N815 - the name on the wire


class _Head(msgspec.Struct):
    metadata: _VersionOnly


_envelope = msgspec.json.Decoder(_Envelope)
_bookmark = msgspec.json.Decoder(_Bookmark)
_head = msgspec.json.Decoder(_Head)

_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_OPENING = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z]{1,16})"\s*,\s*"object"\s*:\s*')


def parse_line(line: bytes) -> WatchLine:
    """The event in a line; EnvelopeBroken if there is none."""
    try:
        envelope = _envelope.decode(line)
    except _DECODE_ERRORS:
        return _parse_leniently(line)
    return WatchLine(envelope.type, bytes(envelope.object))


def resource_version(obj: bytes) -> str | None:
    """The version of an object; None if it cannot be read."""
    try:
        return _head.decode(obj).metadata.resourceVersion or None
    except _DECODE_ERRORS:
        return None


def bookmark_version(obj: bytes) -> tuple[str, bool]:
    """The version of a bookmark, and whether it ends the initial events."""
    try:
        metadata = _bookmark.decode(obj).metadata
    except _DECODE_ERRORS as error:
        raise EnvelopeBroken("invalid bookmark event") from error
    ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return metadata.resourceVersion, ends


def error_event(obj: bytes) -> ApiError:
    """The error that an ERROR event carries."""
    status = errors.parse_status(obj)
    if status is None:
        raise EnvelopeBroken("ERROR event without a Status")
    return errors.from_status(status)


def _parse_leniently(line: bytes) -> WatchLine:
    opening = _OPENING.match(line)
    body = line[opening.end() :].rstrip() if opening else b""
    obj = body[:-1].rstrip()
    if opening is None or not body.endswith(b"}") or not lenient_json.is_one_object(obj):
        raise EnvelopeBroken(f"a line of {len(line)} bytes is not a watch event")
    return WatchLine(opening.group(1).decode("ascii"), obj)


class WatchStream:
    """The events of one open watch."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def batches(self) -> AsyncGenerator[list[WatchLine], None]:
        """Events in order, as many at a time as have arrived.

        A broken line is raised after the events before it.
        """
        splitter = LineSplitter()
        parse = parse_line
        async for chunk in self._body:
            events: list[WatchLine] = []
            try:
                events.extend(map(parse, splitter.feed(chunk)))
            except EnvelopeBroken:
                yield events
                raise
            if events:
                yield events
        if splitter.has_unfinished:
            raise EnvelopeBroken("the stream ended in the middle of a line")


@asynccontextmanager
async def open_watch(
    connection: Connection,
    gvr: GVR,
    namespace: str = "",
    *,
    resource_version: str | None,
    initial_events: bool = False,
    timeout_seconds: int,
    idle_seconds: float,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[WatchStream]:
    """Open a watch from `resource_version` on, or one that starts with a snapshot."""
    params = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(timeout_seconds),
    }
    if label_selector:
        params["labelSelector"] = label_selector
    if field_selector:
        params["fieldSelector"] = field_selector
    if initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    elif resource_version:
        params["resourceVersion"] = resource_version
    failpoint.reach("kube.watch.before")
    path = api.collection_path(gvr, namespace)
    async with connection.stream(path, params=params, idle_seconds=idle_seconds) as body:
        yield WatchStream(body)
