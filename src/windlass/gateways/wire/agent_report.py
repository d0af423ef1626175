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
"""How a gateway may say it is; that it has no agent only others can say."""

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
    """One sync that ended."""

    timestamp: datetime
    commit: _ShortText
    result: _ShortText
    duration: _ShortText = ""


class AgentReport(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One gateway as its agent sees it; `errorMessage` says why it is as it is."""

    schema: Annotated[int, Meta(ge=1, le=1)] = SCHEMA
    gateway: _Name
    pod_name: _Name
    pod_uid: _ShortText = msgspec.field(name="podUID")
    agent_version: _ShortText = ""
    sync_status: AgentSyncStatus
    reason: _ShortText = ""
    synced_commit: _ShortText = ""
    profile_hash: _Digest = ""
    routing_hash: _Digest = ""
    error_message: Annotated[str, Meta(max_length=_MESSAGE_CHARS)] = ""
    synced_ref: Annotated[str, Meta(max_length=255)] = ""
    applied_commit: _ShortText = ""
    plan_digest: _Digest = ""
    tree_digest: _Digest = ""
    last_sync_time: datetime | None = None
    last_sync_duration: _ShortText = ""
    files_changed: _Count = 0
    added: _Count = 0
    modified: _Count = 0
    deleted: _Count = 0
    projects_synced: Annotated[tuple[_Name, ...], Meta(max_length=_MAX_PROJECTS)] = ()
    projects_total: _Count = 0
    last_scan_result: Annotated[str, Meta(max_length=256)] = ""
    scan_pending: bool = False
    system_name: _Name = ""
    drift: DriftCounts | None = None
    history: Annotated[tuple[SyncHistoryEntry, ...], Meta(max_length=_MAX_HISTORY)] = ()
    degraded: bool = False


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
    """The report in `text`; None where there is none that can be relied upon."""
    if len(text) > _MAX_READ_BYTES:
        return None
    try:
        found = _decoder.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    times = (found.last_sync_time, *(past.timestamp for past in found.history))
    return found if all(moment is None or _is_utc_convertible(moment) for moment in times) else None


def format_time(moment: datetime) -> str:
    """A time as it stands in a status, in whole seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _is_utc_convertible(moment: datetime) -> bool:
    """Whether a time can be told in UTC."""
    if moment.tzinfo is None:
        return False
    try:
        moment.astimezone(UTC)
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
    """Ever shorter forms: lists, then words for people, then what others know too."""
    cuts: tuple[Callable[[AgentReport], AgentReport], ...] = (
        lambda one: structs.replace(one, history=()),
        lambda one: structs.replace(one, projects_synced=()),
        lambda one: structs.replace(one, last_scan_result=""),
        *[_cut_message(chars) for chars in (256, 128, 64, 0)],
        lambda one: structs.replace(one, system_name="", plan_digest="", tree_digest=""),
        lambda one: structs.replace(one, synced_ref="", drift=None, last_sync_duration=""),
    )
    for cut in cuts:
        report = cut(report)
        yield report


def _cut_message(chars: int) -> Callable[[AgentReport], AgentReport]:
    return lambda one: structs.replace(one, error_message=one.error_message[:chars])
