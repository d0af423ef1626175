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
"""Steps that are listed only for revisions with hooks for them."""

# Bounds of the CRD schema (message, unsupported) and of texts inside a message.
_MAX_CHARS = 1024
_MAX_CHARS_SERVING = 200
_MAX_UNSUPPORTED = 50
_MAX_NAMED_ROUTES = 5
_MAX_UNSUPPORTED_CHARS = 512
_NO_SECRETS = Condition(phase.SECRETS, "True", "NoSecrets", "The Project defines no secrets")
_NOT_EXPOSED = Condition(
    phase.INGRESS,
    "True",
    "NotExposed",
    "Not exposed outside the cluster; use kubectl port-forward to reach it",
)
_RESYNC_SECONDS = 600.0
"""The longest time until the next reconcile, also if no watch event arrives."""


@dataclass(frozen=True, slots=True)
class SourceCommit:
    """A resolved commit of one source; `ref` is the Git ref that it was resolved from."""

    name: str
    branch: str
    commit: str
    ref: str

    def as_object(self) -> Object:
        fields = {"name": self.name, "branch": self.branch, "commit": self.commit, "ref": self.ref}
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """What one reconcile observed and did; filled step by step by `environment_reconciler`."""

    # Name and result of each step that ran, in order; only the last one may end the run.
    results: tuple[tuple[str, StepResult], ...] = ()
    # Whether the revision was ready or degraded before this reconcile.
    phase_context: PhaseContext = field(default_factory=PhaseContext)
    # The namespace created for the Environment; empty before it exists.
    namespace: str = ""
    # Its uid; another than in the status means that it was created again.
    namespace_uid: str = ""
    # The resolved commits; empty = not resolved in this reconcile, the status keeps its own.
    sources: tuple[SourceCommit, ...] = ()
    # The desired revision as the release state has it; number 0 before the first.
    revision: ReleaseRevision = field(default_factory=ReleaseRevision)
    # Texts about what the bundle contains and is not applied; None before it is rendered.
    unsupported: tuple[str, ...] | None = None
    # Routes of the bundle, which are not supported.
    routes: tuple[str, ...] = ()
    # Value of the retry annotation that this reconcile handles; empty = none.
    retry_at: str = ""
    # When to resolve branches again; None if no source follows a branch.
    poll_seconds: float | None = None
    # Events of the rollout.
    events: tuple[OutcomeEvent, ...] = ()
    # metadata.generation of the Environment; a condition of an older one no longer fails it.
    generation: int = 0
    # Why newer commits cannot be resolved; empty if they can.
    polling_error: str = ""
    # The hook phases for which the revision has hooks; None before that is known.
    hooks: frozenset[HookPhase] | None = None
    # The isolation is written, and its quota takes effect within milliseconds.
    is_settling: bool = False


def build_outcome(report: ReconcileReport, status: Object, now: datetime) -> Outcome:
    """The outcome of a reconcile that started from `status`."""
    conditions = _all_conditions(report, status)
    derived = phase.derive_phase(conditions, report.phase_context, revision=report.revision.number)
    steps = _step_rows(report, status, now)
    ready = Verdict(
        "True" if derived.phase == "Ready" else "False", derived.reason, derived.message
    )
    last = report.results[-1][1] if report.results else None
    return Outcome(
        ready,
        stalled=derived.stalled,
        reconciling=derived.reconciling,
        conditions=tuple(_observed_conditions(report, status).values()),
        fields={
            "phase": derived.phase,
            "message": _message(derived, report, status),
            "progress": f"{sum(row['state'] == 'Succeeded' for row in steps)}/{len(steps)}",
            "steps": steps,
            **_status_fields(report, status),
        },
        requeue_after=_requeue_seconds(last, report.poll_seconds),
        backoff=last is not None and last.retry,
        warns=last is not None and last.ends_run and phase.is_failure(last.condition),
        events=(
            *events.namespace_events(report.results, report.namespace_uid, status),
            *report.events,
        ),
    )


def add_conditions(blocked: Outcome, report: ReconcileReport) -> Outcome:
    """`blocked` with the conditions of the steps that ran although the Project is not usable."""
    last = report.results[-1][1]
    return replace(
        blocked,
        conditions=(*(result.condition for _, result in report.results), *_unchecked(report)),
        requeue_after=_requeue_seconds(last, None),
        backoff=last.retry,
    )


