"""The decisions of the agent: the next step, the cause of a sync, and when the gateway may start.

Each is a table; the first row that fits decides. They depend on nothing but the facts given: after
a restart the answers are the same. `next_step`:

| what is known | step |
|---|---|
| no metadata was ever received | hold: WaitingForController |
| the CR is being deleted | rest: the gateway stays as it is |
| paused, by anybody | rest: Paused |
| no commit was resolved yet | hold: WaitingForController |
| a rollback is requested that was not done yet | rollback |
| this commit and routing were rolled back, no new request | scan if pending, hold: RolledBack |
| dry run, and this version was not planned yet | plan |
| dry run | rest: DryRun |
| commit or routing differ from the disk; a sync was requested; drift to repair | sync |
| adopted files are there, and a person has just allowed to delete them | sync |
| the gateway still has to read files | scan |
| anything else | rest: Synced |

`sync_cause`, for the audit record (agents do not learn how the controller heard of a commit; a
push is a poll to them):

| what is known | cause |
|---|---|
| a sync was requested, or deletes were allowed, and it was not done yet | manual |
| nothing was ever synced, or the gateway has not been started yet | start |
| another ref, or another routing of the gateway | spec |
| another commit under the same ref | poll |
| the version that is there already | drift |

`start_blocker`, for the startup probe (STA-1 to STA-4, amendment 8); a gateway that was once
allowed to start stays so:

| what is known | the gateway |
|---|---|
| it answers already: only the agent was restarted | may run |
| the volume is locked by another agent, or not recovered yet | waits |
| the metadata says paused or terminating | may start |
| a synced tree, and it is the desired one, or 20 s are over | may start |
| other files, and a first sync was tried, or 30 s are over | may start |
| nothing, a first sync was tried, and the policy is StartAnyway | may start |
| nothing | waits |

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.gateways.wire.agent_report import AgentSyncStatus
from windlass.gateways.wire.metadata import AgentMetadata

StepKind = Literal["hold", "rest", "rollback", "plan", "sync", "scan"]


@dataclass(frozen=True, slots=True)
class SyncVersion:
    """A commit under a routing: what a gateway is synced for."""

    commit: str
    profile_hash: str


@dataclass(frozen=True, slots=True)
class StepFacts:
    """All that the table looks at.

    `on_disk` is None without a manifest. `trigger` and `rollback` are the values that were
    heeded last; `rolled_back` is what must not come again by itself. `may_delete` says that
    files which the last sync kept are allowed to go now.
    """

    metadata: AgentMetadata | None
    gateway: str = ""
    profile_hash: str = ""
    profile_paused: bool = False
    dry_run: bool = False
    on_disk: SyncVersion | None = None
    scan_pending: bool = False
    trigger: str = ""
    rollback: str = ""
    rolled_back_version: SyncVersion | None = None
    planned_version: SyncVersion | None = None
    repair_needed: bool = False
    deletes_allowed: bool = False


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do, and for those that do nothing how the gateway is."""

    kind: StepKind
    status: AgentSyncStatus = "Syncing"
    reason: str = ""
    message: str = ""


def desired_version(facts: StepFacts) -> SyncVersion | None:
    """What the gateway should have; None while nobody knows."""
    metadata = facts.metadata
    if metadata is None or metadata.source is None:
        return None
    return SyncVersion(metadata.source.commit, facts.profile_hash)


def is_rollback_requested(metadata: AgentMetadata, gateway: str, heeded: str) -> bool:
    """Whether the rollback override speaks of this gateway and was not heeded yet."""
    asked = metadata.overrides.rollback
    return bool(asked) and asked != heeded and asked.partition("@")[0] in ("*", gateway)


