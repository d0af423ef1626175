"""ClusterWatchRule: which objects of the whole cluster go to a destination."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.constraint import declared
from windlass.api.kind import Kind
from windlass.api.references import NamespacedRef
from windlass.api.resource import Resource
from windlass.api.selection import RuleStatus, Selection
from windlass.api.watchrule import COLUMNS

Reach = Literal["Cluster", "Namespaced"]


class ClusterSelection(Selection, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One selection of types in the whole cluster."""

    scope: Annotated[
        Reach,
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
        tuple[ClusterSelection, ...],
        Meta(
            description="What to mirror; an object is mirrored if any entry selects it. An entry "
            "with nothing but a scope selects the usual types of that scope.",
            min_length=1,
            max_length=64,
            extra=declared(list_type="atomic"),
        ),
    ]


class ClusterWatchRule(Resource, frozen=True, kw_only=True, rename="camel"):
    """Which objects of the whole cluster go to a destination."""

    spec: ClusterWatchRuleSpec
    status: RuleStatus = msgspec.field(default_factory=RuleStatus)


KIND = Kind(
    resource=ClusterWatchRule,
    plural="clusterwatchrules",
    short_names=("cwrule",),
    namespaced=False,
    columns=COLUMNS,
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
