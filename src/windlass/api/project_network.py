"""What the Environments of a Project may reach, and how far their pods may go."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.api.cidr import Cidr
from windlass.api.constraint import declared
from windlass.api.scalar import LabelName

PodSecurity = Literal["restricted", "baseline"]


class EgressPort(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One port."""

    port: Annotated[Annotated[int, Meta(ge=1, le=65535)], Meta(description="Number of the port.")]
    protocol: Annotated[Literal["TCP", "UDP"], Meta(description="Protocol.")] = "TCP"


class Egress(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Addresses that Environments may reach."""

    name: Annotated[LabelName, Meta(description="Name of the entry.")]
    cidrs: Annotated[
        tuple[Cidr, ...],
        Meta(
            description="Blocks of addresses. Private ones need the consent of the administrator.",
            min_length=1,
            max_length=32,
            extra=declared(list_type="set"),
        ),
    ]
    ports: Annotated[
        tuple[EgressPort, ...],
        Meta(
            description="Ports that may be reached there; left out, all of them.",
            max_length=32,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    untrusted: Annotated[
        bool, Meta(description="Whether untrusted Environments may reach them too.")
    ] = False


class Network(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What Environments may reach."""

    web_egress: Annotated[
        Literal["Public", "None"],
        Meta(description="Whether ports 80 and 443 of public addresses may be reached."),
    ] = "Public"
    egress: Annotated[
        tuple[Egress, ...],
        Meta(
            description="Further addresses that may be reached.",
            max_length=32,
            extra=declared(list_type="map", keys=("name",)),
        ),
    ] = ()


class Security(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far the pods of trusted Environments may go."""

    pod_security: Annotated[
        PodSecurity,
        Meta(
            description="The Pod Security level of their namespaces. For untrusted Environments "
            "the administrator says it."
        ),
    ] = "restricted"
