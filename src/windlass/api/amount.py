"""Amounts of CPU, memory and storage: how much one Environment may use.

An amount is a Kubernetes quantity, as a text or as a whole number, and always more than
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any

from msgspec import Meta, Struct

from windlass.api.constraint import Constraint, in_code
from windlass.objects import quantity

_NUMBER = r"(0*[1-9][0-9]{0,17}(\.[0-9]{0,9})?|0*\.0*[1-9][0-9]{0,8})"
_SUFFIX = "([KMGTPE]i|[numkMGTPE]|[eE][+-]?1?[0-9])?"

Amount = (
    Annotated[str, Meta(min_length=1, max_length=32, pattern=f"^{_NUMBER}{_SUFFIX}$")]
    | Annotated[int, Meta(ge=1)]
)
"""A quantity above zero."""

Number = Annotated[int, Meta(ge=1, le=100_000)]
"""How many of something."""

ALL = (
    "cpu",
    "memory",
    "limits_cpu",
    "limits_memory",
    "storage",
    "ephemeral_storage",
    "pods",
    "persistent_volume_claims",
    "services",
    "jobs",
    "secrets",
    "config_maps",
)
"""Every field of a quota."""

CONTAINER = ("cpu", "memory", "ephemeral_storage")
"""Every field of a container's amounts."""


def not_above(
    smaller: str,
    larger: str,
    fields: tuple[str, ...],
    message: str,
    fallback: Mapping[str, str] | None = None,
) -> Constraint:
    """No field of the object `smaller` is above the same field of the object `larger`.

    A field that `larger` leaves out is the one in `fallback`; without one it is no bound.
    """
    usual = fallback or {}

    def holds(value: Any) -> bool:
        one, other = getattr(value, smaller), getattr(value, larger)
        return all(low <= high for low, high in _pairs(one, other, fields, usual))

    # A quantity may be a number, and a field that may be both has no bound the server trusts.
    return in_code(message, holds, field=larger)


def _pairs(
    one: Any, other: Any, fields: tuple[str, ...], usual: Mapping[str, str]
) -> Iterator[tuple[Fraction, Fraction]]:
    for field in fields:
        low = getattr(one, field, None)
        high = getattr(other, field, None) or usual.get(field)
        if low is not None and high is not None:
            yield quantity.parse(low), quantity.parse(high)


class Quota(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Amounts that somebody names; what is left out stays as it is."""

    cpu: Annotated[Amount | None, Meta(description="CPU requests of all pods.")] = None
    memory: Annotated[Amount | None, Meta(description="Memory requests of all pods.")] = None
    limits_cpu: Annotated[Amount | None, Meta(description="CPU limits of all pods.")] = None
    limits_memory: Annotated[Amount | None, Meta(description="Memory limits of all pods.")] = None
    storage: Annotated[Amount | None, Meta(description="Size of all volume claims.")] = None
    ephemeral_storage: Annotated[
        Amount | None, Meta(description="Ephemeral storage requests of all pods.")
    ] = None
    pods: Annotated[Number | None, Meta(description="Number of pods.")] = None
    persistent_volume_claims: Annotated[
        Number | None, Meta(description="Number of volume claims.")
    ] = None
    services: Annotated[Number | None, Meta(description="Number of Services.")] = None
    jobs: Annotated[Number | None, Meta(description="Number of Jobs.")] = None
    secrets: Annotated[Number | None, Meta(description="Number of Secrets.")] = None
    config_maps: Annotated[Number | None, Meta(description="Number of ConfigMaps.")] = None


class DefaultQuota(Quota, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The amounts of an Environment that names none."""

    cpu: Annotated[Amount, Meta(description="CPU requests of all pods.")] = "2"
    memory: Annotated[Amount, Meta(description="Memory requests of all pods.")] = "4Gi"
    limits_memory: Annotated[
        Amount | None,
        Meta(description="Memory limits of all pods; left out, twice the requests."),
    ] = None
    limits_cpu: Annotated[
        Amount | None, Meta(description="CPU limits of all pods; left out, none.")
    ] = None
    storage: Annotated[Amount, Meta(description="Size of all volume claims.")] = "20Gi"
    ephemeral_storage: Annotated[
        Amount, Meta(description="Ephemeral storage requests of all pods.")
    ] = "10Gi"
    pods: Annotated[Number, Meta(description="Number of pods.")] = 20
    persistent_volume_claims: Annotated[Number, Meta(description="Number of volume claims.")] = 10
    services: Annotated[Number, Meta(description="Number of Services.")] = 20
    jobs: Annotated[Number, Meta(description="Number of Jobs.")] = 20
    secrets: Annotated[Number, Meta(description="Number of Secrets.")] = 60
    config_maps: Annotated[Number, Meta(description="Number of ConfigMaps.")] = 60


class ContainerAmounts(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Amounts of one container."""

    cpu: Annotated[Amount | None, Meta(description="CPU.")] = None
    memory: Annotated[Amount | None, Meta(description="Memory.")] = None
    ephemeral_storage: Annotated[Amount | None, Meta(description="Ephemeral storage.")] = None
