"""Which pods are meant, by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from windlass.api.constraint import Constraint, declared

_VALUE_PATTERN = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
_KEY_PATTERN = (
    "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)

LabelKey = Annotated[str, Meta(min_length=1, max_length=317, pattern=_KEY_PATTERN)]
LabelValue = Annotated[str, Meta(max_length=63, pattern=_VALUE_PATTERN)]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


def _fits(requirement: Requirement) -> bool:
    return bool(requirement.values) == (requirement.operator in ("In", "NotIn"))


class Requirement(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One demand on one label."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        Constraint(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "In and NotIn need values; Exists and DoesNotExist have none",
            _fits,
            "values",
        ),
    )

    key: Annotated[LabelKey, Meta(description="Name of the label.")]
    operator: Annotated[
        Operator, Meta(description="How the value of the label is compared with the values.")
    ]
    values: Annotated[
        tuple[LabelValue, ...],
        Meta(
            description="The values to compare with, for In and NotIn.",
            max_length=32,
            extra=declared(list_type="atomic"),
        ),
    ] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet the demand; a label that is missing is in no list."""
        present = self.key in labels
        if self.operator == "Exists":
            return present
        if self.operator == "DoesNotExist":
            return not present
        return (present and labels[self.key] in self.values) == (self.operator == "In")


class LabelSelector(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Pods that meet every demand; without any demand all of them."""

    match_labels: Annotated[
        Annotated[dict[LabelKey, LabelValue], Meta(max_length=32)] | None,
        Meta(description="Labels with the values they must have."),
    ] = None
    match_expressions: Annotated[
        tuple[Requirement, ...],
        Meta(
            description="Demands that equality cannot express.",
            max_length=32,
            extra=declared(list_type="atomic"),
        ),
    ] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is meant."""
        equal = all(labels.get(key) == value for key, value in (self.match_labels or {}).items())
        return equal and all(demand.holds(labels) for demand in self.match_expressions)
