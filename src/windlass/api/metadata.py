"""The part of an object's metadata that decisions are made from."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from windlass.objects.key import Key

REQUEST_ANNOTATIONS = ("windlass.dev/requestedAt", "reconcile.fluxcd.io/requestedAt")
"""Whoever changes one of these asks for a pass now; the first that is set counts."""


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

    @property
    def requested_at(self) -> str:
        """The request to acknowledge in `status.lastHandledReconcileAt`; empty if none."""
        asked = (self.annotations.get(name, "") for name in REQUEST_ANNOTATIONS)
        return next((text for text in asked if text), "")
