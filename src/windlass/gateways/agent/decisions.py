"""The decisions of the agent: the next step, the cause of a sync, and when the gateway may start.

Each is a table; the first row that matches decides. They depend only on the given facts: after a
restart the decisions are the same. `next_step`:

| what is known | step |
|---|---|
| no metadata was ever received | hold: WaitingForController |
| the CR is being deleted | rest: the gateway stays as it is |
| paused, by the CR or by the profile | rest: Paused |
| no commit was resolved yet | hold: WaitingForController |
| a rollback is requested that was not done yet | rollback |
| this commit and routing were rolled back, no new request | scan if pending, hold: RolledBack |
| dry run, and this version was not planned yet | plan |
| dry run | rest: DryRun |
| commit or routing differ from the disk; a sync was requested; drift to repair | sync |
| adopted files were asked about, and deleting them was approved | sync |
| there are adopted files, and no request about them for this commit and routing | sync |
| the gateway still has to read files | scan |
| anything else | rest: Synced |

`sync_cause`, for the audit record (agents do not know how the controller learned of a commit; a
push is a poll to them):

| what is known | cause |
|---|---|
| a sync was requested, or deletes were allowed, and it was not done yet | manual |
| nothing was ever synced, or the gateway has not been started yet | start |
| another ref, or another routing of the gateway | spec |
| another commit under the same ref | poll |
| the version on the disk | drift |

`start_blocker`, for the startup probe (STA-1 to STA-4, amendment 8); a gateway that was allowed to
start once is not blocked again:

| what is known | the gateway |
|---|---|
| it answers already: only the agent was restarted | may start |
| the volume is locked by another agent, or not recovered yet | waits |
| the metadata is paused or terminating | may start |
| a synced tree, and it is the desired one, or 20 s have passed | may start |
| other files, and a first sync was tried, or 30 s have passed | may start |
| no files, a first sync was tried, and the policy is StartAnyway | may start |
| no files | waits |

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from windlass.gateways.wire.agent_report import AgentSyncStatus
from windlass.gateways.wire.metadata import AgentMetadata

StepKind = Literal["hold", "rest", "rollback", "plan", "sync", "scan"]


class SyncVersion(msgspec.Struct, frozen=True, rename="camel"):
    """A commit under a routing: what a gateway is synced to; stored in the agent's state."""

    commit: str
    profile_hash: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """The inputs of `next_step` and `sync_cause`."""

    # Newest metadata of the controller; None before any.
    metadata: AgentMetadata | None
    # Name of this gateway, to match rollback requests.
    gateway: str = ""
    # Desired routing of this gateway; empty without metadata.
    profile_hash: str = ""
    # The gateway's profile is paused; the CR's own pause is in the metadata.
    profile_paused: bool = False
    # The gateway's profile asks for plans only.
    dry_run: bool = False
    # Version of the manifest; None without one.
    on_disk: SyncVersion | None = None
    # The gateway has not read everything on the disk.
    scan_pending: bool = False
    # Sync request that was handled last.
    trigger: str = ""
    # Rollback request that was handled, until it is withdrawn.
    rollback: str = ""
    # Version that must not be synced again without a request; None if there is none.
    rolled_back_version: SyncVersion | None = None
    # Version of the last dry run; None before one.
    planned_version: SyncVersion | None = None
    # Drift was found, and the policy repairs it.
    repair_needed: bool = False
    # Files that the last sync kept may be deleted now.
    deletes_allowed: bool = False
    # It is not recorded which files a sync to this version keeps.
    request_missing: bool = False


@dataclass(frozen=True, slots=True)
class NextStep:
    """The step to run; for `hold` and `rest`, the condition to publish."""

    kind: StepKind
    status: AgentSyncStatus = "Syncing"
    reason: str = ""
    message: str = ""


def desired_version(facts: StepFacts) -> SyncVersion | None:
    """The version that the gateway should have; None while no commit is resolved."""
    metadata = facts.metadata
    if metadata is None or metadata.source is None:
        return None
    return SyncVersion(metadata.source.commit, facts.profile_hash)


def is_rollback_requested(metadata: AgentMetadata, gateway: str, handled: str) -> bool:
    """Whether the rollback request names this gateway and is not the `handled` one."""
    requested = metadata.overrides.rollback
    return (
        bool(requested) and requested != handled and requested.partition("@")[0] in ("*", gateway)
    )


def is_rollback_withdrawn(metadata: AgentMetadata, handled: str) -> bool:
    """Whether the request that was `handled` is gone; its value is a new request from then on."""
    return handled not in ("", metadata.overrides.rollback)


