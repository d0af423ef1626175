"""The report of an agent about its gateway: the value in its status ConfigMap (2.8).

Encoding keeps within 2 KiB: lists are dropped first, then long texts; identity, sync status
and the commit the gateway has read are never cut. Decoding is total and strict: a value that
is not within the bounds of the CR's status is not a report, so nothing an agent writes can
keep that status from being stored.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

MAX_REPORT_BYTES = 2048
SCHEMA = 1

AgentSyncStatus = Literal["Pending", "Syncing", "Synced", "Error", "DryRun", "Paused"]
"""The statuses an agent can report; MissingSidecar only the controller can see."""

_MAX_READ_BYTES = 16 * 1024
_MESSAGE_CHARS = 512
_MAX_PROJECTS = 20
_MAX_HISTORY = 3

_ShortText = Annotated[str, Meta(max_length=64)]
_Name = Annotated[str, Meta(max_length=253)]
_Digest = Annotated[str, Meta(max_length=128)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]


class DriftCounts(Struct, frozen=True, rename="camel"):
    """How many files differ from Git."""

    modified: _Count = 0
    missing: _Count = 0
    extra: _Count = 0


class SyncHistoryEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One finished sync."""

    timestamp: datetime
    commit: _ShortText
    result: _ShortText
    duration: _ShortText = ""


class AgentReport(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The state of one gateway as its agent knows it; an empty text means none yet."""

    # Identity: the controller accepts a report only of the pod that still exists.
    schema: Annotated[int, Meta(ge=1, le=1)] = SCHEMA  # another one is not decoded
    gateway: _Name  # name of the gateway, by its pod's annotation
    pod_name: _Name  # also the key of the report in its ConfigMap
    pod_uid: _ShortText = msgspec.field(name="podUID")  # a new pod of the same name has another
    agent_version: _ShortText = ""  # version of windlass in the sidecar
    # The sync status, by which the gateway is counted.
    sync_status: AgentSyncStatus
    reason: _ShortText = ""  # CamelCase cause of an Error
    synced_commit: _ShortText = ""  # written to the volume and read by the gateway
    profile_hash: _Digest = ""  # of the routing, annotations and labels that were applied
    routing_hash: _Digest = ""  # of the CR's routing alone
    error_message: Annotated[str, Meta(max_length=_MESSAGE_CHARS)] = ""  # explains the status
    # The last sync.
    synced_ref: Annotated[str, Meta(max_length=255)] = ""  # ref that led to `synced_commit`
    applied_commit: _ShortText = ""  # written to the volume, perhaps not read yet
    plan_digest: _Digest = ""  # of the last plan, also of a dry run
    tree_digest: _Digest = ""  # of the managed files on the volume
    last_sync_time: datetime | None = None  # wall clock with time zone; None before the first
    last_sync_duration: _ShortText = ""  # such as `2.5s`
    files_changed: _Count = 0  # files written or deleted by the last sync
    added: _Count = 0  # of these: created
    modified: _Count = 0  # of these: replaced
    deleted: _Count = 0  # of these: removed
    projects_synced: Annotated[tuple[_Name, ...], Meta(max_length=_MAX_PROJECTS)] = ()  # first 20
    projects_total: _Count = 0  # how many there are in all
    # The gateway itself.
    last_scan_result: Annotated[str, Meta(max_length=256)] = ""  # the gateway's answers to scans
    scan_pending: bool = False  # files are written, but the gateway did not read them yet
    system_name: _Name = ""  # systemName that the routing sets; empty if it sets none
    drift: DriftCounts | None = None  # None while drift was never checked
    history: Annotated[tuple[SyncHistoryEntry, ...], Meta(max_length=_MAX_HISTORY)] = ()  # newest
    degraded: bool = False  # runs on older files because the source is unavailable


_decoder = msgspec.json.Decoder(AgentReport)


def encode(report: AgentReport) -> str:
    """The report as text of at most `MAX_REPORT_BYTES`."""
    text = msgspec.json.encode(_clamp(report))
    for shorter in _shorter_forms(_clamp(report)):
        if len(text) <= MAX_REPORT_BYTES:
            break
        text = msgspec.json.encode(shorter)
    return text.decode()


def decode(text: str) -> AgentReport | None:
    """The report in `text`; None if it is not valid."""
    if len(text) > _MAX_READ_BYTES:
        return None
    try:
        report = _decoder.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    times = (report.last_sync_time, *(past.timestamp for past in report.history))
    return report if all(time is None or _is_utc_convertible(time) for time in times) else None


def format_time(time: datetime) -> str:
    """A time in RFC 3339 with UTC and whole seconds, as in the status of a CR."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _is_utc_convertible(time: datetime) -> bool:
    """Whether a time has a time zone and stays within the years of datetime in UTC."""
    if time.tzinfo is None:
        return False
    try:
        time.astimezone(UTC)
    except OverflowError:
        return False
    return True


def _clamp(report: AgentReport) -> AgentReport:
    return structs.replace(
        report,
        error_message=report.error_message[:_MESSAGE_CHARS],
        last_scan_result=report.last_scan_result[:256],
        projects_synced=report.projects_synced[:_MAX_PROJECTS],
        projects_total=max(report.projects_total, len(report.projects_synced)),
        history=report.history[:_MAX_HISTORY],
    )


def _shorter_forms(report: AgentReport) -> Iterator[AgentReport]:
    """Ever shorter forms: without lists, then texts for users, then what others know, too."""
    cuts: tuple[Callable[[AgentReport], AgentReport], ...] = (
        lambda draft: structs.replace(draft, history=()),
        lambda draft: structs.replace(draft, projects_synced=()),
        lambda draft: structs.replace(draft, last_scan_result=""),
        *[_cut_message(chars) for chars in (256, 128, 64, 0)],
        lambda draft: structs.replace(draft, system_name="", plan_digest="", tree_digest=""),
        lambda draft: structs.replace(draft, synced_ref="", drift=None, last_sync_duration=""),
    )
    for cut in cuts:
        report = cut(report)
        yield report


def _cut_message(chars: int) -> Callable[[AgentReport], AgentReport]:
    return lambda draft: structs.replace(draft, error_message=draft.error_message[:chars])
