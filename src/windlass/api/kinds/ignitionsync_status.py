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
            description="URL of the repository in canonical form, without credentials. Objects "
            "with the same value share polls of the remote.",
            max_length=2048,
        ),
    ] = msgspec.field(default="", name="canonicalURL")
    cause: Annotated[
        ShortText, Meta(description="Reason why the repository cannot be read; empty if it can.")
    ] = ""


class GatewayCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """Counts of gateways by state."""

    total: Annotated[Count, Meta(description="All gateways.")] = 0
    synced: Annotated[Count, Meta(description="Gateways with the desired commit.")] = 0
    error: Annotated[Count, Meta(description="Gateways that report an error.")] = 0
    missing_sidecar: Annotated[Count, Meta(description="Gateways without an agent container.")] = 0
    degraded: Annotated[
        Count, Meta(description="Gateways that run on older files because a source is unavailable.")
    ] = 0
    dry_run: Annotated[Count, Meta(description="Gateways in dry run.")] = 0
    paused: Annotated[Count, Meta(description="Gateways whose profile is paused.")] = 0


class DriftStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many files differ from Git."""

    modified: Annotated[Count, Meta(description="Files with different content.")] = 0
    missing: Annotated[Count, Meta(description="Missing files.")] = 0
    extra: Annotated[Count, Meta(description="Files that are not in Git.")] = 0


class PastSyncStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One sync that ended."""

    timestamp: Annotated[datetime, Meta(description="When the sync ended.")]
    commit: Annotated[CommitId, Meta(description="Commit that was synced.")]
    result: Annotated[ShortText, Meta(description="Result of the sync.")]
    duration: Annotated[ShortText, Meta(description="Duration of the sync.")] = ""


class GatewayStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One gateway."""

    name: Annotated[NameText, Meta(description="Name of the gateway.")]
    namespace: Annotated[NameText, Meta(description="Namespace of its pod.")] = ""
    pod_name: Annotated[NameText, Meta(description="Name of its pod.")]
    pod_uid: Annotated[ShortText, Meta(description="UID of its pod.")] = msgspec.field(
        default="", name="podUID"
    )
    service_path: Annotated[
        str,
        Meta(
            description="Directory in the repository that is synced to the gateway.", max_length=512
        ),
    ] = ""
    profile: Annotated[ShortText, Meta(description="Profile that the gateway uses.")] = ""
    sync_status: Annotated[SyncStatus, Meta(description="Sync status of the gateway.")]
    reason: Annotated[ShortText, Meta(description="Reason for the sync status.")] = ""
    message: Annotated[
        str,
        Meta(
            description="Human-readable explanation of the sync status, or warnings of a sync.",
            max_length=512,
        ),
    ] = ""
    synced_commit: Annotated[
        CommitId, Meta(description="Commit whose files the gateway has scanned.")
    ] = ""
    synced_ref: Annotated[str, Meta(description="Ref of that commit.", max_length=255)] = ""
    applied_commit: Annotated[CommitId, Meta(description="Commit whose files are on its disk.")] = (
        ""
    )
    profile_hash: Annotated[
        str, Meta(description="Hash of the routing that was applied.", max_length=128)
    ] = ""
    last_sync_time: Annotated[datetime | None, Meta(description="When its last sync ended.")] = None
    last_sync_duration: Annotated[ShortText, Meta(description="Duration of its last sync.")] = ""
    last_scan_result: Annotated[
        str, Meta(description="Result of the last scans.", max_length=256)
    ] = ""
    files_changed: Annotated[
        Count, Meta(description="Number of files that the last sync changed.")
    ] = 0
    projects_synced: Annotated[
        tuple[Annotated[str, Meta(max_length=253)], ...],
        Meta(
            description="Up to 20 projects on the gateway that are synced from Git.",
            max_length=20,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    system_name: Annotated[NameText, Meta(description="systemName that was set.")] = ""
    drift: Annotated[
        DriftStatus | None, Meta(description="Number of files that differ from Git.")
    ] = None
    degraded: Annotated[
        bool | None,
        Meta(description="Whether it runs on older files because a source is unavailable."),
    ] = None
    agent_version: Annotated[ShortText, Meta(description="Version of its agent.")] = ""
    sync_history: Annotated[
        tuple[PastSyncStatus, ...],
        Meta(
            description="The last five syncs, newest first.",
            max_length=5,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()


class IgnitionSyncStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """What Git has, and how far each gateway is."""

    last_sync_ref: Annotated[str, Meta(description="Ref that is synced.", max_length=255)] = ""
    last_sync_commit: Annotated[CommitId, Meta(description="Commit of the ref.")] = ""
    last_sync_commit_short: Annotated[
        CommitId, Meta(description="First seven characters of the commit.")
    ] = ""
    last_sync_time: Annotated[
        datetime | None, Meta(description="When all gateways were last synced to a new commit.")
    ] = None
    repo_clone_status: Annotated[
        CloneState | None,
        Meta(description="Whether the ref was resolved: NotCloned, Cloning, Cloned, or Error."),
    ] = None
    source: Annotated[SourceStatus | None, Meta(description="Access to the repository.")] = None
    gateway_counts: Annotated[
        GatewayCounts | None, Meta(description="Number of gateways by status.")
    ] = None
    discovered_gateways: Annotated[
        tuple[GatewayStatus, ...],
        Meta(
            description="Up to 256 gateways, by name.",
            max_length=256,
            extra=schema_extra(list_type="map", keys=("podName",)),
        ),
    ] = ()