def next_step(facts: StepFacts) -> NextStep:
    """The next step by the first row of the table that matches."""
    metadata, desired = facts.metadata, desired_version(facts)
    if metadata is None:
        return _waiting_step("waiting for the controller to publish metadata for this gateway")
    stop = _pause_step(facts, metadata)
    if stop is not None:
        return stop
    if desired is None:
        return _waiting_step("waiting for a commit; see condition RepoCloned of the IgnitionSync")
    if is_rollback_requested(metadata, facts.gateway, facts.rollback):
        return NextStep("rollback")
    requested = metadata.trigger != facts.trigger
    if facts.rolled_back_version == desired and not requested:
        return NextStep("scan") if facts.scan_pending else _rolled_back_step(desired)
    if facts.dry_run:
        return (
            NextStep("rest", "DryRun")
            if facts.planned_version == desired and not requested
            else NextStep("plan")
        )
    if facts.on_disk != desired or requested or facts.repair_needed:
        return NextStep("sync")
    if facts.deletes_allowed or facts.request_missing:
        return NextStep("sync")
    if facts.scan_pending:
        return NextStep("scan")
    return NextStep("rest", "Synced", "Synced")


def _pause_step(facts: StepFacts, metadata: AgentMetadata) -> NextStep | None:
    if metadata.terminating:
        return NextStep(
            "rest", "Paused", "", "the IgnitionSync is being deleted; files are left in place"
        )
    if not metadata.paused and not facts.profile_paused:
        return None
    message = metadata.pause_reason or "paused"
    if not metadata.paused:
        message = "the profile is paused"
    reason = "PausedWithoutData" if facts.on_disk is None else ""
    return NextStep("rest", "Paused", reason, message)


def _waiting_step(message: str) -> NextStep:
    return NextStep("hold", "Pending", "WaitingForController", message)


def _rolled_back_step(desired: SyncVersion) -> NextStep:
    return NextStep(
        "hold",
        "Error",
        "RolledBack",
        f"commit {desired.commit[:7]} was rolled back on this gateway; push another commit, or set "
        "a new value of windlass.dev/requestedAt on the IgnitionSync to apply it again",
    )


SyncCause = Literal["manual", "start", "spec", "poll", "drift"]


def sync_cause(facts: StepFacts, *, ref: str, is_starting: bool) -> SyncCause:
    """The cause of a sync; `ref` is the branch or tag that was synced last."""
    desired, metadata, on_disk = desired_version(facts), facts.metadata, facts.on_disk
    if facts.deletes_allowed or (metadata is not None and metadata.trigger != facts.trigger):
        return "manual"
    if on_disk is None or desired is None or is_starting:
        return "start"
    source = metadata.source if metadata is not None else None
    if on_disk.profile_hash != desired.profile_hash or (source is not None and source.ref != ref):
        return "spec"
    return "poll" if on_disk.commit != desired.commit else "drift"


SYNCED_TREE_WAIT_SECONDS = 20.0
OTHER_FILES_WAIT_SECONDS = 30.0

VolumeContents = Literal["tree", "files", "nothing"]
"""What is on the volume: a synced tree, files that no sync wrote, or no files."""


@dataclass(frozen=True, slots=True)
class StartFacts:
    """The inputs of `start_blocker`."""

    # The gateway runs or starts already.
    gateway_answers: bool = False
    # No transaction is half applied on the volume.
    is_volume_ready: bool = False
    volume_contents: VolumeContents = "nothing"  # what a gateway would start with
    # The desired version is on the disk, and no scan is pending.
    at_target: bool = False
    # A step of this process came to an end, with or without success.
    has_tried_sync: bool = False
    # Paused by CR or profile, or the CR is being deleted.
    is_paused: bool = False
    # The policy for a volume without files is StartAnyway.
    starts_anyway: bool = False
    # Since the agent started.
    waited_seconds: float = 0.0


def start_blocker(facts: StartFacts) -> str | None:
    """The reason why the gateway must not start yet; None if it may."""
    if facts.gateway_answers:
        return None
    if not facts.is_volume_ready:
        return "waiting for the data volume (locked by another agent, or being recovered)"
    if facts.is_paused:
        return None
    if facts.volume_contents == "tree":
        ready = facts.at_target or facts.waited_seconds >= SYNCED_TREE_WAIT_SECONDS
        return None if ready else "waiting for the sync to the desired commit"
    if facts.volume_contents == "files":
        ready = facts.has_tried_sync or facts.waited_seconds >= OTHER_FILES_WAIT_SECONDS
        return None if ready else "first sync in progress"
    if facts.at_target or (facts.has_tried_sync and facts.starts_anyway):
        return None
    return "no files yet; waiting for the first sync to succeed"
