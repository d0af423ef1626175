"""What keeps commits, files or a render from us, as a condition says it."""

from __future__ import annotations

from dataclasses import replace

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.environments.decide import phase, step
from windlass.environments.decide.step import Finding
from windlass.kube.errors import ApiError

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


def of_render(error: WindlassError) -> Finding:
    """What keeps the files or the render from us, as a condition says it."""
    if error.reason not in _RENDER_REASONS and not isinstance(error, ApiError):
        return of_source(error)
    text = f"{error.reason}: {error.message}"
    if isinstance(error, Stalled):
        return step.failed(phase.DEPLOYMENT, error.reason, error.message)
    if isinstance(error, Waiting):
        finding = step.waiting(phase.DEPLOYMENT, "Rendering", text, after=error.after)
    else:
        finding = step.retrying(phase.DEPLOYMENT, "Rendering", text)
    # Nothing got worse: what ran before runs on.
    return replace(finding, condition=replace(finding.condition, status="Unknown"))


def of_source(error: WindlassError) -> Finding:
    """What keeps the commits from us, as a condition says it."""
    reason = _SOURCE_REASONS.get(error.reason, "GitUnavailable")
    text = f"{error.reason}: {error.message}"
    after = error.after if isinstance(error, Stalled | Waiting) else None
    if reason in phase.TERMINAL[phase.BUILD]:
        return replace(step.failed(phase.BUILD, reason, text), after=after)
    if after is not None:
        return step.waiting(phase.BUILD, reason, text, after=after)
    return step.retrying(phase.BUILD, reason, text)
