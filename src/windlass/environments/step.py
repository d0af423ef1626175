"""The result of one step of a reconcile: continue, wait, or stop.

The first step whose result does not continue ends the run. Its result becomes a condition, a row
of `status.steps`, and the time of the next reconcile. Errors of git and of rendering are mapped
to condition and reason below. A result is made by the constructors here.

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
    """The result of one step; use the constructors below."""

    condition: Condition  # what the status reports; its message is that of the step, too
    ends_run: bool = False  # later steps do not run in this reconcile
    requeue_after: float | None = None  # seconds; None = a watch event or the resync
    retry: bool = False  # reconcile again with backoff
    failed: bool = False  # until inputs change
    warning: str = ""  # part of the condition's message, and worth an Event


def success(kind: str, reason: str, message: str) -> StepResult:
    """Continue with the next step; the condition is True."""
    return StepResult(Condition(kind, "True", reason, message))


def with_note(result: StepResult, note: str) -> StepResult:
    """`result` with `note` added to its message, unless it is empty."""
    row = result.condition
    text = f"{row.message}; {note}" if note else row.message
    return replace(result, condition=replace(row, message=text))


def with_warning(result: StepResult, warning: str) -> StepResult:
    """`result` with `warning` added to its message."""
    return replace(with_note(result, warning), warning=warning)


def waiting(kind: str, reason: str, message: str, *, after: float | None = None) -> StepResult:
    """Wait for a watch event or `after` seconds; the condition is False."""
    return StepResult(Condition(kind, "False", reason, message), ends_run=True, requeue_after=after)


def pending(kind: str, reason: str, message: str, *, after: float | None = None) -> StepResult:
    """Wait for something in progress without an error; the condition is Unknown."""
    return StepResult(
        Condition(kind, "Unknown", reason, message), ends_run=True, requeue_after=after
    )


def failed(kind: str, reason: str, message: str) -> StepResult:
    """Stop until inputs change; the condition is False."""
    return StepResult(Condition(kind, "False", reason, message), ends_run=True, failed=True)


def retrying(kind: str, reason: str, message: str) -> StepResult:
    """Reconcile again with backoff after a temporary error; the condition is False."""
    return StepResult(Condition(kind, "False", reason, message), ends_run=True, retry=True)


_RENDER_REASONS = frozenset({"RenderUnavailable", "SandboxUnavailable"})
_SOURCE_REASONS = {
    "AuthFailed": "GitAuthFailed",
    "SecretMissing": "GitAuthFailed",
    "SecretKeyMissing": "GitAuthFailed",
    "SecretMalformed": "GitAuthFailed",
    "TooLarge": "SourceTooLarge",
}
"""Reasons of errors whose condition has another; one that is not terminal is GitUnavailable."""


def from_render_error(error: WindlassError) -> StepResult:
    """The result of the step render for an error while reading files or rendering."""
    if error.reason not in _RENDER_REASONS and not isinstance(error, ApiError):
        return from_source_error(error)
    text = f"{error.reason}: {error.message}"
    if isinstance(error, Stalled):
        return failed(phase.DEPLOYMENT, error.reason, error.message)
    if isinstance(error, Waiting):
        result = waiting(phase.DEPLOYMENT, "Rendering", text, after=error.after)
    else:
        result = retrying(phase.DEPLOYMENT, "Rendering", text)
    # Unknown, not False: what was applied before keeps running, so nothing is degraded.
    return replace(result, condition=replace(result.condition, status="Unknown"))


def from_source_error(error: WindlassError) -> StepResult:
    """The result of the step source for an error while resolving commits."""
    reason = _SOURCE_REASONS.get(error.reason, error.reason)
    after = error.after if isinstance(error, Stalled | Waiting) else None
    if reason in phase.TERMINAL_REASONS[phase.BUILD]:
        return replace(failed(phase.BUILD, reason, error.message), requeue_after=after)
    if after is not None:
        return waiting(phase.BUILD, "GitUnavailable", error.message, after=after)
    return retrying(phase.BUILD, "GitUnavailable", error.message)