def complete_outcome(environment: Object, outcome: Outcome) -> Outcome:
    """`outcome` with the phase that agrees with its Ready condition, also after an error."""
    status = environment.get("status") or {}
    if outcome.ready is None:
        return outcome
    reported = {row.type: row.status for row in status_conditions(status)}
    previous = str(outcome.fields.get("phase") or status.get("phase") or "")
    agreed = phase.phase_for_ready(
        previous,
        ready=outcome.ready.status or reported.get(READY, "Unknown"),
        stalled=outcome.stalled,
        deleting=bool(environment["metadata"].get("deletionTimestamp")),
    )
    if agreed == previous:
        return outcome
    text = outcome.ready.message[:_MAX_CHARS]
    return replace(outcome, fields={"message": text, **outcome.fields, "phase": agreed})


def was_isolated(status: Object) -> bool:
    """Whether PoliciesReady of a status is True, or Ready is and the isolation was not checked."""
    types = {row.type for row in status_conditions(status) if row.status == "True"}
    return not types.isdisjoint((phase.POLICIES, READY))


def _all_conditions(report: ReconcileReport, status: Object) -> dict[str, Condition]:
    """The conditions of the status, overridden by those of this reconcile."""
    reported = {row.type: _current_condition(row, report) for row in status_conditions(status)}
    return {**reported, **_observed_conditions(report, status)}


def _current_condition(row: Condition, report: ReconcileReport) -> Condition:
    if row.observed_generation >= report.generation or row.status == "True":
        return row
    # About an older spec: Unknown until the step has run with the new one.
    return replace(row, status="Unknown", reason="Progressing")


def _observed_conditions(report: ReconcileReport, status: Object) -> dict[str, Condition]:
    """The conditions of this reconcile; of several results for one, the last."""
    observed = {result.condition.type: result.condition for _, result in report.results}
    conditions = {phase.SECRETS: _NO_SECRETS, **observed}
    if status.get("namespace"):
        conditions |= {row.type: row for row in _unchecked(report)}
    if report.unsupported is not None:
        # Only a rendered bundle shows whether it contains routes.
        conditions[phase.INGRESS] = (
            _routes_condition(report.routes) if report.routes else _NOT_EXPOSED
        )
    return conditions


def _unchecked(report: ReconcileReport) -> tuple[Condition, ...]:
    """PoliciesReady if the namespace could not be used, so that nothing inside was checked."""
    name, last = report.results[-1] if report.results else ("", None)
    if last is None or name != "namespace" or not last.ends_run:
        return ()
    return (phase.unchecked_policies(last.condition.reason, last.condition.message),)


def _routes_condition(routes: tuple[str, ...]) -> Condition:
    named = ", ".join(routes[:_MAX_NAMED_ROUTES])
    more = f" and {len(routes) - _MAX_NAMED_ROUTES} more" if len(routes) > _MAX_NAMED_ROUTES else ""
    text = f"{named}{more} not applied: routes are not supported yet; use kubectl port-forward"
    return Condition(phase.INGRESS, "False", phase.ROUTES_NOT_SUPPORTED, text)


def _step_rows(report: ReconcileReport, status: Object, now: datetime) -> list[Object]:
    before = {row["name"]: row for row in status.get("steps") or []}
    results = dict(report.results)
    hook_steps: Collection[str] = before if report.hooks is None else report.hooks
    names = [name for name in STEPS if name not in HOOK_STEPS or name in hook_steps]
    return [_step_row(name, results.get(name), before.get(name, {}), now) for name in names]


def _step_row(name: str, result: StepResult | None, before: Object, now: datetime) -> Object:
    """One row of `status.steps`; times change only with the state."""
    state = _step_state(result)
    message = result.condition.message if result is not None else ""
    row: Object = {"name": name, "state": state}
    if message:
        row["message"] = message[:_MAX_CHARS]
    if state != "Pending":
        started = before.get("startedAt") if _is_same_run(before, state) else None
        row["startedAt"] = started or timestamp(now)
    if state in ("Succeeded", "Failed"):
        finished = before.get("finishedAt") if before.get("state") == state else None
        row["finishedAt"] = finished or timestamp(now)
    return row


