"""The digest of a cleaned object: equal digests mean nothing changed.

128 bits of BLAKE2b over compact JSON with sorted keys. Objects that hold secrets are
digested under a key, so the digest cannot be used to try out guesses.
"""

from __future__ import annotations

import json
from hashlib import blake2b

import orjson

from windlass.objects.names import Object

BYTES = 16


def digest(cleaned: Object, *, key: bytes = b"") -> bytes:
    """16 bytes that differ whenever two cleaned objects differ; `key` has at most 64 bytes."""
    return blake2b(_sorted_json(cleaned), digest_size=BYTES, key=key).digest()


def _sorted_json(cleaned: Object) -> bytes:
    try:
        return orjson.dumps(cleaned, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # orjson stops at 254 levels and 64-bit integers; the slow encoder does not.
        return json.dumps(cleaned, sort_keys=True, separators=(",", ":")).encode()
