"""Which events a pass is worth: what changed since the status that is stored.

Each notice carries the transition it tells of. The recorder makes the event's name from
it, so a pass that is repeated, or a second controller, tells nothing twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.api.kinds.ignitionsync_status import DriftStatus, GatewayStatus, IgnitionSyncStatus
from windlass.gateways.decide.gateway_rows import MOST_SHOWN
from windlass.gateways.decide.metadata import Source
from windlass.gateways.decide.report import ALL_SYNCED
from windlass.gateways.decide.standing import Standing, Tally
from windlass.gateways.decide.status_report import Drift
from windlass.git.format.refs import ResolvedRef
from windlass.runtime.outcome import READY, Weight

_SHORT = 12
_SHOWN = 5
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?=s$)")
_REASONS: dict[str, Weight] = {
    "MassDeleteGuard": "Warning",
    "ScanUnauthorized": "Warning",
    "DriftRemediated": "Normal",
}
"""Reasons of single gateways that are worth an event of their own."""


@dataclass(frozen=True, slots=True)
class Telling:
    """One event; `transition` says which one time it is about."""

    weight: Weight
    reason: str
    message: str
    transition: str


@dataclass(frozen=True, slots=True)
class Moment:
    """What was stored before a pass, and what the pass found."""

    version: str
    generation: int
    status: IgnitionSyncStatus
    before: Source | None
    source: Source | None
    resolution: ResolvedRef | None
    tally: Tally | None
    is_paused: bool


def tellings(moment: Moment) -> tuple[Telling, ...]:
    """The events of one pass."""
    return (
        *_of_ref(moment),
        *_of_gateways(moment),
        *_of_single_gateways(moment),
        *_of_pause(moment),
    )


def _of_ref(moment: Moment) -> Iterator[Telling]:
    before, now, found = moment.before, moment.source, moment.resolution
    if found is not None and found.ambiguous is not None:
        (tag, tagged), (branch, tip) = found.ambiguous
        text = f"{tag} ({tagged[:_SHORT]}) is used; {branch} ({tip[:_SHORT]}) has the same name"
        yield Telling("Warning", "AmbiguousRef", text, f"ambiguous {moment.generation} {tag}")
    if before is None or now is None or before.commit == now.commit:
        return
    same_ref = (before.ref, before.git_url) == (now.ref, now.git_url)
    moved = same_ref and found is not None and found.kind == "tag"
    text = f"{now.ref}: {before.commit[:_SHORT]} -> {now.commit[:_SHORT]}"
    yield Telling(
        "Warning" if moved else "Normal",
        "TagMoved" if moved else "RefUpdated",
        text,
        f"{before.commit} {now.commit} {moment.version}",
    )


def _of_gateways(moment: Moment) -> Iterator[Telling]:
    tally, status = moment.tally, moment.status
    if tally is None:
        return
    was = status.gateway_counts.total if status.gateway_counts is not None else 0
    if was != len(tally.standings):
        text = f"{len(tally.standings)} gateways (was {was})"
        yield Telling("Normal", "GatewaysDiscovered", text, moment.version)
    known = {
        row.pod_uid for row in status.discovered_gateways if row.sync_status == "MissingSidecar"
    }
    missing = [one for one in tally.standings if one.status == "MissingSidecar"]
    fresh = [one.gateway.live for one in missing if one.gateway.live.uid not in known]
    if fresh:
        names = ", ".join(pod.name for pod in fresh[:_SHOWN])
        more = f" and {len(fresh) - _SHOWN} more" if len(fresh) > _SHOWN else ""
        uids = " ".join(pod.uid for pod in fresh)
        yield Telling("Warning", "MissingSidecar", f"without an agent: {names}{more}", uids)
    row = status.condition(ALL_SYNCED)
    if tally.all_synced and tally.wanted and (row is None or row.status != "True"):
        text = f"{tally.message}: {_work(tally)}"
        yield Telling("Normal", "SyncCompleted", text, f"completed {moment.version}")


def _work(tally: Tally) -> str:
    """What the last syncs of all gateways came to together."""
    said = [one.report for one in tally.standings if one.counted and one.report is not None]
    files = sum(report.files_changed for report in said)
    scans = sorted({report.last_scan_result for report in said if report.last_scan_result})
    times = [_SECONDS.match(report.last_sync_duration) for report in said]
    longest = max((float(found[0]) for found in times if found is not None), default=0.0)
    shown = ", ".join(scans[:_SHOWN]) or "none"
    return f"{files} files, scan {shown}, at most {longest:g} s"


def _of_single_gateways(moment: Moment) -> Iterator[Telling]:
    """What came over single gateways; only of those that the status has room for."""
    before = {row.pod_uid: row for row in moment.status.discovered_gateways}
    shown = moment.tally.standings[:MOST_SHOWN] if moment.tally is not None else ()
    for one in shown:
        row = before.get(one.gateway.live.uid)
        yield from _of_reason(one, row, moment.version)
        yield from _of_drift(one, row, moment.version)


def _of_reason(one: Standing, row: GatewayStatus | None, version: str) -> Iterator[Telling]:
    weight = _REASONS.get(one.reason)
    if weight is not None and (row is None or row.reason != one.reason):
        text = f"{one.gateway.name}: {one.message}" if one.message else one.gateway.name
        yield Telling(weight, one.reason, text, f"{one.gateway.live.uid} {version}")


def _of_drift(one: Standing, row: GatewayStatus | None, version: str) -> Iterator[Telling]:
    """DRF-1: a warning when files begin to differ, and a word when none does any more."""
    now = one.report.drift if one.report is not None else None
    if now is None:
        return
    was, found = _differing(row.drift if row is not None else None), _differing(now)
    transition = f"drift {one.gateway.live.uid} {version}"
    if found and not was:
        text = f"{one.gateway.name}: {now.modified} modified, {now.missing} missing, "
        text += f"{now.extra} extra"
        yield Telling("Warning", "GatewayFilesModified", text, transition)
    elif was and not found:
        text = f"{one.gateway.name}: no file differs from Git any more"
        yield Telling("Normal", "GatewayFilesModified", text, transition)


def _differing(drift: Drift | DriftStatus | None) -> int:
    return drift.modified + drift.missing + drift.extra if drift is not None else 0


def _of_pause(moment: Moment) -> Iterator[Telling]:
    ready = moment.status.condition(READY)
    if not moment.is_paused and ready is not None and ready.reason == "Paused":
        yield Telling("Normal", "Resumed", "gateways are synced again", f"resumed {moment.version}")
