"""What a WatchRule or ClusterWatchRule says of its selection.

| Found | Ready | Reason |
|---|---|---|
| nothing selected | False, reconciling | NoResourceResolved: the type may still come |
| destination not in order | False, reconciling | GitDestinationNotReady |
| else | True | Ready |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from windlass.objects.condition import Condition
from windlass.objects.names import JSON, Key
from windlass.reverser.decide.rules import Resolution
from windlass.runtime.outcome import Outcome, Verdict

RESOURCES_RESOLVED = "ResourcesResolved"
MOST_RESOLVED = 50
MOST_UNRESOLVED = 20


def report(
    resolution: Resolution,
    *,
    states: Mapping[tuple[str, str], str],
    objects: int,
    destination: Key,
    destination_ready: bool,
    destination_settled: bool,
    failed_groups: Collection[str] = (),
) -> Outcome:
    """The outcome of a pass over a rule whose references are in order.

    `failed_groups` are the API groups that discovery could not read.
    """
    ready = _ready(resolution, destination, destination_ready)
    rows = _fields(resolution, states)
    return Outcome(
        ready=ready,
        reconciling=ready.status != "True",
        conditions=(_resolved(resolution, failed_groups),),
        fields={**rows, "objects": objects},
        # While its destination is still being looked at nothing has failed yet.
        warns=destination_settled or not resolution.scopes,
        transient=not destination_settled
        or (ready.status == "True" and _is_starting(rows["resolved"])),
    )


def settling(message: str) -> Outcome:
    """The report of a rule that cannot be judged yet."""
    return Outcome(
        ready=Verdict("Unknown", "Validating", message), reconciling=True, transient=True
    )


def _is_starting(resolved: JSON) -> bool:
    return any(row["state"] in ("starting", "seeding") for row in resolved or ())


def disabled() -> Outcome:
    """Rules are checked but nothing is ingested."""
    text = "watch ingestion is off (--enable-watch-ingestion=false); nothing is mirrored"
    return Outcome(ready=Verdict("False", "IngestionDisabled", text))


def _ready(resolution: Resolution, destination: Key, destination_ready: bool) -> Verdict:
    if not resolution.scopes:
        return Verdict(
            "False",
            "NoResourceResolved",
            "no entry selects a served type (see status.unresolved); one that appears is taken up",
        )
    if not destination_ready:
        return Verdict(
            "False",
            "GitDestinationNotReady",
            f"GitDestination {destination} is not Ready; see its status",
        )
    return Verdict("True", "Ready", f"selects {len(resolution.scopes)} types")


def _resolved(resolution: Resolution, failed_groups: Collection[str]) -> Condition:
    rows = resolution.unresolved
    if not rows:
        return Condition(RESOURCES_RESOLVED, "True", "AllResolved", "every entry selects a type")
    text = "not resolved: " + ", ".join(f"{row.entry} ({row.reason})" for row in rows[:5])
    reasons = {row.reason for row in rows}
    if failed_groups and reasons & {"DiscoveryDegraded", "NotServed"}:
        text += f"; {_failing(sorted(group or 'core' for group in failed_groups))}"
    if "DiscoveryDegraded" in reasons:
        return Condition(RESOURCES_RESOLVED, "False", "DiscoveryDegraded", text)
    reason = "PartlyResolved" if resolution.scopes else "NotServed"
    return Condition(RESOURCES_RESOLVED, "False", reason, text)


def _failing(groups: list[str]) -> str:
    many = len(groups) > 1
    return (
        f"API group{'s' if many else ''} {', '.join(groups[:5])} cannot be discovered; check "
        f"{'their' if many else 'its'} APIService"
    )


def _fields(resolution: Resolution, states: Mapping[tuple[str, str], str]) -> dict[str, JSON]:
    resolved = [
        {
            "gvr": str(one.gvr),
            "scope": one.namespace or "Cluster",
            "state": _state(str(one.gvr), one.namespace, states),
        }
        for one in resolution.scopes[:MOST_RESOLVED]
    ]
    unresolved = [
        {"entry": row.entry, "reason": row.reason}
        for row in resolution.unresolved[:MOST_UNRESOLVED]
    ]
    return {"resolved": resolved or None, "unresolved": unresolved or None}


def _state(gvr: str, namespace: str, states: Mapping[tuple[str, str], str]) -> str:
    """A cluster-wide stream may stand in for that of a namespace."""
    return states.get((gvr, namespace)) or states.get((gvr, "")) or "starting"
