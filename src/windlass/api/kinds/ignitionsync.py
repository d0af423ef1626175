"""IgnitionSync: brings a Git commit onto the disks of the gateways of a namespace.

The larger parts of its spec have modules of their own: where files come from
(`ignitionsync_source`), which files go where (`ignitionsync_profile`), what a sync may do at
most (`ignitionsync_policy`).

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from windlass.api.kinds.ignitionsync_policy import (
    AgentPolicy,
    DriftPolicy,
    IgnitionPolicy,
    SafetyPolicy,
)
from windlass.api.kinds.ignitionsync_profile import (
    AdditionalFileSpec,
    Globs,
    Normalize,
    ProfileName,
    ProfileSpec,
)
from windlass.api.kinds.ignitionsync_source import GatewayAccess, GitSource, Polling
from windlass.api.kinds.ignitionsync_status import IgnitionSyncStatus
from windlass.api.schema.constraint import Constraint, schema_extra
from windlass.api.schema.kind import (
    AGE_COLUMN,
    READY_COLUMN,
    Column,
    Kind,
    condition_column,
    message_column,
)
from windlass.api.schema.object_references import LabelSelector
from windlass.api.schema.resource import IGNITION, Group, Resource

FINALIZER = "ignition-sync.io/finalizer"

OWNED_PREFIX = "ignition-sync-"
"""Prefix of the names of all objects that the operator creates for an IgnitionSync."""

DEFAULT_EXCLUDES = ("**/.git/", "**/.gitkeep", "**/.resources/**")


class IgnitionSyncSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which commit, onto which gateways, and how carefully."""

    git: Annotated[GitSource, Meta(description="The repository, and which commit of it.")]
    gateway: Annotated[
        GatewayAccess, Meta(description="How the agent speaks to the gateway beside it.")
    ]
    polling: Annotated[
        Polling,
        Meta(description="How often the remote is asked.", extra=schema_extra(filled_in=True)),
    ] = Polling()
    site_number: Annotated[
        str,
        Meta(
            description="Number of the site, for templates: {{.SiteNumber}}.",
            max_length=64,
        ),
    ] = ""
    pod_selector: Annotated[
        LabelSelector | None,
        Meta(
            description="Which pods of the namespace may be gateways of this object; left out, "
            "all that ask for it."
        ),
    ] = None
    profiles: Annotated[
        Annotated[dict[ProfileName, ProfileSpec], Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="What gateways get that name a profile; the one named default is for "
            "those that name neither a profile nor a service path."
        ),
    ] = None
    additional_files: Annotated[
        tuple[AdditionalFileSpec, ...],
        Meta(
            description="Further files for gateways that use no profile, in this order.",
            max_length=128,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    exclude_patterns: Annotated[
        Globs,
        Meta(
            description="Paths on the gateway that are neither written nor deleted. .resources is "
            "always one of them."
        ),
    ] = DEFAULT_EXCLUDES
    normalize: Annotated[
        Normalize,
        Meta(
            description="What is made to fit the gateway in every config.json.",
            extra=schema_extra(filled_in=True),
        ),
    ] = Normalize()
    paused: Annotated[
        bool, Meta(description="Leave all gateways as they are until this is false again.")
    ] = False
    ignition: Annotated[
        IgnitionPolicy,
        Meta(description="What depends on Ignition itself.", extra=schema_extra(filled_in=True)),
    ] = IgnitionPolicy()
    safety: Annotated[
        SafetyPolicy,
        Meta(description="What one sync may do at most.", extra=schema_extra(filled_in=True)),
    ] = SafetyPolicy()
    drift: Annotated[
        DriftPolicy,
        Meta(
            description="What happens to files that somebody changed on the gateway.",
            extra=schema_extra(filled_in=True),
        ),
    ] = DriftPolicy()
    agent: Annotated[
        AgentPolicy,
        Meta(
            description="What the agent beside the gateway does.",
            extra=schema_extra(filled_in=True),
        ),
    ] = AgentPolicy()


class IgnitionSync(Resource, frozen=True, kw_only=True, rename="camel"):
    """Brings a Git commit onto the disks of the gateways of a namespace."""

    group: ClassVar[Group] = IGNITION
    invalid_reason: ClassVar[str] = "InvalidSpec"
    NAME_CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        Constraint(
            "size(self.metadata.name) <= 63",
            "the name of an IgnitionSync has at most 63 characters, because it becomes a label",
            lambda metadata: len(metadata.name) <= 63,
        ),
    )

    spec: IgnitionSyncSpec
    status: IgnitionSyncStatus = msgspec.field(default_factory=IgnitionSyncStatus)


KIND = Kind(
    resource=IgnitionSync,
    plural="ignitionsyncs",
    short_names=("isync", "igs"),
    namespaced=True,
    columns=(
        Column("Ref", ".status.lastSyncRef", "The ref in force."),
        condition_column("Synced", "AllGatewaysSynced", "status", "Whether all gateways have it."),
        condition_column("Gateways", "AllGatewaysSynced", "message", "How many gateways have it."),
        READY_COLUMN,
        AGE_COLUMN,
        Column("Commit", ".status.lastSyncCommitShort", "The commit of that ref.", wide=True),
        Column("Spec-Ref", ".spec.git.ref", "The ref that was asked for.", wide=True),
        message_column(wide=True),
        Column(
            "Last-Sync", ".status.lastSyncTime", "When all had reached it.", type="date", wide=True
        ),
    ),
    description="An IgnitionSync brings a Git commit onto the disks of Ignition gateways.",
    sample={
        "metadata": {"name": "site", "namespace": "site-1"},
        "spec": {
            "git": {"repo": "https://git.example.com/plant/app.git", "ref": "main"},
            "gateway": {"apiKeySecretRef": {"name": "ignition-api", "key": "apiKey"}},
        },
    },
)
