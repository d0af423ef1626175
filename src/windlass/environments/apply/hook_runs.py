"""Decides whether what comes after a hook may continue.

| The hook | Result |
|---|---|
| is neither a Job nor a Pod | none: continue |
| is complete, or has succeeded | none: continue |
| failed | HookFailed |
| runs longer than it may | HookFailed, though the run continues if it completes after all |
| runs | HookRunning |

It may run as long as a rollout, or as its own activeDeadlineSeconds allow if that is longer.
"""

from __future__ import annotations

from windlass.base.clock import Clock
from windlass.base.redaction import process
from windlass.environments import phase, step
from windlass.environments.apply import readiness
from windlass.environments.apply.readiness import Readiness
from windlass.environments.bundle import hooks
from windlass.environments.bundle.bundle import Member
from windlass.environments.metrics import parse_time
from windlass.environments.owned_cache import PODS, OwnedCache
from windlass.environments.step import StepResult
from windlass.objects.names import Object

_MOST_CHARS = 400


class HookRuns:
    """The hooks of all Environments."""

    def __init__(self, holdings: OwnedCache, clock: Clock, *, deadline_seconds: float) -> None:
        self._cache = holdings
        self._clock = clock
        self._deadline_seconds = deadline_seconds

    def blocking_result(self, place: str, hook: Member, live: Object) -> StepResult | None:
        """Why nothing after `hook` may happen yet; None once it is complete."""
        state = _hook_readiness(hook, live)
        if state.state == "ready":
            return None
        cause = self._cause(place, hook)
        if state.state == "failed":
            return _hook_failure(f"{hook}, a hook, failed: {state.message[:_MOST_CHARS]}{cause}")
        left = self._seconds_left(live)
        if left <= 0:
            return _hook_failure(
                f"{hook}, a hook, still runs past its time{cause}; if it needs longer, say so in "
                "its activeDeadlineSeconds"
            )
        text = process.clean(f"{hook}, a hook, runs{cause}")
        return step.waiting(phase.DEPLOYMENT, "HookRunning", text, after=max(1.0, left))

    def _cause(self, place: str, hook: Member) -> str:
        pods = readiness.pods_of_workloads(
            self._cache.list_objects(PODS, place), {(hook.kind, hook.name)}
        )
        trouble = readiness.worst_pod_problem(pods)
        return f"; {trouble.message}" if trouble is not None else ""

    def _seconds_left(self, live: Object) -> float:
        since = parse_time(live["metadata"]["creationTimestamp"])
        own = float((live.get("spec") or {}).get("activeDeadlineSeconds") or 0)
        may = max(self._deadline_seconds, own)
        return may - (self._clock.now() - since).total_seconds()


def _hook_readiness(hook: Member, live: Object) -> Readiness:
    if not hooks.runs_to_completion(hook.object):
        return readiness.READY
    found = readiness.object_readiness(live)
    if hook.kind == "Pod" and (live.get("status") or {}).get("phase") == "Running":
        # One that serves is ready; one that is a hook has to end.
        return Readiness("progressing")
    return found


def _hook_failure(text: str) -> StepResult:
    return step.failed(phase.DEPLOYMENT, "HookFailed", process.clean(text))
