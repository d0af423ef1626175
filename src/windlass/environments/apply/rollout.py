"""Checks whether the applied objects of a revision have become ready.

Everything is read from the caches: a converged reconcile sends no request. What is
not ready is explained by its pods, in one sentence with one cause.

The deadline of a revision that was never ready counts from its beginning. Once it was ready,
what is not ready any more (a pod or a workload that was deleted, a node that left) has the
whole deadline again, and for half a minute without a named cause it counts as being replaced
rather than as worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from windlass.base.clock import Clock
from windlass.base.redaction import process
from windlass.environments import inventory, phase, step
from windlass.environments.apply import readiness
from windlass.environments.apply.bundle_applier import BundleApplier
from windlass.environments.apply.readiness import PodProblem, Readiness
from windlass.environments.bundle.bundle import Bundle, Member
from windlass.environments.inventory import ObjectIdentity
from windlass.environments.owned_cache import PODS, SECRETS, OwnedCache
from windlass.environments.step import StepResult
from windlass.objects.names import Object

DEADLINE_SECONDS = 600.0
REPLACING_SECONDS = 30.0
"""How long what was ready may be replaced before that is worth an alarm."""

_COMPLETING_KINDS = frozenset({"Job", "Pod"})


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """How far a revision is; `ended` are Jobs and Pods that ran to their end."""

    result: StepResult
    completed: dict[ObjectIdentity, str]


class RolloutTracker:
    """The revisions of all Environments on their way to being ready."""

    def __init__(
        self,
        holdings: OwnedCache,
        applying: BundleApplier,
        clock: Clock,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._cache = holdings
        self._applier = applying
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._unready_since: dict[str, float] = {}

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._unready_since.pop(place, None)

    def check(
        self, place: str, bundle: Bundle, waited_seconds: float, *, was_ready: bool = False
    ) -> RolloutStatus:
        """How far `bundle` is in `place`, since it began `waited_seconds` ago."""
        states = list(self._states(place, bundle))
        ended = {
            (member.gvr.group, member.kind, member.name): member.applied_hash
            for member, state in states
            if state.state == "ready" and self._has_completed(place, member)
        }
        unready = [(member, state) for member, state in states if state.state != "ready"]
        if not unready:
            self._unready_since.pop(place, None)
            count = len(bundle.members)
            return RolloutStatus(
                step.success(phase.DEPLOYMENT, "RolloutComplete", f"{count} objects are as wished"),
                ended,
            )
        waited_for = {(member.kind, member.name) for member, _ in unready}
        pods = readiness.pods_of_workloads(self._cache.list_objects(PODS, place), waited_for)
        trouble = readiness.worst_pod_problem(pods)
        if was_ready:
            waited_seconds = self._unready_seconds(place)
        finding = _unfinished_result(unready, trouble, self._deadline_seconds - waited_seconds)
        if was_ready and trouble is None and not finding.failed:
            finding = _as_replacing(finding, REPLACING_SECONDS - waited_seconds)
        return RolloutStatus(_redacted(finding), ended)

    def _unready_seconds(self, place: str) -> float:
        """How long it has not been ready; a new process counts anew."""
        now = self._clock.monotonic()
        return now - self._unready_since.setdefault(place, now)

    def _states(self, place: str, bundle: Bundle) -> Iterator[tuple[Member, Readiness]]:
        known = self._applier.release_state(place).inventory
        for member in bundle.members:
            if member.gvr == SECRETS or inventory.is_finished(known, member):
                yield member, readiness.READY
                continue
            live = self._cache.get(member.gvr, place, member.name)
            missing = Readiness("progressing", "it is not there yet")
            yield member, self._readiness(live) if live is not None else missing

    def _readiness(self, live: Object) -> Readiness:
        is_claim = live.get("kind") == "PersistentVolumeClaim"
        waits = is_claim and self._cache.waits_for_a_pod(live)
        return readiness.object_readiness(live, waits_for_a_pod=waits)

    def _has_completed(self, place: str, member: Member) -> bool:
        if member.kind not in _COMPLETING_KINDS:
            return False
        live = self._cache.get(member.gvr, place, member.name) or {}
        return member.kind == "Job" or (live.get("status") or {}).get("phase") == "Succeeded"


def _unfinished_result(
    unready: list[tuple[Member, Readiness]], trouble: PodProblem | None, seconds_left: float
) -> StepResult:
    refused = [(member, state) for member, state in unready if state.state == "failed"]
    for member, state in refused:
        if state.reason in {"QuotaExceeded", "PodSecurityDenied", "LimitAboveMaximum"}:
            return step.failed(
                phase.DEPLOYMENT, state.reason, f"{member}: {_shorten(state.message)}"
            )
    is_late = seconds_left <= 0 or bool(refused)
    if trouble is not None:
        if is_late and not trouble.may_heal:
            return step.failed(phase.DEPLOYMENT, trouble.reason, trouble.message)
        return step.waiting(
            phase.DEPLOYMENT,
            trouble.reason if trouble.may_heal else "RolloutProgressing",
            trouble.message,
            # Past the deadline a watch leads back here; there is nothing to count down.
            after=max(1.0, seconds_left) if seconds_left > 0 else None,
        )
    member, state = (refused or unready)[0]
    text = f"{member}: {_shorten(state.message)}"
    if is_late:
        return step.failed(phase.DEPLOYMENT, state.reason or "RolloutStuck", text)
    return step.waiting(phase.DEPLOYMENT, "RolloutProgressing", text, after=max(1.0, seconds_left))


def _as_replacing(finding: StepResult, seconds_left: float) -> StepResult:
    """The same, as something under way for as long as nobody need be alarmed."""
    if seconds_left <= 0:
        return finding
    pending = replace(finding.condition, status="Unknown")
    return replace(finding, condition=pending, requeue_after=max(1.0, seconds_left))


def _redacted(finding: StepResult) -> StepResult:
    """Without what nodes and registries may have let slip into their words."""
    message = process.clean(finding.condition.message)
    return replace(finding, condition=replace(finding.condition, message=message))


def _shorten(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:399]}…"
