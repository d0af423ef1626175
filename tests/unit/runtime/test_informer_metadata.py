"""Reading names out of objects."""

from __future__ import annotations

import contextlib
import json

import pytest

from tests.unit.runtime.fakes import thing
from windlass.objects.names import Key
from windlass.runtime import informer


def raw(**fields: object) -> bytes:
    """An object's bytes."""
    return json.dumps(thing("a", 7, **fields)).encode()  # type: ignore[arg-type]


def test_only_name_and_version_are_read() -> None:
    """The key, uid and version come out, whatever else is in there."""
    seen = informer.read_metadata(raw(spec={"deep": [{"x": "y" * 1000}]}))
    assert (seen.key, seen.uid, seen.resource_version) == (Key("ns", "a"), "uid-a", "7")


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    """The namespace of such a key is empty."""
    assert informer.read_metadata(b'{"metadata":{"name":"n"}}').key == Key("", "n")


@pytest.mark.parametrize("poison", [b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\\ud800"', b"1e999"])
def test_poison_elsewhere_does_not_hide_the_name(poison: bytes) -> None:
    """A value no parser would like leaves the object's name readable."""
    body = (
        b'{"data":{"x":'
        + poison
        + b'},"metadata":{"annotations":{"p":'
        + poison
        + b'},"name":"n"}}'
    )
    assert informer.read_metadata(body).key == Key("", "n")


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"metadata":{}}', b'{"metadata":', b"[]"])
def test_bytes_without_a_name_are_unreadable(body: bytes) -> None:
    """There is one error for all that is no object."""
    with pytest.raises(informer.UnreadableObject):
        informer.read_metadata(body)


def test_endless_nesting_is_no_crash() -> None:
    """Either the name is read or the object is unreadable; nothing else."""
    body = b'{"spec":' + b"[" * 200_000 + b"]" * 200_000 + b',"metadata":{"name":"n"}}'
    with contextlib.suppress(informer.UnreadableObject):
        assert informer.read_metadata(body).key == Key("", "n")


def test_the_mark_follows_the_version() -> None:
    """The same version is the same mark in any encoding; uid or version make another."""

    def mark(uid: str, version: str, body: bytes) -> bytes:
        seen = informer.ObjectMetadata("a", "ns", uid, version)
        return informer.version_digest(seen, body)

    assert mark("u", "1", b"x") == mark("u", "1", b"y")
    assert len({mark("u", "1", b""), mark("u", "2", b""), mark("v", "1", b"")}) == 3
    assert mark("u", "", b"x") != mark("u", "", b"y")
    assert len(mark("u", "1", b"")) == 16
