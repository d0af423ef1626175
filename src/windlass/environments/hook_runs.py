"""Whether what comes after a hook may go on.

| The hook | Finding |
|---|---|
| is neither a Job nor a Pod | none: go on |
| is complete, or has succeeded | none: go on |
| failed | HookFailed |
| runs longer than it may | HookFailed, though it goes on if it completes after all |
| runs | HookRunning |

It may run as long as a rollout, or as its own activeDeadlineSeconds allow if that is longer.
"""

from __future__ import annotations

from windlass.base.clock import Clock
from windlass.base.redaction import process
from windlass.environments.decide import hooks, phase, pod_trouble, readiness, step
from windlass.environments.decide.bundle import Member
from windlass.environments.decide.readiness import Readiness
from windlass.environments.decide.step import Finding
from windlass.environments.holdings import PODS, Holdings
from windlass.environments.measures import moment
from windlass.objects.names import Object

_MOST_CHARS = 400


class HookRuns:
    """The hooks of all Environments."""

    def __init__(self, holdings: Holdings, clock: Clock, *, deadline_seconds: float) -> None:
        self._holdings = holdings
        self._clock = clock
        self._deadline_seconds = deadline_seconds

    def holding(self, place: str, hook: Member, live: Object) -> Finding | None:
        """Why nothing after `hook` may happen yet; None once it is complete."""
        state = _state(hook, live)
        if state.state == "ready":
            return None
        cause = self._cause(place, hook)
        if state.state == "failed":
            return _failed(f"{hook}, a hook, failed: {state.message[:_MOST_CHARS]}{cause}")
        left = self._seconds_left(live)
        if left <= 0:
            return _failed(
                f"{hook}, a hook, still runs past its time{cause}; if it needs longer, say so in "
                "its activeDeadlineSeconds"
            )
        text = process.clean(f"{hook}, a hook, runs{cause}")
        return step.waiting(phase.DEPLOYMENT, "HookRunning", text, after=max(1.0, left))

    def _cause(self, place: str, hook: Member) -> str:
        pods = pod_trouble.belonging(self._holdings.inside(PODS, place), {(hook.kind, hook.name)})
        trouble = pod_trouble.of(pods)
        return f"; {trouble.message}" if trouble is not None else ""

    def _seconds_left(self, live: Object) -> float:
        since = moment(live["metadata"]["creationTimestamp"])
        own = float((live.get("spec") or {}).get("activeDeadlineSeconds") or 0)
        may = max(self._deadline_seconds, own)
        return may - (self._clock.now() - since).total_seconds()


def _state(hook: Member, live: Object) -> Readiness:
    if not hooks.is_waited_for(hook.object):
        return readiness.READY
    found = readiness.of(live)
    if hook.kind == "Pod" and (live.get("status") or {}).get("phase") == "Running":
        # One that serves is ready; one that is a hook has to end.
        return Readiness("progressing")
    return found


def _failed(text: str) -> Finding:
    return step.failed(phase.DEPLOYMENT, "HookFailed", process.clean(text))
