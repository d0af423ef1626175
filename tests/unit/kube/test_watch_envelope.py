"""Parsing one line of a watch."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.kube import watch
from windlass.kube.errors import Gone
from windlass.kube.watch import EnvelopeBroken, WatchLine

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def _line(obj: bytes, kind: bytes = b"ADDED") -> bytes:
    return b'{"type":"' + kind + b'","object":' + obj + b"}"


@given(st.dictionaries(st.text(), _json, max_size=4))
def test_object_stays_bytes(obj: dict[str, object]) -> None:
    """Any object is returned byte by byte."""
    text = json.dumps(obj).encode()
    assert watch.parse_line(_line(text, b"MODIFIED")) == WatchLine("MODIFIED", text)


@pytest.mark.parametrize(
    "obj",
    [
        b'{"data":{"a":"\xff\xfe"},"metadata":{"resourceVersion":"7"}}',
        b'{"data":{"a":"\\ud800"},"metadata":{"resourceVersion":"7"}}',
        b'{"data":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"data":' + b'{"a":' * 3000 + b'"}]\\""' + b"}" * 3000 + b"}",
        b'{"data":' + b"9" * 400 + b"}",
    ],
)
def test_poison_is_passed_on(obj: bytes) -> None:
    """An object that cannot be parsed is passed on as bytes."""
    assert watch.parse_line(_line(obj)) == WatchLine("ADDED", obj)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":{"a":1}',
        b'{"type":"ADDED","object":{"a":"unclosed}}',
        b'{"type":"ADDED","object":{"a":[1}]}}',
        b'{"type":"ADDED","object":' + b"[" * 5000 + b"}",
        b'{"type":"ADDED","object":{"a":"\\ud800"}{}}',
        b'{"type":7,"object":{}}',
        b"[1,2]",
    ],
)
def test_broken_envelope(line: bytes) -> None:
    """A line that is not an event is an error."""
    with pytest.raises(EnvelopeBroken):
        watch.parse_line(line)


def test_resource_version() -> None:
    """Versions are opaque text; an unreadable one is None."""
    assert watch.resource_version(b'{"metadata":{"resourceVersion":"x-7"}}') == "x-7"
    assert watch.resource_version(b'{"metadata":{}}') is None
    assert watch.resource_version(b'{"a":"\\ud800","metadata":{"resourceVersion":"7"}}') is None


def test_bookmarks() -> None:
    """Only the annotated bookmark ends the initial events."""
    plain = b'{"kind":"ConfigMap","metadata":{"resourceVersion":"5","creationTimestamp":null}}'
    ending = (
        b'{"metadata":{"resourceVersion":"6","annotations":{"k8s.io/initial-events-end":"true"}}}'
    )
    assert watch.bookmark_version(plain) == ("5", False)
    assert watch.bookmark_version(ending) == ("6", True)
    with pytest.raises(EnvelopeBroken):
        watch.bookmark_version(b'{"metadata":[]}')


def test_error_events() -> None:
    """An ERROR event carries its Status; one without is broken."""
    assert isinstance(watch.error_event(b'{"code":410,"reason":"Expired"}'), Gone)
    with pytest.raises(EnvelopeBroken):
        watch.error_event(b"{}")
