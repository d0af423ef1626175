"""The result of one step of a reconcile: continue, wait, or stop; and how errors become one.

The first step whose result does not continue ends the run. Its result becomes a condition, a row
of `status.steps`, and the time of the next reconcile. Errors of git and of rendering are mapped
to condition and reason by the two tables below.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.environments import phase
from windlass.kube.errors import ApiError
from windlass.objects.condition import Condition


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step; `ends` stops the pass here, `failed` until inputs change.

    A `warning` is part of the condition's message, and worth an event.
    """

    condition: Condition
    ends_run: bool = False
    requeue_after: float | None = None
    retry: bool = False
    failed: bool = False
    warning: str = ""


def success(kind: str, reason: str, message: str) -> StepResult:
    """The step holds; the next one may be looked at."""
    return StepResult(Condition(kind, "True", reason, message))


def with_warning(finding: StepResult, warning: str) -> StepResult:
    """The same, with something that somebody should know."""
    row = finding.condition
    text = f"{row.message}; {warning}"
    return replace(finding, condition=replace(row, message=text), warning=warning)


def waiting(kind: str, reason: str, message: str, *, after: float | None = None) -> StepResult:
    """Something else must happen first; a watch or `after` seconds lead back here."""
    return StepResult(Condition(kind, "False", reason, message), ends_run=True, requeue_after=after)


def pending(kind: str, reason: str, message: str, *, after: float | None = None) -> StepResult:
    """The same for something that is under way: nothing is known to be wrong."""
    return StepResult(
        Condition(kind, "Unknown", reason, message), ends_run=True, requeue_after=after
    )


def failed(kind: str, reason: str, message: str) -> StepResult:
    """Inputs must change."""
    return StepResult(Condition(kind, "False", reason, message), ends_run=True, failed=True)


def retrying(kind: str, reason: str, message: str) -> StepResult:
    """A fault that may pass; the next look comes with backoff."""
    return StepResult(Condition(kind, "False", reason, message), ends_run=True, retry=True)


_RENDER_REASONS = frozenset({"RenderUnavailable", "SandboxUnavailable"})
_SOURCE_REASONS = {
    "AuthFailed": "GitAuthFailed",
    "SecretMissing": "GitAuthFailed",
    "SecretKeyMissing": "GitAuthFailed",
    "HostKeyMismatch": "HostKeyMismatch",
    "RepoNotFound": "RepoNotFound",
    "RefNotFound": "RefNotFound",
    "CommitNotOnRef": "CommitNotOnRef",
    "UnsafePath": "UnsafePath",
    "SourceTooLarge": "SourceTooLarge",
    "TooLarge": "SourceTooLarge",
}


def from_render_error(error: WindlassError) -> StepResult:
    """What keeps the files or the render from us, as a condition says it."""
    if error.reason not in _RENDER_REASONS and not isinstance(error, ApiError):
        return from_source_error(error)
    text = f"{error.reason}: {error.message}"
    if isinstance(error, Stalled):
        return failed(phase.DEPLOYMENT, error.reason, error.message)
    if isinstance(error, Waiting):
        finding = waiting(phase.DEPLOYMENT, "Rendering", text, after=error.after)
    else:
        finding = retrying(phase.DEPLOYMENT, "Rendering", text)
    # Nothing got worse: what ran before runs on.
    return replace(finding, condition=replace(finding.condition, status="Unknown"))


def from_source_error(error: WindlassError) -> StepResult:
    """What keeps the commits from us, as a condition says it."""
    reason = _SOURCE_REASONS.get(error.reason, "GitUnavailable")
    text = f"{error.reason}: {error.message}"
    after = error.after if isinstance(error, Stalled | Waiting) else None
    if reason in phase.TERMINAL_REASONS[phase.BUILD]:
        return replace(failed(phase.BUILD, reason, text), requeue_after=after)
    if after is not None:
        return waiting(phase.BUILD, reason, text, after=after)
    return retrying(phase.BUILD, reason, text)
