"""Checks whether the applied objects of a revision have become ready.

Everything is read from the caches: a converged reconcile sends no request. An object that is not
ready is explained by its pods, in one sentence with one cause.

The deadline of a revision that was never ready counts from its beginning. Once it was ready, an
object that no longer is (a pod or a workload was deleted, a node left) has the whole deadline
again, and for half a minute it counts as being replaced, not as degraded, unless its cause is one
that waiting does not resolve. A full quota is not: the old pod counts in it until it is gone.

Called by `environment_reconciler` for step rollout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass.base.clock import Clock
from windlass.base.redaction import process
from windlass.environments import inventory, phase, step
from windlass.environments.apply import readiness
from windlass.environments.apply.apply_progress import ApplyMemory
from windlass.environments.apply.bundle_applier import BundleApplier
from windlass.environments.apply.readiness import PodProblem, Readiness
from windlass.environments.bundle.bundle import Bundle, Member
from windlass.environments.inventory import ObjectIdentity
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.step import StepResult
from windlass.objects.names import Object
from windlass.objects.resources import PODS, SECRETS

DEADLINE_SECONDS = 600.0
"""How long a revision may take to become ready."""

REPLACING_SECONDS = 30.0
"""How long an object that was ready may be replaced before the Environment is Degraded."""

_COMPLETING_KINDS = frozenset({"Job", "Pod"})


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """The result of the rollout, and the applied hash of each Job and Pod that completed."""

    result: StepResult
    completed: dict[ObjectIdentity, str]


class RolloutTracker:
    """Checks the rollouts of all Environments."""

    def __init__(
        self,
        cache: OwnedCache,
        applier: BundleApplier,
        clock: Clock,
        *,
        deadline_seconds: float,
    ) -> None:
        self._cache = cache
        self._applier = applier
        self._clock = clock
        self._deadline_seconds = deadline_seconds

    def check(
        self,
        namespace: str,
        bundle: Bundle,
        waited_seconds: float,
        memory: ApplyMemory,
        *,
        was_ready: bool = False,
    ) -> RolloutStatus:
        """Whether `bundle` is ready in `namespace`; its revision began `waited_seconds` ago."""
        states = list(self._states(namespace, bundle))
        completed = {
            (member.gvr.group, member.kind, member.name): member.applied_hash
            for member, state in states
            if state.state == "ready" and self._has_completed(namespace, member)
        }
        unready = [(member, state) for member, state in states if state.state != "ready"]
        if not unready:
            memory.unready_since = None
            count = len(bundle.members)
            return RolloutStatus(
                step.success(
                    phase.DEPLOYMENT, "RolloutComplete", f"{count} of {count} objects ready"
                ),
                completed,
            )
        waited_for = {(member.kind, member.name) for member, _ in unready}
        pods = readiness.pods_of_workloads(self._cache.list_objects(PODS, namespace), waited_for)
        problem = readiness.worst_pod_problem(pods, trusted=bundle.trusted)
        if was_ready:
            waited_seconds = self._unready_seconds(memory)
        result = _unfinished_result(unready, problem, self._deadline_seconds - waited_seconds)
        if was_ready and _may_be_replaced(result, problem):
            result = _as_replacing(result, REPLACING_SECONDS - waited_seconds)
        return RolloutStatus(_redacted(result), completed)

    def _unready_seconds(self, memory: ApplyMemory) -> float:
        """How long it has not been ready; counted from the start of the process at most."""
        now = self._clock.monotonic()
        memory.unready_since = memory.unready_since or now
        return now - memory.unready_since

    def _states(self, namespace: str, bundle: Bundle) -> Iterator[tuple[Member, Readiness]]:
        entries = self._applier.release_state(namespace).inventory
        for member in bundle.members:
            # Secrets are not watched, and ready once they are applied.
            if member.gvr == SECRETS or inventory.is_finished(entries, member):
                yield member, readiness.READY
                continue
            live = self._cache.get(member.gvr, namespace, member.name)
            missing = Readiness("progressing", "not found yet")
            yield member, self._readiness(live) if live is not None else missing

    def _readiness(self, live: Object) -> Readiness:
        is_claim = live.get("kind") == "PersistentVolumeClaim"
        waits = is_claim and self._cache.waits_for_a_pod(live)
        return readiness.object_readiness(live, waits_for_a_pod=waits)

    def _has_completed(self, namespace: str, member: Member) -> bool:
        if member.kind not in _COMPLETING_KINDS:
            return False
        live = self._cache.get(member.gvr, namespace, member.name) or {}
        return member.kind == "Job" or (live.get("status") or {}).get("phase") == "Succeeded"


def _unfinished_result(
    unready: list[tuple[Member, Readiness]], problem: PodProblem | None, seconds_left: float
) -> StepResult:
    """The result while some objects are not ready; refused objects first, then pod problems."""
    refused = [(member, state) for member, state in unready if state.state == "failed"]
    for member, state in refused:
        # No waiting: only a change of inputs makes the API server accept these pods.
        if state.reason in {"QuotaExceeded", "PodSecurityDenied", "LimitAboveMaximum"}:
            return step.failed(
                phase.DEPLOYMENT, state.reason, f"{member}: {_shorten(state.message)}"
            )
    is_late = seconds_left <= 0 or bool(refused)
    if problem is not None:
        if is_late and not problem.may_heal:
            return step.failed(phase.DEPLOYMENT, problem.reason, problem.message)
        return step.waiting(
            phase.DEPLOYMENT,
            problem.reason if problem.may_heal else "RolloutProgressing",
            problem.message,
            # Past the deadline only a watch event can change the result.
            after=max(1.0, seconds_left) if seconds_left > 0 else None,
        )
    member, state = (refused or unready)[0]
    text = f"{member}: {_shorten(state.message)}"
    if is_late:
        return step.failed(phase.DEPLOYMENT, state.reason or "RolloutStuck", text)
    return step.waiting(phase.DEPLOYMENT, "RolloutProgressing", text, after=max(1.0, seconds_left))


def _may_be_replaced(result: StepResult, problem: PodProblem | None) -> bool:
    """Whether what is missing may appear by itself, once a terminating pod makes room."""
    if problem is not None and not problem.may_heal:
        return False
    return not result.failed or result.condition.reason == "QuotaExceeded"


def _as_replacing(result: StepResult, seconds_left: float) -> StepResult:
    """`result` with status Unknown for `seconds_left`, so that the phase is not Degraded."""
    if seconds_left <= 0:
        return result
    condition = replace(result.condition, status="Unknown", reason="RolloutProgressing")
    return replace(result, condition=condition, requeue_after=max(1.0, seconds_left), failed=False)


def _redacted(result: StepResult) -> StepResult:
    """`result` without credentials that texts of nodes and registries may contain."""
    message = process.clean(result.condition.message)
    return replace(result, condition=replace(result.condition, message=message))


def _shorten(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:399]}…"
