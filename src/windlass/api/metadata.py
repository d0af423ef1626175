"""The part of an object's metadata that decisions are made from."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from windlass.objects.names import Key


class Metadata(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who an object is, and in which state the server holds it."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)
