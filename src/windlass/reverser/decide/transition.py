"""What a change does to Git, which names its operation.

The operation comes from the state of the file, never from the type of a watch event
(RUL-7), so masks mean the same live, after a relist and after a restart:

| file | object | bytes | operation |
|---|---|---|---|
| absent | live | any | CREATE |
| present | live | different | UPDATE |
| present | live | same | none |
| present | gone | any | DELETE |
| absent | gone | any | none |
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Literal

from windlass.telemetry.reasons import SkipReason

Operation = Literal["CREATE", "UPDATE", "DELETE"]
OPERATIONS: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")


def operation(*, index_has: bool, same: bool, live: bool) -> Operation | None:
    """RUL-7: the operation by the table above; None means that Git is right already."""
    if not live:
        return "DELETE" if index_has else None
    if not index_has:
        return "CREATE"
    return None if same else "UPDATE"


def between(before: str | None, after: str | None) -> Operation | None:
    """RUL-7 for blob ids, where None means no file."""
    return operation(index_has=before is not None, same=before == after, live=after is not None)


def skip(done: Operation | None, mask: AbstractSet[Operation]) -> SkipReason | None:
    """Why a transition is not written (RUL-7); None means write it."""
    if done is None:
        return SkipReason.STATUS_ONLY
    return None if done in mask else SkipReason.OPERATION_MASKED
