"""WatchRule: which objects of its own namespace go to a destination."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from windlass.api.constraint import declared
from windlass.api.kind import AGE, READY, Column, Kind, objects_column
from windlass.api.references import ObjectRef
from windlass.api.resource import Resource
from windlass.api.selection import RuleStatus, Selection


class WatchRuleSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which objects, and where to."""

    destination_ref: Annotated[
        ObjectRef, Meta(description="The GitDestination that the objects go to.")
    ]
    rules: Annotated[
        tuple[Selection, ...],
        Meta(
            description="What to mirror from the namespace of this rule; an object is mirrored if "
            "any entry selects it. An empty entry ({}) selects the usual types.",
            min_length=1,
            max_length=64,
            extra=declared(list_type="atomic"),
        ),
    ]


class WatchRule(Resource, frozen=True, kw_only=True, rename="camel"):
    """Which objects of its own namespace go to a destination."""

    spec: WatchRuleSpec
    status: RuleStatus = msgspec.field(default_factory=RuleStatus)


COLUMNS = (
    Column("Destination", ".spec.destinationRef.name", "Name of the GitDestination."),
    READY,
    objects_column("How many objects this rule selects."),
    AGE,
)

KIND = Kind(
    resource=WatchRule,
    plural="watchrules",
    short_names=("wrule",),
    namespaced=True,
    columns=COLUMNS,
    description="A WatchRule says which objects of its own namespace go to a GitDestination.",
    sample={
        "metadata": {"name": "settings", "namespace": "windlass-system"},
        "spec": {
            "destinationRef": {"name": "prod"},
            "rules": [{"resources": ["configmaps", "deployments", "services"]}],
        },
    },
)
