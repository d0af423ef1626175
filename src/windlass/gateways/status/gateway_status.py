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
_MAX_NAMES = 5
_MESSAGE_CHARS = 512


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """What every gateway should have."""

    commit: str  # empty until a commit was resolved
    routing: Routing
    routing_hash: str


@dataclass(frozen=True, slots=True)
class GatewaySyncStatus:
    """The sync status of one gateway, by the table above."""

    gateway: DiscoveredGateway
    status: SyncStatus
    reason: str  # CamelCase cause of an Error; empty for most other statuses
    message: str  # at most 512 characters; empty where there is nothing to explain
    is_synced: bool  # has the desired commit and profile hash
    is_dry_run: bool  # its profile only reports what a sync would do
    is_paused: bool  # its profile is paused
    profile: str  # name of the selected profile; empty if there is none
    report: AgentReport | None  # of this very pod; None if there is none that is valid

    @property
    def is_counted(self) -> bool:
        """Whether Ready waits for this gateway."""
        return not self.is_dry_run and not self.is_paused

    @property
    def is_degraded(self) -> bool:
        return self.report is not None and self.report.degraded


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The sync status of all gateways of one CR."""

    gateways: tuple[GatewaySyncStatus, ...]
    synced: int  # how many of the counted gateways are synced
    expected: int  # how many gateways are counted

    @property
    def all_synced(self) -> bool:
        return bool(self.gateways) and self.synced == self.expected

    @property
    def failing(self) -> tuple[GatewaySyncStatus, ...]:
        """Counted gateways that will most likely not be synced without a change."""
        failing_statuses = ("Error", "MissingSidecar")
        return tuple(
            member
            for member in self.gateways
            if member.is_counted and member.status in failing_statuses
        )

    @property
    def missing_sidecar(self) -> tuple[str, ...]:
        """Names of the pods without an agent container."""
        return tuple(
            member.gateway.observed_pod.name
            for member in self.gateways
            if member.status == "MissingSidecar"
        )

    @property
    def counts(self) -> GatewayCounts:
        rows = self.gateways
        return GatewayCounts(
            total=len(rows),
            synced=self.synced,
            error=sum(member.status == "Error" for member in rows),
            missing_sidecar=len(self.missing_sidecar),
            degraded=sum(member.is_degraded for member in rows),
            dry_run=sum(member.is_dry_run for member in rows),
            paused=sum(member.is_paused for member in rows),
        )

    @property
    def message(self) -> str:
        """`3 of 5 gateways synced (1 missing sidecar)`."""
        counts = self.counts
        counted = (
            (counts.missing_sidecar, "missing sidecar"),
            (counts.dry_run, "dry-run"),
            (counts.paused, "paused"),
            (counts.degraded, "degraded"),
        )
        extra = ", ".join(f"{number} {word}" for number, word in counted if number)
        return f"{self.synced} of {self.expected} gateways synced" + (
            f" ({extra})" if extra else ""
        )


def fleet_status(
    gateways: Iterable[DiscoveredGateway],
    reports: Mapping[str, AgentReport | None],
    target: SyncTarget,
) -> FleetStatus:
    """The status of all gateways; `reports` are by pod uid, None for an invalid one."""
    members = tuple(gateway_sync_status(gateway, reports, target) for gateway in gateways)
    return FleetStatus(
        gateways=members,
        synced=sum(member.is_synced and member.is_counted for member in members),
        expected=sum(member.is_counted for member in members),
    )


def gateway_sync_status(
    gateway: DiscoveredGateway, reports: Mapping[str, AgentReport | None], target: SyncTarget
) -> GatewaySyncStatus:
    """The status of one gateway, by the table above; `reports` are by pod uid."""
    observed = gateway.observed_pod
    desired_hash = routings.hash_profile(
        target.routing_hash, observed.pod.annotations, observed.pod.labels
    )
    name, profile, problem = _select_profile(gateway, target.routing)
    report = reports.get(observed.uid)
    if report is not None and report.pod_uid != observed.uid:
        # ConfigMaps are named by a part of the uid; the report may be of an earlier pod.
        report = None
    is_synced = report is not None and _has_target(report, target.commit, desired_hash)
    status, reason, message = _resolve_status(
        gateway,
        profile,
        problem,
        report,
        target,
        is_synced=is_synced,
        is_unreadable=observed.uid in reports and report is None,
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
        report=report,
    )


def _select_profile(
    gateway: DiscoveredGateway, routing: Routing
) -> tuple[str, RoutingProfile | None, str]:
    """Name and profile of a gateway, and why they cannot be resolved, or empty."""
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
    target: SyncTarget,
    *,
    is_synced: bool,
    is_unreadable: bool,
) -> tuple[SyncStatus, str, str]:
    observed = gateway.observed_pod
    if observed.agent_state == "missing":
        text = f"the pod has no container {AGENT_CONTAINER}; add it to the pod template"
        return "MissingSidecar", "", text
    if observed.agent_state != "running":
        detail = f" ({observed.agent_problem})" if observed.agent_problem else ""
        return "Error", "AgentNotRunning", f"the agent container is not running{detail}"
    if problem:
        return "Error", "NoRouting", problem
    if profile is not None and profile.paused:
        return "Paused", "", "the profile is paused"
    if report is None:
        text = (
            "the agent report is invalid"
            if is_unreadable
            else ("waiting for the agent's first report")
        )
        return "Pending", "", text
    if report.sync_status == "Synced" and not is_synced:
        return "Pending", "", _lag_message(report, target)
    return report.sync_status, report.reason, report.error_message


def _lag_message(report: AgentReport, target: SyncTarget) -> str:
    if report.synced_commit != target.commit:
        old, new = report.synced_commit[:_ABBREV] or "none", target.commit[:_ABBREV] or "none"
        return f"at commit {old}, waiting for {new}"
    return "at the desired commit, waiting for the new routing"


def join_names(members: Sequence[GatewaySyncStatus]) -> str:
    """The names of the first gateways, and how many more there are."""
    names = [member.gateway.name for member in members]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
