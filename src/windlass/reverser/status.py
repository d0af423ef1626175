"""Conditions and status fields of GitRepoConfig and the watch rules.

Each reconciler calls its `..._outcome` function here with what it observed.

| GitRepoConfig: remote | Ready | Reason |
|---|---|---|
| not queried yet, and no status is stored | Unknown | Checking |
| all branches exist | True | BranchFound |
| no refs at all | True | EmptyRepository |
| a branch is missing that no destination will create | False | BranchNotFound |
| cannot be queried | False | ConnectionFailed, or what fails closed |

| WatchRule, ClusterWatchRule | Ready | Reason |
|---|---|---|
| nothing selected | False, reconciling | NoResourceResolved: the type may be served later |
| destination not checked yet | Unknown | Validating |
| destination not ready | False, reconciling | GitDestinationNotReady |
| else | True | Ready |

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.base.errors import Stalled, WindlassError
from windlass.objects.condition import Condition
from windlass.objects.names import JSON, Key, Object, format_count
from windlass.reverser.selection.rules import RuleResolution
from windlass.runtime.outcome import Outcome, Verdict

_HEADS = "refs/heads/"
_SHORT_SHA = 8
TRANSPORT_VERIFIED = "TransportVerified"


def repository_checking(*, after: float) -> Outcome:
    """The outcome for a remote that was not queried yet."""
    return Outcome(
        ready=Verdict("Unknown", "Checking", "checking remote"),
        reconciling=True,
        requeue_after=after,
    )


def repository_reachable(
    refs: Mapping[str, str],
    branches: Collection[str],
    *,
    creating: Collection[str],
    remote: str,
    verified: bool,
    after: float | None,
) -> Outcome:
    """The outcome for a remote that answered."""
    rows = [_branch_row(name, refs, creating) for name in branches]
    missing = [row["name"] for row in rows if row["state"] == "Missing"]
    transport = Condition(
        TRANSPORT_VERIFIED,
        "False",
        "HostKeyVerificationDisabled",
        "spec.hostKeyVerification is Disabled, so the connection can be intercepted; set it to "
        "Strict and provide the host keys",
    )
    return Outcome(
        ready=_repository_ready(rows, missing, empty=not refs),
        conditions=() if verified else (transport,),
        withdrawn=frozenset({TRANSPORT_VERIFIED}) if verified else frozenset(),
        fields={"remote": remote, "branches": rows},
        requeue_after=after,
    )


def _branch_row(name: str, refs: Mapping[str, str], creating: Collection[str]) -> Object:
    sha = refs.get(_HEADS + name)
    if sha is not None:
        return {"name": name, "state": "Found", "sha": sha}
    pending = name in creating or not refs
    return {"name": name, "state": "PendingCreation" if pending else "Missing"}


def _repository_ready(rows: list[Object], missing: list[str], *, empty: bool) -> Verdict:
    if missing:
        noun, them = ("branch", "it") if len(missing) == 1 else ("branches", "them")
        return Verdict(
            "False",
            "BranchNotFound",
            f"{noun} not found: {', '.join(missing)}; create {them} in the remote, remove {them} "
            "from spec.allowedBranches, or set spec.createBranch in a GitDestination",
        )
    if empty:
        return Verdict(
            "True", "EmptyRepository", "repository is empty; the first push will create the branch"
        )
    tips = ", ".join(_branch_tip(row) for row in rows)
    count = format_count(len(rows), "branch", "branches")
    return Verdict("True", "BranchFound", f"{count} validated: {tips}")


def _branch_tip(row: Object) -> str:
    if "sha" in row:
        return f"{row['name']}@{row['sha'][:_SHORT_SHA]}"
    return f"{row['name']} (pending creation)"


def repository_unreachable(error: WindlassError, remote: str, *, after: float) -> Outcome:
    """The outcome for a remote that could not be queried."""
    stalled = isinstance(error, Stalled)
    return Outcome(
        ready=Verdict("False", error.reason, f"{remote}: {error.message}"),
        stalled=stalled,
        reconciling=not stalled,
        requeue_after=after,
        warns=True,
    )


RESOURCES_RESOLVED = "ResourcesResolved"
MAX_RESOLVED = 50
MAX_UNRESOLVED = 20
_DESTINATION_CHECK_SECONDS = 5.0
"""When a rule is reconciled again whose destination has no verdict yet."""


def rule_outcome(
    resolution: RuleResolution,
    *,
    states: Mapping[tuple[str, str], str],
    objects: int,
    destination: Key,
    destination_ready: bool,
    destination_settled: bool,
    failed_groups: Collection[str] = (),
) -> Outcome:
    """The outcome of reconciling a rule whose references are valid.

    `failed_groups` are the API groups that discovery could not read.
    """
    ready = _rule_ready(resolution, destination, destination_ready, destination_settled)
    rows = _rule_fields(resolution, states)
    return Outcome(
        ready=ready,
        reconciling=ready.status != "True",
        conditions=(_resolved_condition(resolution, failed_groups),),
        fields={**rows, "objects": objects},
        # A verdict that changes nothing in the status of the destination requeues no rule.
        requeue_after=None if destination_settled else _DESTINATION_CHECK_SECONDS,
        warns=ready.status == "False",
        transient=not destination_settled
        or (ready.status == "True" and _is_starting(rows["resolved"])),
    )


def rule_pending(message: str, *, after: float | None = None) -> Outcome:
    """The outcome for a rule that cannot be resolved yet."""
    return Outcome(
        ready=Verdict("Unknown", "Validating", message),
        reconciling=True,
        transient=True,
        requeue_after=after,
    )


def _is_starting(resolved: JSON) -> bool:
    return any(row["state"] in ("starting", "seeding") for row in resolved or ())


def ingestion_disabled() -> Outcome:
    """The outcome for a rule while watch ingestion is disabled."""
    text = "watch ingestion is disabled (--enable-watch-ingestion=false); nothing is mirrored"
    return Outcome(ready=Verdict("False", "IngestionDisabled", text))


def _rule_ready(
    resolution: RuleResolution, destination: Key, is_ready: bool, is_settled: bool
) -> Verdict:
    if not resolution.scopes:
        return Verdict(
            "False",
            "NoResourceResolved",
            "no entry selects a served type (see status.unresolved); will start when one is served",
        )
    if not is_ready and not is_settled:
        return Verdict("Unknown", "Validating", f"waiting for GitDestination {destination}")
    if not is_ready:
        return Verdict(
            "False",
            "GitDestinationNotReady",
            f"GitDestination {destination} is not Ready; see its status",
        )
    count = format_count(len(resolution.watched), "resource type")
    return Verdict("True", "Ready", f"{count} selected")


def _resolved_condition(resolution: RuleResolution, failed_groups: Collection[str]) -> Condition:
    rows = resolution.unresolved
    if not rows:
        return Condition(RESOURCES_RESOLVED, "True", "AllResolved", "all entries resolved")
    text = "unresolved: " + ", ".join(f"{row.entry} ({row.reason})" for row in rows[:5])
    reasons = {row.reason for row in rows}
    if failed_groups and reasons & {"DiscoveryDegraded", "NotServed"}:
        text += f"; {_failed_groups_text(sorted(group or 'core' for group in failed_groups))}"
    if "DiscoveryDegraded" in reasons:
        return Condition(RESOURCES_RESOLVED, "False", "DiscoveryDegraded", text)
    reason = "PartlyResolved" if resolution.scopes else "NotServed"
    return Condition(RESOURCES_RESOLVED, "False", reason, text)


def _failed_groups_text(groups: list[str]) -> str:
    many = len(groups) > 1
    return (
        f"API group{'s' if many else ''} {', '.join(groups[:5])} cannot be discovered; check "
        f"{'their' if many else 'its'} APIService"
    )


def _rule_fields(
    resolution: RuleResolution, states: Mapping[tuple[str, str], str]
) -> dict[str, JSON]:
    resolved = [
        {
            "gvr": str(gvr),
            "scope": namespace or "Cluster",
            "state": _stream_state(str(gvr), namespace, states),
        }
        for gvr, namespace in resolution.watched[:MAX_RESOLVED]
    ]
    unresolved = [
        {"entry": row.entry, "reason": row.reason} for row in resolution.unresolved[:MAX_UNRESOLVED]
    ]
    return {"resolved": resolved or None, "unresolved": unresolved or None}


def _stream_state(gvr: str, namespace: str, states: Mapping[tuple[str, str], str]) -> str:
    """State of the stream of a scope; a cluster-wide stream may serve a namespace."""
    return states.get((gvr, namespace)) or states.get((gvr, "")) or "starting"
