"""The operation that a change performs on a file in Git: CREATE, UPDATE or DELETE.

Used wherever a change is planned. The operation comes from the state of the file, never from the
type of a watch event (RUL-7), so masks mean the same live, after a relist and after a restart:

| file | object | bytes | operation |
|---|---|---|---|
| absent | live | any | CREATE |
| present | live | different | UPDATE |
| present | live | same | none |
| present | gone | any | DELETE |
| absent | gone | any | none |

Pure.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Literal

from windlass.telemetry.reasons import SkipReason

Operation = Literal["CREATE", "UPDATE", "DELETE"]
OPERATIONS: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")

PruneMode = Literal["Always", "OnEvent", "Never"]
"""SNP-6: which removals are written; OnEvent excludes those inferred from a snapshot."""


def operation_between(before: str | None, after: str | None) -> Operation | None:
    """RUL-7: the operation by the table above, of blob ids; None means that Git is up to date."""
    if before == after:
        return None
    if before is None:
        return "CREATE"
    return "DELETE" if after is None else "UPDATE"


def skip_reason(
    operation: Operation | None,
    mask: AbstractSet[Operation],
    *,
    prune: PruneMode = "Always",
    observed: bool = True,
) -> SkipReason | None:
    """Why an operation is not written (RUL-7, SNP-6); None means that it is.

    `observed` is False for what was inferred from a snapshot.
    """
    if operation is None:
        return SkipReason.STATUS_ONLY
    if operation not in mask:
        return SkipReason.OPERATION_MASKED
    if operation == "DELETE" and not (prune == "Always" or (prune == "OnEvent" and observed)):
        return SkipReason.PRUNE_RETAINED
    return None
