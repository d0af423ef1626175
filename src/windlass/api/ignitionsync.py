"""IgnitionSync: brings a Git commit onto the disks of the gateways of a namespace."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from windlass.api.constraint import Constraint, declared
from windlass.api.group import IGNITION, Group
from windlass.api.ignitionsync_policy import AgentPolicy, DriftPolicy, Ignition, Safety
from windlass.api.ignitionsync_profile import AdditionalFile, Globs, Normalize, Profile, ProfileName
from windlass.api.ignitionsync_source import GatewayAccess, GitSource, Polling
from windlass.api.ignitionsync_status import IgnitionSyncStatus
from windlass.api.kind import AGE, READY, Column, Kind, condition_column, message_column
from windlass.api.label_selector import LabelSelector
from windlass.api.resource import Resource

FINALIZER = "ignition-sync.io/finalizer"

OWNED_PREFIX = "ignition-sync-"
"""What the names of all objects begin with that are made for an IgnitionSync."""

USUAL_EXCLUDES = ("**/.git/", "**/.gitkeep", "**/.resources/**")


class IgnitionSyncSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which commit, onto which gateways, and how carefully."""

    git: Annotated[GitSource, Meta(description="The repository, and which commit of it.")]
    gateway: Annotated[
        GatewayAccess, Meta(description="How the agent speaks to the gateway beside it.")
    ]
    polling: Annotated[
        Polling,
        Meta(description="How often the remote is asked.", extra=declared(filled_in=True)),
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
        Annotated[dict[ProfileName, Profile], Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="What gateways get that name a profile; the one named default is for "
            "those that name neither a profile nor a service path."
        ),
    ] = None
    additional_files: Annotated[
        tuple[AdditionalFile, ...],
        Meta(
            description="Further files for gateways that use no profile, in this order.",
            max_length=128,
            extra=declared(list_type="atomic"),
        ),
    ] = ()
    exclude_patterns: Annotated[
        Globs,
        Meta(
            description="Paths on the gateway that are neither written nor deleted. .resources is "
            "always one of them."
        ),
    ] = USUAL_EXCLUDES
    normalize: Annotated[
        Normalize,
        Meta(
            description="What is made to fit the gateway in every config.json.",
            extra=declared(filled_in=True),
        ),
    ] = Normalize()
    paused: Annotated[
        bool, Meta(description="Leave all gateways as they are until this is false again.")
    ] = False
    ignition: Annotated[
        Ignition,
        Meta(description="What depends on Ignition itself.", extra=declared(filled_in=True)),
    ] = Ignition()
    safety: Annotated[
        Safety,
        Meta(description="What one sync may do at most.", extra=declared(filled_in=True)),
    ] = Safety()
    drift: Annotated[
        DriftPolicy,
        Meta(
            description="What happens to files that somebody changed on the gateway.",
            extra=declared(filled_in=True),
        ),
    ] = DriftPolicy()
    agent: Annotated[
        AgentPolicy,
        Meta(
            description="What the agent beside the gateway does.",
            extra=declared(filled_in=True),
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
        READY,
        AGE,
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