def next_step(facts: StepFacts) -> NextStep:
    """The first row of the table that fits."""
    metadata, goal = facts.metadata, desired_version(facts)
    if metadata is None:
        return _waiting_step("the controller has not published anything for this gateway yet")
    stop = _pause_step(facts, metadata)
    if stop is not None:
        return stop
    if goal is None:
        return _waiting_step("no commit was found yet; see the IgnitionSync's condition RepoCloned")
    if is_rollback_requested(metadata, facts.gateway, facts.rollback):
        return NextStep("rollback")
    asked = metadata.trigger != facts.trigger
    if facts.rolled_back_version == goal and not asked:
        return NextStep("scan") if facts.scan_pending else _rolled_back_step(goal)
    if facts.dry_run:
        return (
            NextStep("rest", "DryRun")
            if facts.planned_version == goal and not asked
            else NextStep("plan")
        )
    if facts.on_disk != goal or asked or facts.repair_needed or facts.deletes_allowed:
        return NextStep("sync")
    if facts.scan_pending:
        return NextStep("scan")
    return NextStep("rest", "Synced", "Synced")


def _pause_step(facts: StepFacts, metadata: AgentMetadata) -> NextStep | None:
    if metadata.terminating:
        return NextStep("rest", "Paused", "", "the IgnitionSync is being deleted; the files stay")
    if not metadata.paused and not facts.profile_paused:
        return None
    why = metadata.pause_reason or "paused"
    if not metadata.paused:
        why = "the profile is paused"
    reason = "PausedWithoutData" if facts.on_disk is None else ""
    return NextStep("rest", "Paused", reason, why)


def _waiting_step(message: str) -> NextStep:
    return NextStep("hold", "Pending", "WaitingForController", message)


def _rolled_back_step(goal: SyncVersion) -> NextStep:
    return NextStep(
        "hold",
        "Error",
        "RolledBack",
        f"commit {goal.commit[:7]} was rolled back on this gateway; push another commit, or "
        "request a reconcile to apply it again",
    )


SyncCause = Literal["manual", "start", "spec", "poll", "drift"]


def sync_cause(facts: StepFacts, *, ref: str, is_starting: bool) -> SyncCause:
    """Why a sync is the next step; `ref` is the one that was synced last."""
    goal, metadata, held = desired_version(facts), facts.metadata, facts.on_disk
    if facts.deletes_allowed or (metadata is not None and metadata.trigger != facts.trigger):
        return "manual"
    if held is None or goal is None or is_starting:
        return "start"
    source = metadata.source if metadata is not None else None
    if held.profile_hash != goal.profile_hash or (source is not None and source.ref != ref):
        return "spec"
    return "poll" if held.commit != goal.commit else "drift"


SYNCED_TREE_WAIT_SECONDS = 20.0
OTHER_FILES_WAIT_SECONDS = 30.0

VolumeContents = Literal["tree", "files", "nothing"]
"""What is on the volume: a tree that we synced, files of somebody else, or nothing."""


@dataclass(frozen=True, slots=True)
class StartFacts:
    """All that the table looks at."""

    gateway_answers: bool = False
    is_volume_ready: bool = False
    volume_contents: VolumeContents = "nothing"
    at_target: bool = False
    has_tried_sync: bool = False
    is_paused: bool = False
    starts_anyway: bool = False
    waited_seconds: float = 0.0


def start_blocker(start: StartFacts) -> str | None:
    """Why the gateway has to wait; None if it may start."""
    if start.gateway_answers:
        return None
    if not start.is_volume_ready:
        return "the data volume is not ready: it is locked, or being made whole"
    if start.is_paused:
        return None
    if start.volume_contents == "tree":
        ready = start.at_target or start.waited_seconds >= SYNCED_TREE_WAIT_SECONDS
        return None if ready else "the wanted commit is being fetched"
    if start.volume_contents == "files":
        ready = start.has_tried_sync or start.waited_seconds >= OTHER_FILES_WAIT_SECONDS
        return None if ready else "the first sync is being tried"
    if start.at_target or (start.has_tried_sync and start.starts_anyway):
        return None
    return "there are no files yet: the first sync has to succeed"
