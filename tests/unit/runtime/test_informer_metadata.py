"""Reading names and versions from raw objects."""

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
    """Key, uid and version are returned, whatever else the object contains."""
    seen = informer.read_metadata(raw(spec={"deep": [{"x": "y" * 1000}]}))
    assert (seen.key, seen.uid, seen.resource_version) == (Key("ns", "a"), "uid-a", "7")


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    """The namespace of such a key is empty."""
    assert informer.read_metadata(b'{"metadata":{"name":"n"}}').key == Key("", "n")


@pytest.mark.parametrize("poison", [b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\\ud800"', b"1e999"])
def test_poison_elsewhere_does_not_hide_the_name(poison: bytes) -> None:
    """A value that no parser accepts leaves the object's name readable."""
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
    """One error covers everything that is not an object."""
    with pytest.raises(informer.UnreadableObject):
        informer.read_metadata(body)


def test_deep_nesting_does_not_crash() -> None:
    """Either the name is read or the object is unreadable."""
    body = b'{"spec":' + b"[" * 200_000 + b"]" * 200_000 + b',"metadata":{"name":"n"}}'
    with contextlib.suppress(informer.UnreadableObject):
        assert informer.read_metadata(body).key == Key("", "n")


def test_the_digest_follows_the_version() -> None:
    """The same version has the same digest in any encoding; uid or version change it."""

    def digest(uid: str, version: str, body: bytes) -> bytes:
        seen = informer.ObjectMetadata("a", "ns", uid, version)
        return informer.version_digest(seen, body)

    assert digest("u", "1", b"x") == digest("u", "1", b"y")
    assert len({digest("u", "1", b""), digest("u", "2", b""), digest("v", "1", b"")}) == 3
    assert digest("u", "", b"x") != digest("u", "", b"y")
    assert len(digest("u", "1", b"")) == 16
