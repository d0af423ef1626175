"""Status conditions of an object.

`merged` keeps `lastTransitionTime` unless the status of a condition really changed,
so a reconcile that finds the same state gives the same bytes.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from windlass.objects.names import Object

Status = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of `status.conditions`."""

    type: str  # unique within an object
    status: Status
    reason: str  # UpperCamelCase, for programs
    message: str  # one sentence, for people
    observed_generation: int = 0  # metadata.generation that it is about
    last_transition_time: str = ""  # RFC 3339; when `status` last changed

    def as_object(self) -> Object:
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": self.observed_generation,
            "lastTransitionTime": self.last_transition_time,
        }

    @classmethod
    def from_object(cls, row: Object) -> Condition:
        return cls(
            type=row["type"],
            status=row["status"],
            reason=row.get("reason", ""),
            message=row.get("message", ""),
            observed_generation=row.get("observedGeneration", 0),
            last_transition_time=row.get("lastTransitionTime", ""),
        )


def merged(
    old: Iterable[Condition], new: Iterable[Condition], *, now: str
) -> tuple[Condition, ...]:
    """`new`, each with the transition time of its predecessor if the status is the same."""
    before = {condition.type: condition for condition in old}
    rows = []
    for condition in new:
        known = before.get(condition.type)
        same = known is not None and known.status == condition.status
        since = known.last_transition_time if same and known is not None else now
        rows.append(replace(condition, last_transition_time=since))
    return tuple(sorted(rows, key=lambda condition: condition.type))
