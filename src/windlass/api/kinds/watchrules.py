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
            description="Changes that are written to Git: CREATE, UPDATE and DELETE of files, or * "
            "for all. Defaults to all.",
            max_length=4,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    api_groups: Annotated[
        tuple[GroupName, ...],
        Meta(
            description='API groups of the resources; "" is the core group, * is every group. '
            "Defaults to every group that serves the resource.",
            max_length=64,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    api_versions: Annotated[
        tuple[VersionName, ...],
        Meta(
            description="API versions to mirror, one file per version. Defaults to the preferred "
            "version of the group, as does *.",
            max_length=16,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    resources: Annotated[
        _ResourcePlurals | None,
        Meta(
            description="Plural names of resources, such as deployments; * is every resource that "
            "can be watched. Defaults to the common ones, among them workloads, services, "
            "configuration, RBAC and quotas."
        ),
    ] = None
    include_owned: Annotated[
        bool,
        Meta(
            description="Also mirror objects that are owned by a controller. By default they are "
            "skipped, because their controller recreates them."
        ),
    ] = False


class ResolvedType(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A type that the rule selects."""

    gvr: Annotated[str, Meta(description="Group, version and plural name.", max_length=512)]
    scope: Annotated[
        str, Meta(description="Namespace that is watched, or Cluster for all.", max_length=63)
    ]
    state: Annotated[str, Meta(description="State of the watch, such as synced.", max_length=63)]


class UnresolvedEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An entry of the rule that selects nothing now."""

    entry: Annotated[str, Meta(description="The entry as written in the rule.", max_length=512)]
    reason: Annotated[str, Meta(description="Why it selects nothing.", max_length=1024)]


class RuleStatus(ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a rule selects."""

    resolved: Annotated[
        tuple[ResolvedType, ...],
        Meta(
            description="Up to 50 types that the rule selects.",
            max_length=50,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    unresolved: Annotated[
        tuple[UnresolvedEntry, ...],
        Meta(
            description="Up to 20 entries that select nothing, with the reason.",
            max_length=20,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    objects: Annotated[Count, Meta(description="Number of mirrored objects that it selects.")] = 0


class WatchRuleSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which objects, and where to."""

    destination_ref: Annotated[
        CrossNamespaceRef, Meta(description="GitDestination that the objects are written to.")
    ]
    rules: Annotated[
        tuple[RuleSelector, ...],
        Meta(
            description="What to mirror from the namespace of this rule; an object is mirrored if "
            "any entry selects it. An empty entry ({}) selects the common resources.",
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
    objects_column("Number of mirrored objects that the rule selects."),
    AGE_COLUMN,
)

WATCH_RULE_KIND = Kind(
    resource=WatchRule,
    plural="watchrules",
    short_names=("wrule",),
    namespaced=True,
    columns=RULE_COLUMNS,
    description="A WatchRule selects objects of its namespace for a GitDestination.",
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
            description="Cluster selects cluster-scoped resources; Namespaced selects namespaced "
            "resources in all namespaces."
        ),
    ]


class ClusterWatchRuleSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which objects, and where to."""

    destination_ref: Annotated[
        NamespacedRef,
        Meta(
            description="GitDestination that the objects are written to. It must be in the "
            "namespace of the operator or in one of --cluster-destination-namespaces."
        ),
    ]
    rules: Annotated[
        tuple[ClusterRuleSelector, ...],
        Meta(
            description="What to mirror; an object is mirrored if any entry selects it. An entry "
            "with only a scope selects the common resources of that scope.",
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
    description="A ClusterWatchRule selects objects of the cluster for a GitDestination.",
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
