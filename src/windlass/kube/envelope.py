"""What one line of a watch says, without reading the object in it.

The envelope is decoded, the object stays bytes. An object may be poison for a parser
(text that is not UTF-8, lone surrogates, nesting without end) and still be a proper
object of the API server: then its bytes are cut out of the line and passed on, and
whoever reads objects judges it. A line whose brackets do not close is no event at all:
`EnvelopeBroken`.
"""

from __future__ import annotations

import re

import msgspec

from windlass.kube import brackets, errors
from windlass.kube.errors import ApiError

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class EnvelopeBroken(ValueError):
    """A line that is no watch event."""


class WatchLine(msgspec.Struct, frozen=True, gc=False):
    """One event: its type and the bytes of its object. A Struct, because there are many."""

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

_PROBLEMS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_OPENING = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z]{1,16})"\s*,\s*"object"\s*:\s*')


def open_line(line: bytes) -> WatchLine:
    """The event in a line; EnvelopeBroken if there is none."""
    try:
        envelope = _envelope.decode(line)
    except _PROBLEMS:
        return _cut_out(line)
    return WatchLine(envelope.type, bytes(envelope.object))


def resource_version(obj: bytes) -> str | None:
    """The version of an object; None if it cannot be read."""
    try:
        return _head.decode(obj).metadata.resourceVersion or None
    except _PROBLEMS:
        return None


def bookmark(obj: bytes) -> tuple[str, bool]:
    """The version a bookmark stands at, and whether it ends the initial events."""
    try:
        metadata = _bookmark.decode(obj).metadata
    except _PROBLEMS as error:
        raise EnvelopeBroken("a bookmark cannot be read") from error
    ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return metadata.resourceVersion, ends


def failure(obj: bytes) -> ApiError:
    """The error that an ERROR event carries."""
    status = errors.parse_status(obj)
    if status is None:
        raise EnvelopeBroken("an ERROR event carries no Status")
    return errors.from_status(status)


def _cut_out(line: bytes) -> WatchLine:
    opening = _OPENING.match(line)
    body = line[opening.end() :].rstrip() if opening else b""
    obj = body[:-1].rstrip()
    if opening is None or not body.endswith(b"}") or not brackets.is_one_object(obj):
        raise EnvelopeBroken(f"a line of {len(line)} bytes is no watch event")
    return WatchLine(opening.group(1).decode("ascii"), obj)
