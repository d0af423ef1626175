"""What an agent does next, from what it was told and what is on its disk.

The first row that fits decides:

| what is known | step |
|---|---|
| nothing was ever told | hold: WaitingForController |
| the CR goes | rest: the gateway stays as it is |
| paused, by anybody | rest: Paused |
| no commit was found yet | hold: WaitingForController |
| a rollback is asked for that was not done yet | rollback |
| this commit and routing were rolled back, nobody asked again | scan if owed, hold: RolledBack |
| dry run, and this was not looked at yet | plan |
| dry run | rest: DryRun |
| commit or routing is another than on the disk; somebody asked; drift to repair | sync |
| adopted files are there, and a person has just allowed to delete them | sync |
| the gateway still has to read files | scan |
| anything else | rest: Synced |

The step depends on nothing but these facts: after a restart it is the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from windlass.gateways.decide.metadata import Metadata
from windlass.gateways.decide.status_report import SyncStatus

StepKind = Literal["hold", "rest", "rollback", "plan", "sync", "scan"]


@dataclass(frozen=True, slots=True)
class Version:
    """A commit under a routing: what a gateway is synced for."""

    commit: str
    profile_hash: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the table looks at.

    `on_disk` is None without a manifest. `trigger` and `rollback` are the values that were
    heeded last; `rolled_back` is what must not come again by itself. `may_delete` says that
    files which the last sync kept are allowed to go now.
    """

    metadata: Metadata | None
    gateway: str = ""
    profile_hash: str = ""
    profile_paused: bool = False
    dry_run: bool = False
    on_disk: Version | None = None
    owes_scan: bool = False
    trigger: str = ""
    rollback: str = ""
    rolled_back: Version | None = None
    planned: Version | None = None
    repairs: bool = False
    may_delete: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, and for those that do nothing how the gateway is."""

    kind: StepKind
    status: SyncStatus = "Syncing"
    reason: str = ""
    message: str = ""


def wanted(facts: Facts) -> Version | None:
    """What the gateway should have; None while nobody knows."""
    metadata = facts.metadata
    if metadata is None or metadata.source is None:
        return None
    return Version(metadata.source.commit, facts.profile_hash)


def rollback_asked(metadata: Metadata, gateway: str, heeded: str) -> bool:
    """Whether the rollback override speaks of this gateway and was not heeded yet."""
    asked = metadata.overrides.rollback
    return bool(asked) and asked != heeded and asked.partition("@")[0] in ("*", gateway)


def next_step(facts: Facts) -> Step:
    """The first row of the table that fits."""
    metadata, goal = facts.metadata, wanted(facts)
    if metadata is None:
        return _waiting("the controller has not published anything for this gateway yet")
    stop = _stopped(facts, metadata)
    if stop is not None:
        return stop
    if goal is None:
        return _waiting("no commit was found yet; see the IgnitionSync's condition RepoCloned")
    if rollback_asked(metadata, facts.gateway, facts.rollback):
        return Step("rollback")
    asked = metadata.trigger != facts.trigger
    if facts.rolled_back == goal and not asked:
        return Step("scan") if facts.owes_scan else _held_back(goal)
    if facts.dry_run:
        return Step("rest", "DryRun") if facts.planned == goal and not asked else Step("plan")
    if facts.on_disk != goal or asked or facts.repairs or facts.may_delete:
        return Step("sync")
    if facts.owes_scan:
        return Step("scan")
    return Step("rest", "Synced", "Synced")


def _stopped(facts: Facts, metadata: Metadata) -> Step | None:
    if metadata.terminating:
        return Step("rest", "Paused", "", "the IgnitionSync is being deleted; the files stay")
    if not metadata.paused and not facts.profile_paused:
        return None
    why = metadata.pause_reason or "paused"
    if not metadata.paused:
        why = "the profile is paused"
    reason = "PausedWithoutData" if facts.on_disk is None else ""
    return Step("rest", "Paused", reason, why)


def _waiting(message: str) -> Step:
    return Step("hold", "Pending", "WaitingForController", message)


def _held_back(goal: Version) -> Step:
    return Step(
        "hold",
        "Error",
        "RolledBack",
        f"commit {goal.commit[:7]} was rolled back on this gateway; push another commit, or "
        "request a reconcile to apply it again",
    )
