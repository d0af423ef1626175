"""Limits that a Project sets for its Environments: quota, container resources, network, pods.

A quantity is a Kubernetes quantity, as a text or as a whole number, and always above zero. An
Environment may ask for another `Quota`, up to the `maxQuota` of its Project.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from windlass.api.schema.constraint import Constraint, code_only, schema_extra
from windlass.api.schema.scalars import Cidr, LabelName
from windlass.objects import quantity

_NUMBER = r"(0*[1-9][0-9]{0,17}(\.[0-9]{0,9})?|0*\.0*[1-9][0-9]{0,8})"
_SUFFIX = "([KMGTPE]i|[numkMGTPE]|[eE][+-]?1?[0-9])?"

Quantity = (
    Annotated[str, Meta(min_length=1, max_length=32, pattern=f"^{_NUMBER}{_SUFFIX}$")]
    | Annotated[int, Meta(ge=1)]
)
"""A quantity above zero."""

ObjectCount = Annotated[int, Meta(ge=1, le=100_000)]
"""A limit on the number of objects."""

QUOTA_FIELDS = (
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
"""All fields of `Quota`."""

CONTAINER_FIELDS = ("cpu", "memory", "ephemeral_storage")
"""All fields of `ContainerResources`."""


def not_above(
    lower_field: str,
    upper_field: str,
    fields: tuple[str, ...],
    message: str,
    fallback: Mapping[str, str] | None = None,
) -> Constraint:
    """A rule that no quantity in `lower_field` is above the same one in `upper_field`.

    A quantity that `upper_field` leaves out is the one in `fallback`; without one it is no bound.
    """
    defaults = fallback or {}

    def holds(value: Any) -> bool:
        lower, upper = getattr(value, lower_field), getattr(value, upper_field)
        return all(low <= high for low, high in _comparable_pairs(lower, upper, fields, defaults))

    # Not in CEL: a field that is a string or a number has no bound from which the server could
    # estimate a cost.
    return code_only(message, holds, field=upper_field)


def _comparable_pairs(
    lower: Any, upper: Any, fields: tuple[str, ...], defaults: Mapping[str, str]
) -> Iterator[tuple[Fraction, Fraction]]:
    for field in fields:
        low = getattr(lower, field, None)
        high = getattr(upper, field, None) or defaults.get(field)
        if low is not None and high is not None:
            yield quantity.parse(low), quantity.parse(high)


class Quota(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A quota; fields that are not set keep the default."""

    cpu: Annotated[Quantity | None, Meta(description="CPU requests of all pods.")] = None
    memory: Annotated[Quantity | None, Meta(description="Memory requests of all pods.")] = None
    limits_cpu: Annotated[Quantity | None, Meta(description="CPU limits of all pods.")] = None
    limits_memory: Annotated[Quantity | None, Meta(description="Memory limits of all pods.")] = None
    storage: Annotated[
        Quantity | None, Meta(description="Total size of all PersistentVolumeClaims.")
    ] = None
    ephemeral_storage: Annotated[
        Quantity | None, Meta(description="Ephemeral storage requests of all pods.")
    ] = None
    pods: Annotated[ObjectCount | None, Meta(description="Number of pods.")] = None
    persistent_volume_claims: Annotated[
        ObjectCount | None, Meta(description="Number of PersistentVolumeClaims.")
    ] = None
    services: Annotated[ObjectCount | None, Meta(description="Number of Services.")] = None
    jobs: Annotated[ObjectCount | None, Meta(description="Number of Jobs.")] = None
    secrets: Annotated[ObjectCount | None, Meta(description="Number of Secrets.")] = None
    config_maps: Annotated[ObjectCount | None, Meta(description="Number of ConfigMaps.")] = None


