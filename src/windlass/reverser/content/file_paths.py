"""The path of an object's file: a function of its identity alone (seed layout).

`{group/}{version}/{resource}/{namespace/}{name}.yaml`, each segment encoded so that it
is a legal file name on every system and two identities never share a path. Neighbors,
repository content and history have no influence. Paths are never parsed back.

Pure.
"""

from __future__ import annotations

import re
from hashlib import sha256

from windlass.objects.names import GVR, Identity

EXTENSION = ".yaml"
MAX_SEGMENT = 240
"""Bytes of one path segment; file systems allow 255."""

MAX_PREFIX = 200
"""Bytes of a longer segment that stay in front of its hash."""

_HASH_DIGITS = 32
_UNSAFE = re.compile(rb"[^A-Za-z0-9._=+@,-]")
_SAFE = re.compile(r"[A-Za-z0-9_=+@,-](?:[A-Za-z0-9._=+@,-]*[A-Za-z0-9_=+@,-])?")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?=\.|\Z)", re.IGNORECASE)
_CUT_ESCAPE = re.compile(r"%[0-9A-F]?\Z")


def object_path(identity: Identity) -> str:
    """The path of `identity` below its base folder."""
    gvr = identity.gvr
    folders = (gvr.group, gvr.version, gvr.resource, identity.namespace)
    segments = [_folder_segment(folder) for folder in folders if folder]
    segments.append(_file_name(identity))
    return "/".join(segments)


def file_path(base_folder: str, identity: Identity) -> str:
    """The path of `identity` from the root of the repository, or below an empty base folder."""
    return f"{base_folder}/{object_path(identity)}" if base_folder else object_path(identity)


def scope_folder(base_folder: str, gvr: GVR, namespace: str = "") -> str:
    """The folder that holds every file of one type, in one namespace where it is given."""
    folders = (gvr.group, gvr.version, gvr.resource, namespace)
    return "/".join((base_folder, *(_folder_segment(folder) for folder in folders if folder)))


def encode_segment(text: str) -> str:
    """`text` as one path segment, percent-encoded wherever some file system would reject it."""
    if _SAFE.fullmatch(text) is None:
        text = _UNSAFE.sub(_percent_encode, text.encode()).decode("ascii")
        if text.startswith("."):
            text = "%2E" + text[1:]
        if text.endswith("."):
            text = text[:-1] + "%2E"
    # Windows reserves these names, with any extension.
    if _DEVICE.match(text):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    return text


def _percent_encode(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def _folder_segment(text: str) -> str:
    encoded = encode_segment(text)
    return encoded if len(encoded) <= MAX_SEGMENT else _truncate(encoded, text)


def _file_name(identity: Identity) -> str:
    encoded = encode_segment(identity.name)
    if len(encoded) + len(EXTENSION) > MAX_SEGMENT:
        gvr = identity.gvr
        parts = (gvr.group, gvr.version, gvr.resource, identity.namespace, identity.name)
        # Names that share a prefix are distinguished by the hash of the whole identity.
        encoded = _truncate(encoded, "\0".join(parts))
    return encoded + EXTENSION


def _truncate(encoded: str, hash_input: str) -> str:
    """A prefix that ends on a whole escape, `~` (which encoding never yields) and a hash."""
    prefix = _CUT_ESCAPE.sub("", encoded[:MAX_PREFIX])
    return f"{prefix}~{sha256(hash_input.encode()).hexdigest()[:_HASH_DIGITS]}"
