"""Part of the IgnitionSync spec: limits of a sync, scans, drift, the first start.

Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.api.schema import scalars
from windlass.api.schema.constraint import schema_extra

ScanMode = Literal["Required", "BestEffort", "Off"]
ScanOrder = Literal["projects-config", "config-projects"]
DeletePolicy = Literal["Mirror", "Manifest", "Never"]
DriftMode = Literal["Off", "Report", "Remediate"]

FileSize = Annotated[str, Meta(max_length=11, pattern="^[1-9][0-9]{0,8}(Ki|Mi|Gi|Ti)?$")]
"""A number of bytes, such as 100Mi."""


class ScanSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the gateway is made to read its files."""

    mode: Annotated[
        ScanMode,
        Meta(
            description="Required: a sync is complete when the gateway has scanned the files. "
            "BestEffort: a failed scan is only a warning. Off: no scans, for gateways before "
            "8.3."
        ),
    ] = "Required"
    order: Annotated[ScanOrder, Meta(description="Order of the scans.")] = "projects-config"
    request_timeout: Annotated[
        Annotated[str, scalars.duration_between("1s", "5m")],
        Meta(description="Timeout of one request to the gateway."),
    ] = "10s"
    completion_timeout: Annotated[
        Annotated[str, scalars.duration_between("1s", "1h")],
        Meta(description="Timeout for the completion of a scan."),
    ] = "60s"


class IgnitionPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What depends on Ignition itself."""

    deployment_mode_layout: Annotated[
        Literal["overlay", "native"],
        Meta(
            description="Where the files of a deployment mode are written: overlay writes them "
            "over those of core, native into the collection of the mode, which is read by "
            "gateways started in that mode."
        ),
    ] = "overlay"
    signature_policy: Annotated[
        Literal["drop", "keep"],
        Meta(
            description="What happens to the signature in resource.json when a sync changes a "
            "file beside it: drop removes it, so the gateway signs again; keep leaves it."
        ),
    ] = "drop"
    scan: Annotated[
        ScanSpec,
        Meta(
            description="How the gateway scans its files after a sync.",
            extra=schema_extra(filled_in=True),
        ),
    ] = ScanSpec()


class SafetyPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one sync may do at most."""

    delete_policy: Annotated[
        DeletePolicy,
        Meta(
            description="Mirror deletes every file below a managed directory that is not in Git, "
            "Manifest only files that came from Git, Never none. A first sync deletes "
            "nothing. Files that existed before their directory was synced are deleted only "
            "when the gateway has asked about them and the annotation "
            "ignition-sync.io/allow-mass-delete is set to the commit afterwards."
        ),
    ] = "Mirror"
    max_deletes: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)],
        Meta(
            description="Maximum number of files that a sync may delete; a sync that deletes "
            "more is held until it is allowed."
        ),
    ] = 1000
    max_delete_percent: Annotated[
        Annotated[int, Meta(ge=1, le=100)],
        Meta(
            description="Maximum percentage of managed files that a sync may delete; checked "
            "from ten deleted files."
        ),
    ] = 25
    max_files: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        Meta(description="Maximum number of files of a gateway."),
    ] = 50_000
    max_file_size: Annotated[FileSize, Meta(description="Maximum size of a file.")] = "100Mi"
    max_total_size: Annotated[
        FileSize, Meta(description="Maximum total size of the files of a gateway.")
    ] = "2Gi"


class DriftPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What happens to files that somebody changed on the gateway."""

    mode: Annotated[
        DriftMode,
        Meta(
            description="Off: changes are not detected. Report: changes are counted in the "
            "status. Remediate: the content of Git is restored."
        ),
    ] = "Report"
    interval: Annotated[
        Annotated[str, scalars.duration_between("5s", "24h")],
        Meta(description="How often the size and modification time of every file are checked."),
    ] = "10m"
    full_hash_interval: Annotated[
        Annotated[str, scalars.duration_between("1m", "8760h")],
        Meta(description="How often the content of every file is checked."),
    ] = "24h"


class AgentPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the agent beside the gateway does."""

    initial_sync_policy: Annotated[
        Literal["Wait", "StartAnyway"],
        Meta(
            description="What happens when a gateway without files starts: Wait holds it until "
            "its first sync succeeds, StartAnyway lets it start empty when the first attempt "
            "fails."
        ),
    ] = "Wait"
