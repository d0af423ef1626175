"""Reads one Secret or ConfigMap by name, from one namespace.

Nothing is listed and nothing is watched: whoever misses something looks again after a
while. Messages name objects and keys, never values.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from windlass.base.errors import Waiting
from windlass.git.errors import SecretMalformed
from windlass.kube.api import Api
from windlass.kube.errors import Forbidden, NotFound
from windlass.objects.names import GVR, Object

SECRETS = GVR("", "v1", "secrets")
CONFIG_MAPS = GVR("", "v1", "configmaps")
LOOK_AGAIN_SECONDS = 15.0

HolderKind = Literal["Secret", "ConfigMap"]


class SecretMissing(Waiting):
    """The object is not there, or reading it `is_refused`."""

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__("SecretMissing", message, after=LOOK_AGAIN_SECONDS)
        self.is_refused = is_refused


class SecretKeyMissing(Waiting):
    """The object is there and does not hold what is needed."""

    def __init__(self, message: str) -> None:
        super().__init__("SecretKeyMissing", message, after=LOOK_AGAIN_SECONDS)


@dataclass(frozen=True, slots=True)
class Held:
    """What a Secret or ConfigMap holds."""

    kind: HolderKind
    namespace: str
    name: str
    data: Mapping[str, bytes] = field(repr=False)

    def first(self, *keys: str) -> tuple[str, bytes]:
        """The first of `keys` that has a value, and the value."""
        for key in keys:
            if self.data.get(key, b"").strip():
                return key, self.data[key]
        wanted = f"key {keys[0]}" if len(keys) == 1 else f"none of the keys {', '.join(keys)}"
        has = "has no" if len(keys) == 1 else "has"
        raise SecretKeyMissing(f"{self} {has} {wanted} (found: {self._found()})")

    def value(self, key: str) -> bytes:
        """The value of `key`; nothing where there is none."""
        return self.data.get(key, b"")

    def _found(self) -> str:
        """The keys, by name only."""
        shown = [key if self.data[key].strip() else f"{key} (empty)" for key in sorted(self.data)]
        return ", ".join(shown) or "nothing"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


async def read(api: Api, kind: HolderKind, namespace: str, name: str) -> Held:
    """The object; SecretMissing where it is not there or may not be read."""
    try:
        found = await api.get(SECRETS if kind == "Secret" else CONFIG_MAPS, name, namespace)
    except NotFound as error:
        raise SecretMissing(
            f"{kind} {namespace}/{name} does not exist; create it or fix the reference"
        ) from error
    except Forbidden as error:
        raise SecretMissing(
            f"reading {kind} {namespace}/{name} is not allowed; bind the operator's role there",
            is_refused=True,
        ) from error
    return Held(kind, namespace, name, _decoded(kind, found))


def _decoded(kind: HolderKind, found: Object) -> dict[str, bytes]:
    if kind == "ConfigMap":
        return {key: str(text).encode() for key, text in (found.get("data") or {}).items()}
    decoded: dict[str, bytes] = {}
    for key, value in (found.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SecretMalformed(f"key {key} of the Secret is not base64") from error
    return decoded
