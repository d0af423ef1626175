"""Decides whether the steps after a hook may continue.

| The hook | Result |
|---|---|
| is neither a Job nor a Pod | none: continue |
| is complete, or has succeeded | none: continue |
| failed | HookFailed |
| is past its deadline | HookFailed, though the run continues if it completes after all |
| runs | HookRunning |

Its deadline is that of a rollout, or its own activeDeadlineSeconds if that is longer.

Called by `bundle_applier` for each hook of a run.
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
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.step import StepResult
from windlass.objects.names import Object
from windlass.objects.resources import PODS

_MAX_CHARS = 400


class HookRuns:
    """Checks hooks of all Environments, with the pods in the cache as the cause of delays."""

    def __init__(self, cache: OwnedCache, clock: Clock, *, deadline_seconds: float) -> None:
        self._cache = cache
        self._clock = clock
        self._deadline_seconds = deadline_seconds

    def blocking_result(
        self, namespace: str, hook: Member, live: Object, *, trusted: bool = True
    ) -> StepResult | None:
        """Why the steps after `hook` have to wait; None once it is complete.

        `trusted` is the trust of the Environment, for the remedy.
        """
        state = _hook_readiness(hook, live)
        if state.state == "ready":
            return None
        cause = self._cause(namespace, hook, trusted=trusted)
        if state.state == "failed":
            return _hook_failure(f"hook {hook} failed: {state.message[:_MAX_CHARS]}{cause}")
        seconds_left = self._seconds_left(live)
        if seconds_left <= 0:
            return _hook_failure(
                f"hook {hook} exceeded its deadline{cause}; set activeDeadlineSeconds if it needs "
                "longer"
            )
        text = process.clean(f"hook {hook} is running{cause}")
        return step.waiting(phase.DEPLOYMENT, "HookRunning", text, after=max(1.0, seconds_left))

    def _cause(self, namespace: str, hook: Member, *, trusted: bool) -> str:
        pods = readiness.pods_of_workloads(
            self._cache.list_objects(PODS, namespace), {(hook.kind, hook.name)}
        )
        problem = readiness.worst_pod_problem(pods, trusted=trusted)
        return f"; {problem.message}" if problem is not None else ""

    def _seconds_left(self, live: Object) -> float:
        since = parse_time(live["metadata"]["creationTimestamp"])
        own = float((live.get("spec") or {}).get("activeDeadlineSeconds") or 0)
        allowed = max(self._deadline_seconds, own)
        return allowed - (self._clock.now() - since).total_seconds()


def _hook_readiness(hook: Member, live: Object) -> Readiness:
    if not hooks.runs_to_completion(hook.object):
        return readiness.READY
    result = readiness.object_readiness(live)
    if hook.kind == "Pod" and (live.get("status") or {}).get("phase") == "Running":
        # A workload Pod is ready while it runs; a hook has to complete.
        return Readiness("progressing")
    return result


def _hook_failure(text: str) -> StepResult:
    return step.failed(phase.DEPLOYMENT, "HookFailed", process.clean(text))
