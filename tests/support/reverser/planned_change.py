"""A planned change of one file."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.objects.names import Identity
from windlass.reverser.attribution.author import Author
from windlass.reverser.file_operation import Operation
from windlass.reverser.publish.commit_plan import PlannedChange

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def planned_change(op: Operation, identity: Identity, path: str) -> PlannedChange:
    """One file of a commit, as its message lists it."""
    nobody = Author("nobody", "nobody@windlass.invalid")
    return PlannedChange(path, identity, "1", 1, nobody, "exact", "nobody", _NOW, op)
