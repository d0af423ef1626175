"""What every kind reports about itself.

A status is output: it is recomputed on every pass, never an input of a decision. So a
status that does not decode counts as empty.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.api.constraint import declared
from windlass.objects.condition import Condition

Count = Annotated[int, Meta(ge=0)]


class ConditionRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One condition as it stands in a manifest."""

    type: Annotated[str, Meta(description="What is told about.", min_length=1, max_length=316)]
    status: Annotated[Literal["True", "False", "Unknown"], Meta(description="Whether it is true.")]
    reason: Annotated[
        str,
        Meta(
            description="Why, as one word for programs.",
            min_length=1,
            max_length=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ]
    message: Annotated[str, Meta(description="Why, for people.", max_length=32768)]
    last_transition_time: Annotated[
        str,
        Meta(
            description="When the status last changed.", extra_json_schema={"format": "date-time"}
        ),
    ]
    observed_generation: Annotated[
        Count, Meta(description="The generation of the spec this was concluded from.")
    ] = 0


Conditions = Annotated[
    tuple[ConditionRow, ...],
    Meta(
        description="What is true of this object. Ready is always there; Reconciling and "
        "Stalled only while they are true.",
        max_length=32,
        extra=declared(list_type="map", keys=("type",)),
    ),
]
ObservedGeneration = Annotated[
    Count, Meta(description="The generation of the spec that the last pass looked at.")
]
HandledRequest = Annotated[
    str,
    Meta(
        description="The value of the annotation windlass.dev/requestedAt (or "
        "reconcile.fluxcd.io/requestedAt) that was last acted upon.",
        max_length=256,
    ),
]


class Status(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields that the status of every kind has."""

    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: HandledRequest = ""
    conditions: Conditions = ()

    def condition(self, name: str) -> Condition | None:
        """The condition of that type, if it is reported."""
        for row in self.conditions:
            if row.type == name:
                return _value(row)
        return None

    @property
    def rows(self) -> tuple[Condition, ...]:
        """All conditions as values."""
        return tuple(_value(row) for row in self.conditions)


def _value(row: ConditionRow) -> Condition:
    return Condition(
        type=row.type,
        status=row.status,
        reason=row.reason,
        message=row.message,
        observed_generation=row.observed_generation,
        last_transition_time=row.last_transition_time,
    )
