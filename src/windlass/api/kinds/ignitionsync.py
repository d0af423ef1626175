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

    git: Annotated[GitSource, Meta(description="Git repository and the commit to sync.")]
    gateway: Annotated[
        GatewayAccess, Meta(description="How the agent connects to the gateway in its pod.")
    ]
    polling: Annotated[
        Polling,
        Meta(description="How often the remote is polled.", extra=schema_extra(filled_in=True)),
    ] = Polling()
    site_number: Annotated[
        str,
        Meta(
            description="Site number, available in templates as {{.SiteNumber}}.",
            max_length=64,
        ),
    ] = ""
    pod_selector: Annotated[
        LabelSelector | None,
        Meta(
            description="Restricts which annotated pods of the namespace are gateways of this "
            "object. Default: all of them."
        ),
    ] = None
    profiles: Annotated[
        Annotated[dict[ProfileName, ProfileSpec], Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="Named sets of mappings that a gateway pod selects by annotation. The "
            "profile named default applies to gateways that select neither a profile nor a "
            "service path."
        ),
    ] = None
    additional_files: Annotated[
        tuple[AdditionalFileSpec, ...],
        Meta(
            description="Additional files for gateways without a profile, applied in this order.",
            max_length=128,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    exclude_patterns: Annotated[
        Globs,
        Meta(
            description="Paths on the gateway that are neither written nor deleted. .resources "
            "is always excluded."
        ),
    ] = DEFAULT_EXCLUDES
    normalize: Annotated[
        Normalize,
        Meta(
            description="Values to set in every config.json for each gateway.",
            extra=schema_extra(filled_in=True),
        ),
    ] = Normalize()
    paused: Annotated[
        bool, Meta(description="Stops syncing; all gateways are left unchanged while this is true.")
    ] = False
    ignition: Annotated[
        IgnitionPolicy,
        Meta(description="Ignition-specific behavior.", extra=schema_extra(filled_in=True)),
    ] = IgnitionPolicy()
    safety: Annotated[
        SafetyPolicy,
        Meta(description="Limits of a sync.", extra=schema_extra(filled_in=True)),
    ] = SafetyPolicy()
    drift: Annotated[
        DriftPolicy,
        Meta(
            description="How changes of synced files on the gateway are handled.",
            extra=schema_extra(filled_in=True),
        ),
    ] = DriftPolicy()
    agent: Annotated[
        AgentPolicy,
        Meta(
            description="Settings of the agent.",
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
            "metadata.name must have at most 63 characters, because it is used as a label value",
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
        Column("Ref", ".status.lastSyncRef", "Ref that is synced."),
        condition_column(
            "Synced", "AllGatewaysSynced", "status", "Whether all gateways are synced."
        ),
        condition_column("Gateways", "AllGatewaysSynced", "message", "Number of synced gateways."),
        READY_COLUMN,
        AGE_COLUMN,
        Column("Commit", ".status.lastSyncCommitShort", "Commit of the ref.", wide=True),
        Column("Spec-Ref", ".spec.git.ref", "Ref in the spec.", wide=True),
        message_column(wide=True),
        Column(
            "Last-Sync",
            ".status.lastSyncTime",
            "When all gateways were synced to a new commit.",
            type="date",
            wide=True,
        ),
    ),
    description="An IgnitionSync syncs files of a Git commit to Ignition gateways.",
    sample={
        "metadata": {"name": "site", "namespace": "site-1"},
        "spec": {
            "git": {"repo": "https://git.example.com/plant/app.git", "ref": "main"},
            "gateway": {"apiKeySecretRef": {"name": "ignition-api", "key": "apiKey"}},
        },
    },
)
