"""Status of an IgnitionSync: the commit in force, and how far each gateway is.

Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.schema.constraint import schema_extra
from windlass.api.schema.resource import Count, ResourceStatus

CloneState = Literal["NotCloned", "Cloning", "Cloned", "Error"]
SyncStatus = Literal["Pending", "Syncing", "Synced", "Error", "MissingSidecar", "DryRun", "Paused"]

CommitId = Annotated[str, Meta(max_length=64)]
ShortText = Annotated[str, Meta(max_length=64)]
NameText = Annotated[str, Meta(max_length=253)]


class SourceStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the repository is reached."""

    canonical_url: Annotated[
        str,
        Meta(
            description="The repository in canonical form, without credentials. Objects with the "
            "same value here share one question to the remote.",
            max_length=2048,
        ),
    ] = msgspec.field(default="", name="canonicalURL")
    cause: Annotated[
        ShortText, Meta(description="Why it cannot be reached, as one word; empty if it can.")
    ] = ""


class GatewayCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """Counts of gateways by state."""

    total: Annotated[Count, Meta(description="All of them.")] = 0
    synced: Annotated[Count, Meta(description="Those that have the wished commit.")] = 0
    error: Annotated[Count, Meta(description="Those that report an error.")] = 0
    missing_sidecar: Annotated[Count, Meta(description="Those without an agent.")] = 0
    degraded: Annotated[Count, Meta(description="Those that run on older files.")] = 0
    dry_run: Annotated[Count, Meta(description="Those that only plan.")] = 0
    paused: Annotated[Count, Meta(description="Those that their profile pauses.")] = 0


class DriftStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many files differ from Git."""

    modified: Annotated[Count, Meta(description="Files with another content.")] = 0
    missing: Annotated[Count, Meta(description="Files that are gone.")] = 0
    extra: Annotated[Count, Meta(description="Files that are not from Git.")] = 0


class PastSyncStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One sync that ended."""

    timestamp: Annotated[datetime, Meta(description="When it ended.")]
    commit: Annotated[CommitId, Meta(description="The commit it brought.")]
    result: Annotated[ShortText, Meta(description="How it ended.")]
    duration: Annotated[ShortText, Meta(description="How long it took.")] = ""


class GatewayStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One gateway."""

    name: Annotated[NameText, Meta(description="Name of the gateway.")]
    namespace: Annotated[NameText, Meta(description="Namespace of its pod.")] = ""
    pod_name: Annotated[NameText, Meta(description="Name of its pod.")]
    pod_uid: Annotated[ShortText, Meta(description="Identity of its pod.")] = msgspec.field(
        default="", name="podUID"
    )
    service_path: Annotated[
        str, Meta(description="Directory of the repository it is made from.", max_length=512)
    ] = ""
    profile: Annotated[ShortText, Meta(description="Profile it is made from.")] = ""
    sync_status: Annotated[SyncStatus, Meta(description="How it is.")]
    reason: Annotated[ShortText, Meta(description="Why, as one word.")] = ""
    message: Annotated[str, Meta(description="Why, for people.", max_length=512)] = ""
    synced_commit: Annotated[
        CommitId, Meta(description="The commit whose files the gateway has read.")
    ] = ""
    synced_ref: Annotated[str, Meta(description="The ref it came from.", max_length=255)] = ""
    applied_commit: Annotated[
        CommitId, Meta(description="The commit whose files lie on its disk.")
    ] = ""
    profile_hash: Annotated[
        str, Meta(description="Digest of the routing that was applied.", max_length=128)
    ] = ""
    last_sync_time: Annotated[datetime | None, Meta(description="When its last sync ended.")] = None
    last_sync_duration: Annotated[ShortText, Meta(description="How long that took.")] = ""
    last_scan_result: Annotated[
        str, Meta(description="What the gateway answered to the scans.", max_length=256)
    ] = ""
    files_changed: Annotated[Count, Meta(description="Files that the last sync changed.")] = 0
    projects_synced: Annotated[
        tuple[Annotated[str, Meta(max_length=253)], ...],
        Meta(
            description="Up to twenty projects on the gateway that come from Git.",
            max_length=20,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    system_name: Annotated[NameText, Meta(description="The systemName that was set.")] = ""
    drift: Annotated[DriftStatus | None, Meta(description="How many files differ from Git.")] = None
    degraded: Annotated[
        bool | None,
        Meta(description="Whether it runs on older files because a source is unavailable."),
    ] = None
    agent_version: Annotated[ShortText, Meta(description="Version of its agent.")] = ""
    sync_history: Annotated[
        tuple[PastSyncStatus, ...],
        Meta(
            description="Up to five syncs, newest first.",
            max_length=5,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()


class IgnitionSyncStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """What Git has, and how far each gateway is."""

    last_sync_ref: Annotated[str, Meta(description="The ref in force.", max_length=255)] = ""
    last_sync_commit: Annotated[CommitId, Meta(description="The commit of that ref.")] = ""
    last_sync_commit_short: Annotated[CommitId, Meta(description="Its first seven digits.")] = ""
    last_sync_time: Annotated[
        datetime | None, Meta(description="When all gateways had reached a new commit.")
    ] = None
    repo_clone_status: Annotated[
        CloneState | None,
        Meta(
            description="Whether the ref is found: not yet, being looked for, found, or not to be "
            "had."
        ),
    ] = None
    source: Annotated[SourceStatus | None, Meta(description="How the repository is reached.")] = (
        None
    )
    gateway_counts: Annotated[
        GatewayCounts | None, Meta(description="How many gateways there are, by how they are.")
    ] = None
    discovered_gateways: Annotated[
        tuple[GatewayStatus, ...],
        Meta(
            description="Up to 256 gateways.",
            max_length=256,
            extra=schema_extra(list_type="map", keys=("podName",)),
        ),
    ] = ()
