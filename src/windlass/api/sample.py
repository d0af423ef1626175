"""A complete minimal object of each kind."""

from __future__ import annotations

from windlass.api.kind import Kind
from windlass.objects.names import Object


def document(kind: Kind) -> Object:
    """The sample; those of one group work together."""
    return {"apiVersion": kind.gvk.api_version, "kind": kind.name} | kind.sample