def _is_same_run(before: Object, state: str) -> bool:
    """Whether a step continues the run that is in the status, so that its start time stays."""
    return before.get("state") == state or (
        before.get("state") == "Running" and state in ("Succeeded", "Failed")
    )


def _step_state(result: StepResult | None) -> str:
    if result is None:
        return "Pending"
    if not result.ends_run:
        return "Succeeded"
    return "Failed" if result.failed else "Running"


def _status_fields(report: ReconcileReport, status: Object) -> dict[str, JSON]:
    """The fields of the status beside phase, message, progress and steps.

    What this reconcile did not get to stays as it is in `status`.
    """
    fields: dict[str, JSON] = {
        "sources": [source.as_object() for source in report.sources] or status.get("sources"),
        "lastHandledRetryAt": _handled_retry(report) or status.get("lastHandledRetryAt"),
    }
    if report.unsupported is not None:
        fields["unsupported"] = _unsupported_field(report.unsupported) or None
    if report.namespace:
        fields |= {"namespace": report.namespace, "namespaceUID": report.namespace_uid}
    if report.revision.number:
        # It never decreases: a lost release state is renumbered only when it is written again.
        fields["revision"] = max(report.revision.number, int(status.get("revision") or 0))
    if _is_complete(report):
        fields["serving"] = _serving_field(report)
    return fields


def _handled_retry(report: ReconcileReport) -> str:
    """The retry request that this reconcile handled; empty = none.

    One that still waits for a step before the apply did not start the revision again.
    """
    last = report.results[-1][1] if report.results else None
    is_applied = report.hooks is not None
    if last is not None and last.ends_run and not last.failed and not is_applied:
        return ""
    return report.retry_at


def _unsupported_field(texts: tuple[str, ...]) -> list[str]:
    """As many texts as the schema allows; the last one gives the number of the others."""
    shown = [text[:_MAX_UNSUPPORTED_CHARS] for text in texts]
    if len(shown) > _MAX_UNSUPPORTED:
        more = len(shown) - _MAX_UNSUPPORTED + 1
        return [*shown[: _MAX_UNSUPPORTED - 1], f"and {more} more"]
    return shown


def _is_complete(report: ReconcileReport) -> bool:
    """Whether the last step succeeded; only then do commits and revision belong together."""
    last = "postDeploy" if "postDeploy" in (report.hooks or ()) else "rollout"
    result = dict(report.results).get(last)
    return result is not None and not result.ends_run


def _serving_field(report: ReconcileReport) -> Object:
    ready = report.revision.ready
    return {
        "revision": report.revision.number,
        "commits": {source.name: source.commit for source in report.sources},
        **({"since": timestamp(ready)} if ready is not None else {}),
    }


def _message(derived: DerivedPhase, report: ReconcileReport, status: Object) -> str:
    sentence = _sentence(derived, report, status)
    return f"{sentence}; {report.polling_error}"[:_MAX_CHARS] if report.polling_error else sentence


def _sentence(derived: DerivedPhase, report: ReconcileReport, status: Object) -> str:
    """The message of the phase, with the revision that still serves while another is desired."""
    serving, results = status.get("serving") or {}, dict(report.results)
    namespace = results.get("namespace")
    if (
        derived.phase not in ("Failed", "Building", "Deploying")
        or not serving.get("revision")
        # After a complete rollout it is the new revision that serves.
        or "postDeploy" in results
        or (namespace is not None and namespace.ends_run)
    ):
        return derived.message[:_MAX_CHARS]
    commits = ", ".join(str(commit)[:7] for commit in (serving.get("commits") or {}).values())
    revision = f"revision {serving['revision']}{f' ({commits})' if commits else ''}"
    revision = revision[:_MAX_CHARS_SERVING]
    return f"{derived.message[: _MAX_CHARS - len(revision) - 16]}; still serving {revision}"


def _requeue_seconds(last: StepResult | None, poll_seconds: float | None) -> float:
    waits = [_RESYNC_SECONDS]
    if last is not None and last.requeue_after is not None:
        waits.append(last.requeue_after)
    if poll_seconds is not None:
        waits.append(poll_seconds)
    return min(waits)
