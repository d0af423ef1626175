"""The few fields of an object that a cache needs, read without the rest of it.

Poison in the rest of an object (text that is no UTF-8, lone surrogates) does not hide its name.
"""

from __future__ import annotations

import hashlib
import json

import msgspec

from windlass.objects.names import Key

_DIGEST_BYTES = 16


class Unreadable(ValueError):
    """Bytes in which no object's name can be found."""


class Metadata(msgspec.Struct, frozen=True, gc=False):
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
    metadata: Metadata


_heads = msgspec.json.Decoder(_Head)


def read(raw: bytes) -> Metadata:
    """The metadata of an object; `Unreadable` if there is none."""
    try:
        return _heads.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_leniently(raw)
    except RecursionError as error:
        raise Unreadable("the object is nested too deeply") from error


def mark(metadata: Metadata, raw: bytes) -> bytes:
    """16 bytes that differ between any two versions of objects.

    Not of the bytes where there is a version: a list and a watch encode the same object
    differently.
    """
    if metadata.resource_version:
        raw = f"{metadata.uid}\n{metadata.resource_version}".encode()
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()


def _read_leniently(raw: bytes) -> Metadata:
    """By the standard library's parser, which lets pass what the fast one refuses."""
    try:
        return msgspec.convert(json.loads(raw.decode("utf-8", "replace")), _Head).metadata
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no metadata in {len(raw)} bytes: {error}") from error
