"""The sync status of each gateway, and of all gateways of an IgnitionSync (2.5).

A gateway counts as synced only if its agent runs, the report is of this very pod, and it
names the desired commit and the hash of the routing in force. What the pod shows wins over
what its agent reported:

| the pod, then the report | status |
|---|---|
| no agent in the pod | MissingSidecar |
| the agent does not run | Error/AgentNotRunning |
| name or profile cannot be resolved | Error/NoRouting |
| its profile is paused | Paused |
| no report of this pod, or one that cannot be read | Pending |
| Synced, with another commit or routing | Pending |
| anything else | as reported |

Dry runs and paused profiles are shown, but neither waited for nor counted as synced.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass.api.kinds.ignitionsync_status import GatewayCounts, SyncStatus
from windlass.gateways.status.pod_discovery import AGENT_CONTAINER, DiscoveredGateway
from windlass.gateways.tree import selection
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire import routing as routings
from windlass.gateways.wire.agent_report import AgentReport
from windlass.gateways.wire.routing import Routing, RoutingProfile

_ABBREV = 7
_MESSAGE_CHARS = 512


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """What every gateway should have; no commit = none was found yet."""

    commit: str
    routing: Routing
    routing_hash: str


@dataclass(frozen=True, slots=True)
class GatewaySyncStatus:
    """One gateway; `counted` ones are waited for."""

    gateway: DiscoveredGateway
    status: SyncStatus
    reason: str
    message: str
    is_synced: bool
    is_dry_run: bool
    is_paused: bool
    profile: str
    profile_hash: str
    report: AgentReport | None

    @property
    def is_counted(self) -> bool:
        return not self.is_dry_run and not self.is_paused

    @property
    def is_degraded(self) -> bool:
        return self.report is not None and self.report.degraded


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """All gateways of one CR, and how many of them are how."""

    gateways: tuple[GatewaySyncStatus, ...]
    synced: int
    expected: int

    @property
    def all_synced(self) -> bool:
        return bool(self.gateways) and self.synced == self.expected

    @property
    def failing(self) -> tuple[GatewaySyncStatus, ...]:
        """Those that are waited for and will not come by themselves soon."""
        grave = ("Error", "MissingSidecar")
        return tuple(one for one in self.gateways if one.is_counted and one.status in grave)

    @property
    def missing_sidecar(self) -> tuple[str, ...]:
        """The pods that have no agent."""
        return tuple(
            one.gateway.observed_pod.name for one in self.gateways if one.status == "MissingSidecar"
        )

    @property
    def counts(self) -> GatewayCounts:
        rows = self.gateways
        return GatewayCounts(
            total=len(rows),
            synced=self.synced,
            error=sum(one.status == "Error" for one in rows),
            missing_sidecar=len(self.missing_sidecar),
            degraded=sum(one.is_degraded for one in rows),
            dry_run=sum(one.is_dry_run for one in rows),
            paused=sum(one.is_paused for one in rows),
        )

    @property
    def message(self) -> str:
        """`3/5 gateways synced (1 missing sidecar)`."""
        counts = self.counts
        shown = (
            (counts.missing_sidecar, "missing sidecar"),
            (counts.dry_run, "dry-run"),
            (counts.paused, "paused"),
            (counts.degraded, "degraded"),
        )
        extra = ", ".join(f"{number} {word}" for number, word in shown if number)
        return f"{self.synced}/{self.expected} gateways synced" + (f" ({extra})" if extra else "")


def fleet_status(
    gateways: Iterable[DiscoveredGateway],
    reports: Mapping[str, AgentReport | None],
    goal: SyncTarget,
) -> FleetStatus:
    """The standing of all; `reports` are by pod uid, None for one that cannot be read."""
    rows = tuple(gateway_sync_status(one, reports, goal) for one in gateways)
    return FleetStatus(
        gateways=rows,
        synced=sum(one.is_synced and one.is_counted for one in rows),
        expected=sum(one.is_counted for one in rows),
    )


def gateway_sync_status(
    gateway: DiscoveredGateway, reports: Mapping[str, AgentReport | None], goal: SyncTarget
) -> GatewaySyncStatus:
    """One gateway by the table above."""
    live = gateway.observed_pod
    wanted_hash = routings.hash_profile(goal.routing_hash, live.pod.annotations, live.pod.labels)
    name, profile, problem = _select_profile(gateway, goal.routing)
    report = reports.get(live.uid)
    if report is not None and report.pod_uid != live.uid:
        report = None
    is_synced = report is not None and _has_target(report, goal.commit, wanted_hash)
    status, reason, message = _resolve_status(
        gateway,
        profile,
        problem,
        report,
        goal,
        is_synced=is_synced,
        is_unreadable=live.uid in reports and report is None,
    )
    return GatewaySyncStatus(
        gateway=gateway,
        status=status,
        reason=reason,
        message=message[:_MESSAGE_CHARS],
        is_synced=is_synced and status == "Synced",
        is_dry_run=profile is not None and profile.dry_run,
        is_paused=profile is not None and profile.paused,
        profile=name,
        profile_hash=wanted_hash,
        report=report,
    )


def _select_profile(
    gateway: DiscoveredGateway, routing: Routing
) -> tuple[str, RoutingProfile | None, str]:
    """Name and profile of a gateway, or what is wrong with either."""
    if gateway.problem:
        return "", None, gateway.problem
    try:
        name, profile = selection.select_profile(routing, gateway.observed_pod.pod)
    except SyncRefused as refusal:
        return "", None, refusal.message
    return name or "", profile, ""


def _has_target(report: AgentReport, commit: str, profile_hash: str) -> bool:
    return (
        report.sync_status == "Synced"
        and bool(commit)
        and report.synced_commit == commit
        and report.profile_hash == profile_hash
    )


def _resolve_status(
    gateway: DiscoveredGateway,
    profile: RoutingProfile | None,
    problem: str,
    report: AgentReport | None,
    goal: SyncTarget,
    *,
    is_synced: bool,
    is_unreadable: bool,
) -> tuple[SyncStatus, str, str]:
    live = gateway.observed_pod
    if live.agent_state == "missing":
        text = f"the pod has no container {AGENT_CONTAINER}; add it to the pod's template"
        return "MissingSidecar", "", text
    if live.agent_state != "running":
        trouble = f" ({live.agent_problem})" if live.agent_problem else ""
        return "Error", "AgentNotRunning", f"the agent's container does not run{trouble}"
    if problem:
        return "Error", "NoRouting", problem
    if profile is not None and profile.paused:
        return "Paused", "", "the profile is paused"
    if report is None:
        words = "the agent's report cannot be read" if is_unreadable else "no report yet"
        return "Pending", "", words
    if report.sync_status == "Synced" and not is_synced:
        return "Pending", "", _lag_message(report, goal)
    return report.sync_status, report.reason, report.error_message


def _lag_message(report: AgentReport, goal: SyncTarget) -> str:
    if report.synced_commit != goal.commit:
        old, new = report.synced_commit[:_ABBREV] or "none", goal.commit[:_ABBREV] or "none"
        return f"has commit {old}, wanted is {new}"
    return "has the commit, but with an earlier routing"


def join_names(found: Sequence[GatewaySyncStatus], most: int = 5) -> str:
    """Some of the gateways by name, for a person."""
    names = [one.gateway.name for one in found]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
