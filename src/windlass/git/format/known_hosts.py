"""Reads known_hosts of OpenSSH: the fingerprints expected for a host.

Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from fnmatch import fnmatchcase

_PORT = 22


def lookup_name(host: str, port: int) -> str:
    """The name OpenSSH looks a host up by."""
    bare = host.strip("[]")
    return bare if port == _PORT else f"[{bare}]:{port}"


def fingerprints(known_hosts: bytes, host: str, port: int) -> tuple[str, ...]:
    """The fingerprints expected for a host, as ssh prints them."""
    name = lookup_name(host, port)
    result: list[str] = []
    for line in known_hosts.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if fields[:1] == ["@cert-authority"]:
            del fields[0]
        if len(fields) >= 3 and not fields[0].startswith(("#", "@")) and _matches(fields[0], name):
            result.append(_fingerprint(fields[2]))
    return tuple(filter(None, result))


def _matches(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _hash_matches(patterns, name)
    return any(
        pattern == name or fnmatchcase(name, pattern.replace("[", "[[]", 1))
        for pattern in patterns.split(",")
    )


def _hash_matches(field: str, name: str) -> bool:
    salt, _, expected = field.removeprefix("|1|").partition("|")
    try:
        key, digest = base64.b64decode(salt), base64.b64decode(expected)
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(key, name.encode(), hashlib.sha1).digest(), digest)


def _fingerprint(key: str) -> str:
    try:
        raw = base64.b64decode(key, validate=True)
    except binascii.Error:
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")
