"""What may be said about a secret value: that it changed, nothing more.

`redacted` replaces each value by `REDACTED(hmac:<16 hex>)`, a keyed digest over identity,
key and value: equal values in two places differ, and neither content nor length shows.
The placeholder is no base64 on purpose, so the API server refuses to apply such a file.
Only cleaned objects come in here: the annotation in which kubectl keeps a copy of the
whole object would carry the plaintext past the redaction, so it is refused.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

import orjson

from windlass.objects.gvr import GVR
from windlass.objects.identity import Identity
from windlass.objects.json import JSON, Object

_CORE = ("", "secrets")
_VALUES = ("data", "stringData")
_KEPT = frozenset(("apiVersion", "kind", "metadata"))
_COPY = "kubectl.kubernetes.io/last-applied-configuration"
_DIGEST_DIGITS = 16


def is_sensitive(gvr: GVR, sensitive: frozenset[str]) -> bool:
    """True for core Secrets and the types named in `sensitive` as `[group/]resource`."""
    if (gvr.group, gvr.resource) == _CORE:
        return True
    name = f"{gvr.group}/{gvr.resource}" if gvr.group else gvr.resource
    return name in sensitive


def destination_salt(mirror_salt: bytes, destination: str) -> bytes:
    """The salt of one destination (`namespace/name`), so that digests differ between them."""
    return _derived(mirror_salt, "destination", destination)


def digest_key(mirror_salt: bytes) -> bytes:
    """The key under which digests of secret-like objects are kept in memory."""
    return _derived(mirror_salt, "digest", "")


def redacted(obj: Object, identity: Identity, salt: bytes) -> Object:
    """A cleaned `obj` with every secret value replaced; the input is not changed."""
    _refuse_copies(obj)
    prefix = (identity.gvr.group, identity.gvr.resource, identity.namespace, identity.name)
    if (identity.gvr.group, identity.gvr.resource) == _CORE:
        return {
            key: _redacted_map(value, (*prefix, key), salt) if key in _VALUES else value
            for key, value in obj.items()
        }
    return {
        key: value if key in _KEPT else _redacted_leaves(value, (*prefix, key), salt)
        for key, value in obj.items()
    }


def _refuse_copies(obj: Object) -> None:
    metadata = obj.get("metadata") or {}
    if "managedFields" in metadata or _COPY in (metadata.get("annotations") or {}):
        raise ValueError("only a cleaned object can be redacted")


def _redacted_map(values: JSON, place: tuple[str, ...], salt: bytes) -> JSON:
    if not isinstance(values, dict):
        return None if values is None else _placeholder(values, place, salt)
    return {key: _placeholder(value, (*place, key), salt) for key, value in values.items()}


def _redacted_leaves(node: JSON, place: tuple[str, ...], salt: bytes) -> JSON:
    if isinstance(node, str):
        return _placeholder(node, place, salt)
    if isinstance(node, dict):
        return {key: _redacted_leaves(item, (*place, key), salt) for key, item in node.items()}
    if isinstance(node, list):
        return [
            _redacted_leaves(item, (*place, str(position)), salt)
            for position, item in enumerate(node)
        ]
    return node


def _placeholder(value: JSON, place: tuple[str, ...], salt: bytes) -> str:
    said = orjson.dumps([*place, value], option=orjson.OPT_SORT_KEYS)
    return f"REDACTED(hmac:{hmac.new(salt, said, sha256).hexdigest()[:_DIGEST_DIGITS]})"


def _derived(mirror_salt: bytes, purpose: str, of: str) -> bytes:
    return hmac.new(mirror_salt, f"windlass mirror {purpose}\0{of}".encode(), sha256).digest()
