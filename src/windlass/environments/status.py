"""Builds the status of an Environment from the results of one reconcile.

Steps, phase, message and conditions come from one list of step results, so they can never
disagree. A time in a step changes only with its state, so a reconcile in which nothing happened
yields the same status, byte for byte.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime

from windlass.environments import events, phase
from windlass.environments.bundle.hooks import HookPhase
from windlass.environments.inventory import ReleaseRevision
from windlass.environments.phase import DerivedPhase, PhaseContext
from windlass.environments.step import StepResult
from windlass.objects.condition import Condition
from windlass.objects.names import JSON, Object
from windlass.runtime.outcome import READY, Outcome, OutcomeEvent, Verdict
from windlass.runtime.status import status_conditions, timestamp

STEPS = (
    "namespace",
    "policies",
    "source",
    "render",
    "preDeploy",
    "prepare",
    "workloads",
    "rollout",
    "postDeploy",
)
HOOK_STEPS: tuple[HookPhase, ...] = ("preDeploy", "postDeploy")
"""Steps of revisions alone that have hooks for them."""

_MOST_CHARS = 1024
_MOST_CHARS_SERVING = 200
_MOST_UNSUPPORTED = 50
_NAMED_ROUTES = 5
_MOST_UNSUPPORTED_CHARS = 512
_NO_SECRETS = Condition(phase.SECRETS, "True", "NoSecrets", "its Project names no secrets")
_NOT_EXPOSED = Condition(
    phase.INGRESS, "True", "NotExposed", "it has no address outside the cluster"
)
_RESYNC_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class SourceCommit:
    """A commit that was settled on."""

    name: str
    branch: str
    commit: str
    ref: str

    def as_object(self) -> Object:
        found = {"name": self.name, "branch": self.branch, "commit": self.commit, "ref": self.ref}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """Everything a pass found out, in the order in which it did.

    `unsupported` is None as long as no bundle was looked at; `routes` are those in it that the
    bundle asks for. `generation` is that of the
    Environment; what was said about an older one is no longer a reason to have failed.
    `unknown` says why nobody knows whether there are newer commits. `hooks` are the moments
    at which the revision has some; None as long as nobody knows. `is_settling` says that the
    isolation is written and takes effect in a moment.
    """

    results: tuple[tuple[str, StepResult], ...] = ()
    phase_context: PhaseContext = field(default_factory=PhaseContext)
    namespace: str = ""
    namespace_uid: str = ""
    sources: tuple[SourceCommit, ...] = ()
    revision: ReleaseRevision = field(default_factory=ReleaseRevision)
    unsupported: tuple[str, ...] | None = None
    routes: tuple[str, ...] = ()
    retry_at: str = ""
    poll_seconds: float | None = None
    events: tuple[OutcomeEvent, ...] = ()
    generation: int = 0
    polling_error: str = ""
    hooks: frozenset[HookPhase] | None = None
    is_settling: bool = False


def build_outcome(account: ReconcileReport, status: Object, now: datetime) -> Outcome:
    """The outcome of a pass that started from `status`."""
    conditions = _all_conditions(account, status)
    standing = phase.derive_phase(conditions, account.phase_context)
    steps = _step_rows(account, status, now)
    ready = Verdict(
        "True" if standing.phase == "Ready" else "False", standing.reason, standing.message
    )
    last = account.results[-1][1] if account.results else None
    return Outcome(
        ready,
        stalled=standing.stalled,
        reconciling=standing.reconciling,
        conditions=tuple(_observed_conditions(account).values()),
        fields={
            "phase": standing.phase,
            "message": _message(standing, account, status),
            "progress": f"{sum(row['state'] == 'Succeeded' for row in steps)}/{len(steps)}",
            "steps": steps,
            **_status_fields(account, status),
        },
        requeue_after=_requeue_seconds(last, account.poll_seconds),
        backoff=last is not None and last.retry,
        warns=last is not None and last.ends_run and phase.is_failure(last.condition),
        events=(
            *events.namespace_events(account.results, account.namespace_uid, status),
            *account.events,
        ),
    )


def complete_outcome(environment: Object, found: Outcome) -> Outcome:
    """`found` with the phase that agrees with its Ready condition, also after a fault."""
    status = environment.get("status") or {}
    if found.ready is None:
        return found
    said = {row.type: row.status for row in status_conditions(status)}
    known = str(found.fields.get("phase") or status.get("phase") or "")
    agreed = phase.phase_for_ready(
        known,
        ready=found.ready.status or said.get(READY, "Unknown"),
        stalled=found.stalled,
        deleting=bool(environment["metadata"].get("deletionTimestamp")),
    )
    if agreed == known:
        return found
    text = found.ready.message[:_MOST_CHARS]
    return replace(found, fields={"message": text, **found.fields, "phase": agreed})


def is_isolated(status: Object) -> bool:
    """Whether a status says that the isolation is in force."""
    return any(
        row.type == phase.POLICIES and row.status == "True" for row in status_conditions(status)
    )


def _all_conditions(account: ReconcileReport, status: Object) -> dict[str, Condition]:
    """Those that were said before, and over them those that this pass found."""
    known = {row.type: _current_condition(row, account) for row in status_conditions(status)}
    return {**known, **_observed_conditions(account)}


def _current_condition(row: Condition, account: ReconcileReport) -> Condition:
    if row.observed_generation >= account.generation or row.status == "True":
        return row
    # Its inputs have changed since: it has to be looked at again before it counts.
    return replace(row, status="Unknown", reason="Progressing")


def _observed_conditions(account: ReconcileReport) -> dict[str, Condition]:
    """What this pass found, the last word on each condition."""
    found = {finding.condition.type: finding.condition for _, finding in account.results}
    said = {phase.SECRETS: _NO_SECRETS, **found}
    if account.unsupported is not None:
        # Without a bundle nobody knows whether it asks for a route.
        said[phase.INGRESS] = _routes_condition(account.routes) if account.routes else _NOT_EXPOSED
    return said


def _routes_condition(routes: tuple[str, ...]) -> Condition:
    named = ", ".join(routes[:_NAMED_ROUTES])
    more = f" and {len(routes) - _NAMED_ROUTES} more" if len(routes) > _NAMED_ROUTES else ""
    text = f"{named}{more} not applied: routes are not supported yet; use kubectl port-forward"
    return Condition(phase.INGRESS, "False", phase.ROUTES_NOT_SUPPORTED, text)


def _step_rows(account: ReconcileReport, status: Object, now: datetime) -> list[Object]:
    before = {row["name"]: row for row in status.get("steps") or []}
    found = dict(account.results)
    hooked: Collection[str] = before if account.hooks is None else account.hooks
    names = [name for name in STEPS if name not in HOOK_STEPS or name in hooked]
    return [_step_row(name, found.get(name), before.get(name, {}), now) for name in names]


def _step_row(name: str, finding: StepResult | None, before: Object, now: datetime) -> Object:
    state = _step_state(finding)
    message = finding.condition.message if finding is not None else ""
    row: Object = {"name": name, "state": state}
    if message:
        row["message"] = message[:_MOST_CHARS]
    if state != "Pending":
        began = before.get("startedAt") if _is_same_run(before, state) else None
        row["startedAt"] = began or timestamp(now)
    if state in ("Succeeded", "Failed"):
        ended = before.get("finishedAt") if before.get("state") == state else None
        row["finishedAt"] = ended or timestamp(now)
    return row


def _is_same_run(before: Object, state: str) -> bool:
    """Whether a step is still the one that began earlier."""
    return before.get("state") == state or (
        before.get("state") == "Running" and state in ("Succeeded", "Failed")
    )


def _step_state(finding: StepResult | None) -> str:
    if finding is None:
        return "Pending"
    if not finding.ends_run:
        return "Succeeded"
    return "Failed" if finding.failed else "Running"


def _status_fields(account: ReconcileReport, status: Object) -> dict[str, JSON]:
    facts: dict[str, JSON] = {
        "sources": [source.as_object() for source in account.sources] or status.get("sources"),
        "lastHandledRetryAt": account.retry_at or status.get("lastHandledRetryAt"),
    }
    if account.unsupported is not None:
        facts["unsupported"] = _unsupported_field(account.unsupported) or None
    if account.namespace:
        facts |= {"namespace": account.namespace, "namespaceUID": account.namespace_uid}
    if account.revision.number:
        # It never falls: a ledger that lost count is numbered on, but not before it is written.
        facts["revision"] = max(account.revision.number, int(status.get("revision") or 0))
    if _is_complete(account):
        facts["serving"] = _serving_field(account)
    return facts


def _unsupported_field(texts: tuple[str, ...]) -> list[str]:
    """As many as the field may hold; the last one counts the others."""
    shown = [text[:_MOST_UNSUPPORTED_CHARS] for text in texts]
    if len(shown) > _MOST_UNSUPPORTED:
        more = len(shown) - _MOST_UNSUPPORTED + 1
        return [*shown[: _MOST_UNSUPPORTED - 1], f"and {more} more"]
    return shown


def _is_complete(account: ReconcileReport) -> bool:
    """Whether this pass saw the wished revision run; only then commits and revision match."""
    last = "postDeploy" if "postDeploy" in (account.hooks or ()) else "rollout"
    finding = dict(account.results).get(last)
    return finding is not None and not finding.ends_run


def _serving_field(account: ReconcileReport) -> Object:
    ready = account.revision.ready
    return {
        "revision": account.revision.number,
        "commits": {source.name: source.commit for source in account.sources},
        **({"since": timestamp(ready)} if ready is not None else {}),
    }


def _message(standing: DerivedPhase, account: ReconcileReport, status: Object) -> str:
    sentence = _sentence(standing, account, status)
    return (
        f"{sentence}; {account.polling_error}"[:_MOST_CHARS] if account.polling_error else sentence
    )


def _sentence(standing: DerivedPhase, account: ReconcileReport, status: Object) -> str:
    """Cause and fix; and what still runs, while something else is wished."""
    serving, found = status.get("serving") or {}, dict(account.results)
    grounds = found.get("namespace")
    if (
        standing.phase not in ("Failed", "Building", "Deploying")
        or not serving.get("revision")
        # Behind a whole rollout it is the new revision that serves.
        or "postDeploy" in found
        or (grounds is not None and grounds.ends_run)
    ):
        return standing.message[:_MOST_CHARS]
    commits = (str(commit)[:8] for commit in (serving.get("commits") or {}).values())
    what = ", ".join((*commits, f"revision {serving['revision']}"))[:_MOST_CHARS_SERVING]
    return f"{standing.message[: _MOST_CHARS - len(what) - 16]}; still serving {what}"


def _requeue_seconds(last: StepResult | None, poll_seconds: float | None) -> float:
    waits = [_RESYNC_SECONDS]
    if last is not None and last.requeue_after is not None:
        waits.append(last.requeue_after)
    if poll_seconds is not None:
        waits.append(poll_seconds)
    return min(waits)
