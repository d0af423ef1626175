"""How the tree on a gateway differs from what we left there (DRF-1, DRF-2).

A file counts as modified only when its content is known to differ: a new stat alone is a
reason to hash it. A resource.json in which only `attributes.lastModification*` differ is
the gateway's own bookkeeping: noise, never an event, never put back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import orjson

from windlass.gateways.decide.manifest import Manifest, Stat
from windlass.objects.names import JSON

_STAMPS = "lastModification"
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Drift:
    """Sorted paths; `noise` is counted apart from the rest."""

    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        return bool(self.modified or self.missing or self.extra)


def suspects(
    manifest: Manifest, stats: Mapping[str, Stat], *, everything: bool = False
) -> tuple[str, ...]:
    """The files to hash: those with another stat than we left, or all that are there."""
    return tuple(
        path
        for path in sorted(manifest.files)
        if path in stats and (everything or manifest.files[path].stat != stats[path])
    )


def compare(
    manifest: Manifest,
    stats: Mapping[str, Stat],
    hashes: Mapping[str, str],
    extras: Iterable[str],
    noise: Collection[str] = (),
) -> Drift:
    """The drift, given digests of all suspects and those among them known to be noise.

    `extras` are live files below managed directories that are neither in the manifest nor
    excluded nor protected.
    """
    ours = manifest.files
    altered = [
        path for path in sorted(hashes) if path in ours and hashes[path] != ours[path].sha256
    ]
    return Drift(
        modified=tuple(path for path in altered if path not in noise),
        missing=tuple(path for path in sorted(ours) if path not in stats),
        extra=tuple(sorted(path for path in extras if path not in ours)),
        noise=tuple(path for path in altered if path in noise),
    )


def is_noise(ours: bytes, theirs: bytes) -> bool:
    """Whether two contents of a resource.json differ in the gateway's stamps only."""
    try:
        return _calm(orjson.loads(ours)) == _calm(orjson.loads(theirs))
    except orjson.JSONDecodeError:
        return False


def calm_digest(content: bytes) -> str:
    """A digest of a resource.json without the gateway's stamps; empty where it is not JSON."""
    try:
        return hashlib.sha256(_calm(orjson.loads(content))).hexdigest()[:_DIGITS]
    except orjson.JSONDecodeError:
        return ""


def _calm(value: JSON) -> bytes:
    """The value without its stamps, as bytes: `1` and `true` are equal only as objects."""
    attributes = value.get("attributes") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(attributes, dict):
        kept = {name: item for name, item in attributes.items() if not name.startswith(_STAMPS)}
        value = {**value, "attributes": kept}
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
