"""How much the Environments of a Project may use."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from windlass.api import amount
from windlass.api.amount import ContainerAmounts, DefaultQuota, Quota
from windlass.api.constraint import Constraint, declared


class ContainerLimits(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a container gets that names nothing, and what none may exceed."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        amount.not_above(
            "default_request",
            "default",
            amount.CONTAINER,
            "defaultRequest is not above default (500m, 400Mi and 1Gi where it is left out)",
            {"cpu": "500m", "memory": "400Mi", "ephemeral_storage": "1Gi"},
        ),
        amount.not_above("default", "max", amount.CONTAINER, "default is not above max"),
        amount.not_above(
            "default_request", "max", amount.CONTAINER, "defaultRequest is not above max"
        ),
    )

    default_request: Annotated[
        ContainerAmounts | None,
        Meta(description="Requests of a container without any; left out, 50m, 64Mi and 256Mi."),
    ] = None
    default: Annotated[
        ContainerAmounts | None,
        Meta(description="Limits of a container without any; left out, 500m, 400Mi and 1Gi."),
    ] = None
    max: Annotated[
        ContainerAmounts | None,
        Meta(description="What no container may exceed; left out, the limits of the quota."),
    ] = None


class Resources(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How much an Environment may use."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        amount.not_above(
            "default_quota", "max_quota", amount.ALL, "maxQuota is not below defaultQuota"
        ),
    )

    default_quota: Annotated[
        DefaultQuota,
        Meta(
            description="How much an Environment may use that asks for nothing else.",
            extra=declared(filled_in=True),
        ),
    ] = DefaultQuota()
    max_quota: Annotated[
        Quota | None,
        Meta(
            description="How much an Environment may ask for, not below defaultQuota; what is "
            "left out cannot be raised above it."
        ),
    ] = None
    limit_range: Annotated[
        ContainerLimits | None,
        Meta(description="Defaults and bounds of one container."),
    ] = None
