"""WatchRule and ClusterWatchRule: which objects go to a GitDestination.

| Kind | Selects from | Destination |
|---|---|---|
| WatchRule | its own namespace | in any namespace that grants it |
| ClusterWatchRule | the whole cluster | in windlass's own namespace, or a listed one |

A rule has entries (`RuleSelector`); an object is mirrored if any entry selects it. An entry
without `resources` selects the types of `PRESET`: desired state that people write, none that
controllers make. The watch role in mode `selected` names the same types, so that such an entry
works with it.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.schema.constraint import schema_extra
from windlass.api.schema.kind import AGE_COLUMN, READY_COLUMN, Column, Kind, objects_column
from windlass.api.schema.object_references import CrossNamespaceRef, NamespacedRef
from windlass.api.schema.resource import Count, Resource, ResourceStatus
from windlass.api.schema.scalars import GroupName, ResourcePlural, VersionName


@dataclass(frozen=True, slots=True, order=True)
class PresetType:
    """A type that is mirrored by default, in the version that the server prefers."""

    group: str  # empty for the core group
    resource: str  # plural
    namespaced: bool


def _types(group: str, *, namespaced: str = "", cluster: str = "") -> tuple[PresetType, ...]:
    return (
        *(PresetType(group, name, True) for name in namespaced.split()),
        *(PresetType(group, name, False) for name in cluster.split()),
    )


PRESET: tuple[PresetType, ...] = (
    *_types(
        "",
        namespaced="configmaps limitranges resourcequotas secrets serviceaccounts services",
    ),
    *_types("apiextensions.k8s.io", cluster="customresourcedefinitions"),
    *_types("apiregistration.k8s.io", cluster="apiservices"),
    *_types("apps", namespaced="daemonsets deployments statefulsets"),
    *_types("networking.k8s.io", namespaced="ingresses networkpolicies"),
    *_types("policy", namespaced="poddisruptionbudgets"),
    *_types(
        "rbac.authorization.k8s.io",
        namespaced="rolebindings roles",
        cluster="clusterrolebindings clusterroles",
    ),
    *_types("scheduling.k8s.io", cluster="priorityclasses"),
    *_types("storage.k8s.io", cluster="storageclasses"),
)


def preset_without_secrets() -> dict[str, tuple[str, ...]]:
    """The preset without Secrets, plural names by group."""
    open_types = (kind for kind in PRESET if (kind.group, kind.resource) != ("", "secrets"))
    groups = groupby(sorted(open_types), key=lambda kind: kind.group)
    return {group: tuple(kind.resource for kind in kinds) for group, kinds in groups}


Operation = Literal["CREATE", "UPDATE", "DELETE", "*"]

_ResourcePlurals = Annotated[
    tuple[ResourcePlural, ...],
    Meta(min_length=1, max_length=64, extra=schema_extra(list_type="atomic")),
]


class RuleSelector(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One entry of a rule: a set of types. Empty fields do not narrow it, except `resources`."""

    operations: Annotated[
        tuple[Operation, ...],
        Meta(
            description="Which changes of the mirror are written: CREATE a file, UPDATE it, "
            "DELETE it, or * for all. Left out means all.",
            max_length=4,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    api_groups: Annotated[
        tuple[GroupName, ...],
        Meta(
            description='API groups to look in; "" is the core group, * is every group. Left out '
            "means every group that serves the type.",
            max_length=64,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    api_versions: Annotated[
        tuple[VersionName, ...],
        Meta(
            description="API versions to mirror, each as a file of its own. Left out or * means "
            "the preferred version of the group, one file for each object.",
            max_length=16,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    resources: Annotated[
        _ResourcePlurals | None,
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


class RuleStatus(ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a rule selects."""

    resolved: Annotated[
        tuple[ResolvedType, ...],
        Meta(
            description="Up to fifty types that the rule selects.",
            max_length=50,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    unresolved: Annotated[
        tuple[UnresolvedEntry, ...],
        Meta(
            description="Up to twenty entries that select nothing, and why.",
            max_length=20,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    objects: Annotated[Count, Meta(description="How many objects the rule selects.")] = 0


class WatchRuleSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which objects, and where to."""

    destination_ref: Annotated[
        CrossNamespaceRef, Meta(description="The GitDestination that the objects go to.")
    ]
    rules: Annotated[
        tuple[RuleSelector, ...],
        Meta(
            description="What to mirror from the namespace of this rule; an object is mirrored if "
            "any entry selects it. An empty entry ({}) selects the usual types.",
            min_length=1,
            max_length=64,
            extra=schema_extra(list_type="atomic"),
        ),
    ]


class WatchRule(Resource, frozen=True, kw_only=True, rename="camel"):
    """Which objects of its own namespace go to a destination."""

    spec: WatchRuleSpec
    status: RuleStatus = msgspec.field(default_factory=RuleStatus)


RULE_COLUMNS = (
    Column("Destination", ".spec.destinationRef.name", "Name of the GitDestination."),
    READY_COLUMN,
    objects_column("How many objects this rule selects."),
    AGE_COLUMN,
)

WATCH_RULE_KIND = Kind(
    resource=WatchRule,
    plural="watchrules",
    short_names=("wrule",),
    namespaced=True,
    columns=RULE_COLUMNS,
    description="A WatchRule says which objects of its own namespace go to a GitDestination.",
    sample={
        "metadata": {"name": "settings", "namespace": "windlass-system"},
        "spec": {
            "destinationRef": {"name": "prod"},
            "rules": [{"resources": ["configmaps", "deployments", "services"]}],
        },
    },
)


RuleScope = Literal["Cluster", "Namespaced"]


class ClusterRuleSelector(
    RuleSelector, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """One entry of a cluster rule: a set of types of one scope."""

    scope: Annotated[
        RuleScope,
        Meta(
            description="Cluster selects types without a namespace, Namespaced selects types with "
            "one, in all namespaces."
        ),
    ]


class ClusterWatchRuleSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which objects, and where to."""

    destination_ref: Annotated[
        NamespacedRef,
        Meta(
            description="The GitDestination that the objects go to. It must lie in the namespace "
            "windlass is installed in, or in one that the administrator listed."
        ),
    ]
    rules: Annotated[
        tuple[ClusterRuleSelector, ...],
        Meta(
            description="What to mirror; an object is mirrored if any entry selects it. An entry "
            "with nothing but a scope selects the usual types of that scope.",
            min_length=1,
            max_length=64,
            extra=schema_extra(list_type="atomic"),
        ),
    ]


class ClusterWatchRule(Resource, frozen=True, kw_only=True, rename="camel"):
    """Which objects of the whole cluster go to a destination."""

    spec: ClusterWatchRuleSpec
    status: RuleStatus = msgspec.field(default_factory=RuleStatus)


CLUSTER_WATCH_RULE_KIND = Kind(
    resource=ClusterWatchRule,
    plural="clusterwatchrules",
    short_names=("cwrule",),
    namespaced=False,
    columns=RULE_COLUMNS,
    description="A ClusterWatchRule says which objects of the cluster go to a GitDestination.",
    sample={
        "metadata": {"name": "everything"},
        "spec": {
            "destinationRef": {"name": "prod", "namespace": "windlass-system"},
            "rules": [
                {"scope": "Namespaced"},
                {"scope": "Cluster"},
                {"scope": "Cluster", "resources": ["namespaces"]},
            ],
        },
    },
)
