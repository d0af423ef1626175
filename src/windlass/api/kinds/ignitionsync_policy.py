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
            description="Required: a sync is done when the gateway has read the files. "
            "BestEffort: a failed scan is only a warning. Off: never called, for gateways before "
            "8.3."
        ),
    ] = "Required"
    order: Annotated[ScanOrder, Meta(description="Which scan comes first.")] = "projects-config"
    request_timeout: Annotated[
        Annotated[str, scalars.duration_between("1s", "5m")],
        Meta(description="How long one call to the gateway may take."),
    ] = "10s"
    completion_timeout: Annotated[
        Annotated[str, scalars.duration_between("1s", "1h")],
        Meta(description="How long a scan may take until it is complete."),
    ] = "60s"


class IgnitionPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What depends on Ignition itself."""

    deployment_mode_layout: Annotated[
        Literal["overlay", "native"],
        Meta(
            description="Where the files of a deployment mode go: over those of core, or into the "
            "folder of the mode, which gateways with that mode read themselves."
        ),
    ] = "overlay"
    signature_policy: Annotated[
        Literal["drop", "keep"],
        Meta(
            description="What happens to the signature in resource.json when a file beside it was "
            "changed on the way: drop lets the gateway sign anew."
        ),
    ] = "drop"
    scan: Annotated[
        ScanSpec,
        Meta(
            description="How the gateway is told to read its files.",
            extra=schema_extra(filled_in=True),
        ),
    ] = ScanSpec()


class SafetyPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one sync may do at most."""

    delete_policy: Annotated[
        DeletePolicy,
        Meta(
            description="Mirror deletes every file below a managed directory that is not in Git, "
            "Manifest only files that came from Git, Never none. A first sync deletes nothing, and "
            "files that were there before their directory was synced go only when the annotation "
            "ignition-sync.io/allow-mass-delete names the commit."
        ),
    ] = "Mirror"
    max_deletes: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)],
        Meta(description="A sync that deletes more files is held until somebody allows it."),
    ] = 1000
    max_delete_percent: Annotated[
        Annotated[int, Meta(ge=1, le=100)],
        Meta(
            description="The same for the share of managed files, from ten deleted files upwards."
        ),
    ] = 25
    max_files: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        Meta(description="How many files one gateway may get."),
    ] = 50_000
    max_file_size: Annotated[FileSize, Meta(description="Size of one file.")] = "100Mi"
    max_total_size: Annotated[FileSize, Meta(description="Size of all files of a gateway.")] = "2Gi"


class DriftPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What happens to files that somebody changed on the gateway."""

    mode: Annotated[
        DriftMode,
        Meta(
            description="Off looks away, Report counts them, Remediate brings the content of Git "
            "back."
        ),
    ] = "Report"
    interval: Annotated[
        Annotated[str, scalars.duration_between("5s", "24h")],
        Meta(description="How often size and time of every file are looked at."),
    ] = "10m"
    full_hash_interval: Annotated[
        Annotated[str, scalars.duration_between("1m", "8760h")],
        Meta(description="How often the contents of all files are compared."),
    ] = "24h"


class AgentPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the agent beside the gateway does."""

    initial_sync_policy: Annotated[
        Literal["Wait", "StartAnyway"],
        Meta(
            description="Whether a gateway without any files waits for its first sync, or starts "
            "empty when Git cannot be reached."
        ),
    ] = "Wait"
