"""Our kinds by name."""

from __future__ import annotations

from windlass.api.kinds.registry import KINDS
from windlass.api.schema.kind import Kind

_BY_NAME = {kind.name: kind for kind in KINDS}


def get_kind(name: str) -> Kind:
    """The kind of that name."""
    return _BY_NAME[name]
