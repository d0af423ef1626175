"""Redacts the values of Secrets and other sensitive objects: a change shows, the value never does.

`redact_object` replaces each value by `REDACTED(hmac:<16 hex>)`, a keyed digest over identity,
key and value: equal values at two paths differ, and neither content nor length shows.
The placeholder is not base64 on purpose, so the API server refuses to apply such a file.

Annotations are values too: deployment tools keep copies of the whole object in them, some
compressed, so searching them for plaintext would miss it. Every annotation is replaced
but the short ones of owners that are known to keep bookkeeping there
(`READABLE_ANNOTATIONS`). The input must be sanitized: sanitizing drops kubectl's copy of the
object, and an object that still has it is refused.

Pure.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256

import orjson

from windlass.objects.names import GVR, JSON, Identity, Object

_CORE_SECRETS = ("", "secrets")
_VALUE_FIELDS = ("data", "stringData")
_UNREDACTED_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_DIGEST_DIGITS = 16
_PLACEHOLDER = re.compile(r"REDACTED\(hmac:[0-9a-f]{16}\)")

READABLE_ANNOTATIONS = ("meta.helm.sh/", "argocd.argoproj.io/", "*.fluxcd.io/", "cert-manager.io/")
"""Prefixes of annotations whose short values stay; `*.` stands for every subdomain."""

MAX_READABLE_BYTES = 256
"""Bytes of an annotation value that bookkeeping needs at most; a copy of an object is longer."""

PLACEHOLDER_KEY = "redacted-annotations"
"""The data key that keeps a Secret with nothing but redacted annotations from being applied."""


def is_sensitive(gvr: GVR, sensitive: frozenset[str]) -> bool:
    """True for core Secrets and the types named in `sensitive` as `[group/]resource`."""
    return (gvr.group, gvr.resource) == _CORE_SECRETS or gvr.is_named_in(sensitive)


def derive_destination_salt(mirror_salt: bytes, destination: str) -> bytes:
    """The salt of one destination (`namespace/name`), so that digests differ between them."""
    return _derive_key(mirror_salt, "destination", destination)


def derive_digest_key(mirror_salt: bytes) -> bytes:
    """The key under which digests of sensitive objects are kept in memory."""
    return _derive_key(mirror_salt, "digest", "")


def redact_object(
    obj: Object, identity: Identity, salt: bytes, readable: Iterable[str] = READABLE_ANNOTATIONS
) -> Object:
    """A copy of the sanitized `obj` with every secret value replaced."""
    _refuse_copies(obj)
    prefix = (identity.gvr.group, identity.gvr.resource, identity.namespace, identity.name)
    partial = {**obj, "metadata": _redact_metadata(obj.get("metadata"), prefix, salt, readable)}
    if (identity.gvr.group, identity.gvr.resource) == _CORE_SECRETS:
        return _redact_secret(partial, obj, prefix, salt)
    return {
        key: value if key in _UNREDACTED_FIELDS else _redact_leaves(value, (*prefix, key), salt)
        for key, value in partial.items()
    }


def is_readable(key: str, value: JSON, readable: Iterable[str] = READABLE_ANNOTATIONS) -> bool:
    """Whether an annotation of a sensitive object may stay in plain text."""
    if not isinstance(value, str) or len(value.encode()) > MAX_READABLE_BYTES:
        return False
    return any(_has_prefix(key, prefix) for prefix in readable)


def reveals_plaintext(before: JSON, after: JSON) -> bool:
    """Whether `before` shows in plain text a value that `after` redacts."""
    if isinstance(after, dict):
        fields = before if isinstance(before, dict) else {}
        return any(
            reveals_plaintext(fields[key], value) for key, value in after.items() if key in fields
        )
    if isinstance(after, list):
        items = before if isinstance(before, list) else []
        return any(reveals_plaintext(old, new) for old, new in zip(items, after, strict=False))
    return _is_placeholder(after) and before is not None and not _is_placeholder(before)


def _is_placeholder(value: JSON) -> bool:
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def _has_prefix(key: str, prefix: str) -> bool:
    if not prefix.startswith("*."):
        return key.startswith(prefix)
    domain, _, name = key.partition("/")
    suffix, _, start = prefix[1:].partition("/")
    return domain.endswith(suffix) and name.startswith(start)


def _redact_secret(partial: Object, obj: Object, prefix: tuple[str, ...], salt: bytes) -> Object:
    """Redact the values of the Secret `obj`; `partial` is `obj` with redacted metadata."""
    result = {
        key: _redact_map(value, (*prefix, key), salt) if key in _VALUE_FIELDS else value
        for key, value in partial.items()
    }
    if partial["metadata"] != obj.get("metadata") and not any(
        obj.get(key) for key in _VALUE_FIELDS
    ):
        # Without a value that is not base64 the file could be applied, with its redacted
        # annotations.
        path = (*prefix, "data", PLACEHOLDER_KEY)
        result["data"] = {PLACEHOLDER_KEY: _placeholder("", path, salt)}
    return result


def _redact_metadata(
    metadata: JSON, prefix: tuple[str, ...], salt: bytes, readable: Iterable[str]
) -> JSON:
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return metadata
    path = (*prefix, "metadata", "annotations")
    redacted = {
        key: value if is_readable(key, value, readable) else _placeholder(value, (*path, key), salt)
        for key, value in annotations.items()
    }
    return {**metadata, "annotations": redacted}


def _refuse_copies(obj: Object) -> None:
    metadata = obj.get("metadata") or {}
    if "managedFields" in metadata or _LAST_APPLIED in (metadata.get("annotations") or {}):
        raise ValueError("only a cleaned object can be redacted")


def _redact_map(values: JSON, path: tuple[str, ...], salt: bytes) -> JSON:
    if not isinstance(values, dict):
        return None if values is None else _placeholder(values, path, salt)
    return {key: _placeholder(value, (*path, key), salt) for key, value in values.items()}


def _redact_leaves(node: JSON, path: tuple[str, ...], salt: bytes) -> JSON:
    if isinstance(node, dict):
        return {key: _redact_leaves(item, (*path, key), salt) for key, item in node.items()}
    if isinstance(node, list):
        return [
            _redact_leaves(item, (*path, str(position)), salt) for position, item in enumerate(node)
        ]
    # A number, such as a PIN or a seed, is as secret as a string; null means only "no value".
    return None if node is None else _placeholder(node, path, salt)


def _placeholder(value: JSON, path: tuple[str, ...], salt: bytes) -> str:
    """The digest of `value`; its path, with the identity in front, makes it unique."""
    message = orjson.dumps([*path, value], option=orjson.OPT_SORT_KEYS)
    return f"REDACTED(hmac:{hmac.new(salt, message, sha256).hexdigest()[:_DIGEST_DIGITS]})"


def _derive_key(mirror_salt: bytes, purpose: str, subject: str) -> bytes:
    return hmac.new(mirror_salt, f"windlass mirror {purpose}\0{subject}".encode(), sha256).digest()
