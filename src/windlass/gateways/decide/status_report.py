"""What an agent says about its gateway: the value it writes into its status ConfigMap (2.8).

Writing keeps within 2 KiB: lists go first, then long texts; who speaks, how it is and which
commit the gateway has read are never cut. Reading is total and strict: a value that is not
within the bounds of the CR's status is no report, so nothing an agent writes can keep that
status from being stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

LARGEST_BYTES = 2048
SCHEMA = 1

SyncStatus = Literal["Pending", "Syncing", "Synced", "Error", "DryRun", "Paused"]
"""How a gateway may say it is; that it has no agent only others can say."""

_READ_BYTES = 16 * 1024
_MESSAGE_CHARS = 512
_PROJECTS = 20
_HISTORY = 3

_Word = Annotated[str, Meta(max_length=64)]
_Name = Annotated[str, Meta(max_length=253)]
_Digest = Annotated[str, Meta(max_length=128)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]


class Drift(Struct, frozen=True, rename="camel"):
    """How many files differ from Git."""

    modified: _Count = 0
    missing: _Count = 0
    extra: _Count = 0


class PastSync(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One sync that ended."""

    timestamp: datetime
    commit: _Word
    result: _Word
    duration: _Word = ""


class Report(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One gateway as its agent sees it; `errorMessage` says why it is as it is."""

    schema: Annotated[int, Meta(ge=1, le=1)] = SCHEMA
    gateway: _Name
    pod_name: _Name
    pod_uid: _Word = msgspec.field(name="podUID")
    agent_version: _Word = ""
    sync_status: SyncStatus
    reason: _Word = ""
    synced_commit: _Word = ""
    profile_hash: _Digest = ""
    routing_hash: _Digest = ""
    error_message: Annotated[str, Meta(max_length=_MESSAGE_CHARS)] = ""
    synced_ref: Annotated[str, Meta(max_length=255)] = ""
    applied_commit: _Word = ""
    plan_digest: _Digest = ""
    tree_digest: _Digest = ""
    last_sync_time: datetime | None = None
    last_sync_duration: _Word = ""
    files_changed: _Count = 0
    added: _Count = 0
    modified: _Count = 0
    deleted: _Count = 0
    projects_synced: Annotated[tuple[_Name, ...], Meta(max_length=_PROJECTS)] = ()
    projects_total: _Count = 0
    last_scan_result: Annotated[str, Meta(max_length=256)] = ""
    scan_pending: bool = False
    system_name: _Name = ""
    drift: Drift | None = None
    history: Annotated[tuple[PastSync, ...], Meta(max_length=_HISTORY)] = ()
    degraded: bool = False


_decoder = msgspec.json.Decoder(Report)


def encode(report: Report) -> str:
    """The report as text of at most `LARGEST_BYTES`."""
    text = msgspec.json.encode(_within_bounds(report))
    for shorter in _shortened(_within_bounds(report)):
        if len(text) <= LARGEST_BYTES:
            break
        text = msgspec.json.encode(shorter)
    return text.decode()


def decode(text: str) -> Report | None:
    """The report in `text`; None where there is none that can be relied upon."""
    if len(text) > _READ_BYTES:
        return None
    try:
        found = _decoder.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    times = (found.last_sync_time, *(past.timestamp for past in found.history))
    return found if all(moment is None or _is_moment(moment) for moment in times) else None


def written(moment: datetime) -> str:
    """A time as it stands in a status, in whole seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _is_moment(moment: datetime) -> bool:
    """Whether a time can be told in UTC."""
    if moment.tzinfo is None:
        return False
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return False
    return True


def _within_bounds(report: Report) -> Report:
    return structs.replace(
        report,
        error_message=report.error_message[:_MESSAGE_CHARS],
        last_scan_result=report.last_scan_result[:256],
        projects_synced=report.projects_synced[:_PROJECTS],
        projects_total=max(report.projects_total, len(report.projects_synced)),
        history=report.history[:_HISTORY],
    )


def _shortened(report: Report) -> Iterator[Report]:
    """Ever shorter forms: lists, then words for people, then what others know too."""
    cuts: tuple[Callable[[Report], Report], ...] = (
        lambda one: structs.replace(one, history=()),
        lambda one: structs.replace(one, projects_synced=()),
        lambda one: structs.replace(one, last_scan_result=""),
        *[_message_cut(chars) for chars in (256, 128, 64, 0)],
        lambda one: structs.replace(one, system_name="", plan_digest="", tree_digest=""),
        lambda one: structs.replace(one, synced_ref="", drift=None, last_sync_duration=""),
    )
    for cut in cuts:
        report = cut(report)
        yield report


def _message_cut(chars: int) -> Callable[[Report], Report]:
    return lambda one: structs.replace(one, error_message=one.error_message[:chars])
