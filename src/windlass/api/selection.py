"""One entry of a rule: types, and which of their changes count."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.api.constraint import declared
from windlass.api.scalar import GroupName, ResourcePlural, VersionName
from windlass.api.status import Count, Status

Operation = Literal["CREATE", "UPDATE", "DELETE", "*"]

_PLURALS = Annotated[
    tuple[ResourcePlural, ...],
    Meta(min_length=1, max_length=64, extra=declared(list_type="atomic")),
]


class Selection(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A set of types. What is left out does not narrow it, but for `resources`."""

    operations: Annotated[
        tuple[Operation, ...],
        Meta(
            description="Which changes of the mirror are written: CREATE a file, UPDATE it, "
            "DELETE it, or * for all. Left out means all.",
            max_length=4,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    api_groups: Annotated[
        tuple[GroupName, ...],
        Meta(
            description='API groups to look in; "" is the core group, * is every group. Left out '
            "means every group that serves the type.",
            max_length=64,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    api_versions: Annotated[
        tuple[VersionName, ...],
        Meta(
            description="API versions to mirror, each as a file of its own. Left out or * means "
            "the preferred version of the group, one file for each object.",
            max_length=16,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    resources: Annotated[
        _PLURALS | None,
        Meta(
            description="Plural names of types, such as deployments; * is every type that can be "
            "watched. Left out means the usual types: workloads, services, configuration, "
            "access rules, quotas and the like."
        ),
    ] = None
    include_owned: Annotated[
        bool,
        Meta(
            description="Also mirror objects that a controller owns. Their owner makes them anew, "
            "so they are normally left out."
        ),
    ] = False


class ResolvedType(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A type that the rule selects."""

    gvr: Annotated[str, Meta(description="Group, version and plural of the type.", max_length=512)]
    scope: Annotated[
        str, Meta(description="Where it is watched: Cluster or a namespace.", max_length=63)
    ]
    state: Annotated[str, Meta(description="How its watch is doing.", max_length=63)]


class UnresolvedEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An entry of the rule that selects nothing now."""

    entry: Annotated[str, Meta(description="The entry as it is written.", max_length=512)]
    reason: Annotated[str, Meta(description="Why it selects nothing.", max_length=1024)]


class RuleStatus(Status, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a rule selects."""

    resolved: Annotated[
        tuple[ResolvedType, ...],
        Meta(
            description="Up to fifty types that the rule selects.",
            max_length=50,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    unresolved: Annotated[
        tuple[UnresolvedEntry, ...],
        Meta(
            description="Up to twenty entries that select nothing, and why.",
            max_length=20,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    objects: Annotated[Count, Meta(description="How many objects the rule selects.")] = 0