class DefaultQuota(Quota, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The quota of an Environment without one of its own."""

    cpu: Annotated[Quantity, Meta(description="CPU requests of all pods.")] = "2"
    memory: Annotated[Quantity, Meta(description="Memory requests of all pods.")] = "4Gi"
    limits_memory: Annotated[
        Quantity | None,
        Meta(description="Memory limits of all pods; defaults to twice the requests."),
    ] = None
    limits_cpu: Annotated[
        Quantity | None, Meta(description="CPU limits of all pods; unlimited by default.")
    ] = None
    storage: Annotated[Quantity, Meta(description="Total size of all PersistentVolumeClaims.")] = (
        "20Gi"
    )
    ephemeral_storage: Annotated[
        Quantity, Meta(description="Ephemeral storage requests of all pods.")
    ] = "10Gi"
    pods: Annotated[ObjectCount, Meta(description="Number of pods.")] = 20
    persistent_volume_claims: Annotated[
        ObjectCount, Meta(description="Number of PersistentVolumeClaims.")
    ] = 10
    services: Annotated[ObjectCount, Meta(description="Number of Services.")] = 20
    jobs: Annotated[ObjectCount, Meta(description="Number of Jobs.")] = 20
    secrets: Annotated[ObjectCount, Meta(description="Number of Secrets.")] = 60
    config_maps: Annotated[ObjectCount, Meta(description="Number of ConfigMaps.")] = 60


class ContainerResources(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Resources of one container."""

    cpu: Annotated[Quantity | None, Meta(description="CPU.")] = None
    memory: Annotated[Quantity | None, Meta(description="Memory.")] = None
    ephemeral_storage: Annotated[Quantity | None, Meta(description="Ephemeral storage.")] = None


class ContainerLimits(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Default and maximum resources of a container."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        not_above(
            "default_request",
            "default",
            CONTAINER_FIELDS,
            "defaultRequest must not exceed default (500m, 400Mi and 1Gi where it is not set)",
            {"cpu": "500m", "memory": "400Mi", "ephemeral_storage": "1Gi"},
        ),
        not_above("default", "max", CONTAINER_FIELDS, "default must not exceed max"),
        not_above("default_request", "max", CONTAINER_FIELDS, "defaultRequest must not exceed max"),
    )

    default_request: Annotated[
        ContainerResources | None,
        Meta(description="Requests of a container without any; defaults to 50m, 64Mi and 256Mi."),
    ] = None
    default: Annotated[
        ContainerResources | None,
        Meta(description="Limits of a container without any; defaults to 500m, 400Mi and 1Gi."),
    ] = None
    max: Annotated[
        ContainerResources | None,
        Meta(description="Maximum of one container; defaults to the limits of the quota."),
    ] = None


class ProjectResources(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Resource limits of an Environment."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        not_above(
            "default_quota",
            "max_quota",
            QUOTA_FIELDS,
            "maxQuota must not be lower than defaultQuota",
        ),
    )

    default_quota: Annotated[
        DefaultQuota,
        Meta(
            description="Quota of an Environment without one of its own.",
            extra=schema_extra(filled_in=True),
        ),
    ] = DefaultQuota()
    max_quota: Annotated[
        Quota | None,
        Meta(
            description="Maximum quota of an Environment, not lower than defaultQuota; fields that "
            "are not set cannot be raised above defaultQuota."
        ),
    ] = None
    limit_range: Annotated[
        ContainerLimits | None,
        Meta(description="Default and maximum resources of one container."),
    ] = None


PodSecurity = Literal["restricted", "baseline"]


class EgressPort(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One port."""

    port: Annotated[Annotated[int, Meta(ge=1, le=65535)], Meta(description="Port number.")]
    protocol: Annotated[Literal["TCP", "UDP"], Meta(description="Protocol of the port.")] = "TCP"


class Egress(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Addresses that Environments may connect to."""

    name: Annotated[LabelName, Meta(description="Name of the entry.")]
    cidrs: Annotated[
        tuple[Cidr, ...],
        Meta(
            description="CIDR blocks. Private ones must be within --environments-egress-ceiling.",
            min_length=1,
            max_length=32,
            extra=schema_extra(list_type="set"),
        ),
    ]
    ports: Annotated[
        tuple[EgressPort, ...],
        Meta(
            description="Allowed ports; defaults to all ports.",
            max_length=32,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    untrusted: Annotated[
        bool, Meta(description="Whether the entry applies to untrusted Environments too.")
    ] = False


class Network(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Network access of Environments."""

    web_egress: Annotated[
        Literal["Public", "None"],
        Meta(
            description="Whether connections to ports 80 and 443 of public addresses are allowed."
        ),
    ] = "Public"
    egress: Annotated[
        tuple[Egress, ...],
        Meta(
            description="Further addresses that Environments may connect to.",
            max_length=32,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()


class Security(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Pod security of trusted Environments."""

    pod_security: Annotated[
        PodSecurity,
        Meta(
            description="Pod Security level of their namespaces. For untrusted Environments the "
            "administrator sets it."
        ),
    ] = "restricted"
