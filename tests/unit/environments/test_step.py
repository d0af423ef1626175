"""Step results of failures to get commits, files or a render."""

from __future__ import annotations

import pytest

from windlass.base.errors import Retryable, Stalled, Waiting, WindlassError
from windlass.environments import phase, step
from windlass.environments.phase import PhaseContext
from windlass.git.errors import InsecureTransport, SecretMalformed
from windlass.kube.errors import Forbidden
from windlass.objects.condition import Condition
from windlass.sources import proofs


@pytest.mark.parametrize(
    ("error", "kind", "reason", "failed"),
    [
        (Stalled("SandboxUnavailable", "x"), phase.DEPLOYMENT, "SandboxUnavailable", True),
        (Retryable("SandboxUnavailable", "x"), phase.DEPLOYMENT, "Rendering", False),
        (Retryable("RenderUnavailable", "x"), phase.DEPLOYMENT, "Rendering", False),
        (Forbidden(403, "Forbidden", "x"), phase.DEPLOYMENT, "Rendering", False),
        (Stalled("UnsafePath", "x"), phase.BUILD, "UnsafePath", True),
        (Stalled("TooLarge", "x"), phase.BUILD, "SourceTooLarge", True),
        (Stalled("RepoNotFound", "x"), phase.BUILD, "RepoNotFound", True),
        (Retryable("Unreachable", "x"), phase.BUILD, "GitUnavailable", False),
    ],
)
def test_each_failure_has_its_condition(
    error: WindlassError, kind: str, reason: str, failed: bool
) -> None:
    """A temporary failure is retried; the rest needs a change by a user."""
    result = step.from_render_error(error)
    assert (result.condition.type, result.condition.reason) == (kind, reason)
    assert (result.failed, result.retry) == (failed, not failed)


def test_waiting_for_a_render_slot_is_no_failure() -> None:
    """Other charts are rendered first, then it is tried again."""
    result = step.from_render_error(Waiting("RenderUnavailable", "x", after=5.0))
    assert (result.condition.type, result.condition.reason) == (phase.DEPLOYMENT, "Rendering")
    assert (result.failed, result.retry, result.requeue_after) == (False, False, 5.0)


@pytest.mark.parametrize(
    "error",
    [Waiting("RenderUnavailable", "x", after=5.0), Retryable("SandboxUnavailable", "x")],
)
def test_a_waiting_render_does_not_degrade_the_environment(error: WindlassError) -> None:
    """It is on its way to the next revision, which is unknown yet."""
    rows = [Condition(kind, "True", "x", "x") for kind in phase.CONDITIONS]
    rows.append(step.from_render_error(error).condition)
    standing = phase.derive_phase({row.type: row for row in rows}, PhaseContext(was_ready=True))
    assert standing.phase == "Deploying"


@pytest.mark.parametrize(
    "error",
    [
        Stalled("RefNotFound", "no branch x"),
        Stalled("SecretMissing", "no Secret x"),
        Retryable("Unavailable", "no answer"),
    ],
)
def test_a_message_has_no_reason_before_it(error: WindlassError) -> None:
    """The message names the cause, once."""
    assert step.from_source_error(error).condition.message == error.message


@pytest.mark.parametrize(
    "error",
    [
        *(proofs.resolution_error(reason, "x") for reason in sorted(proofs.STALLED_CAUSES)),
        Stalled("ConfigInvalid", "x"),
        InsecureTransport("x"),
        SecretMalformed("x"),
    ],
    ids=lambda error: error.reason,
)
def test_a_source_that_needs_a_person_fails_the_environment(error: Stalled) -> None:
    """With the reason of the error; AuthFailed and an unusable Secret are GitAuthFailed."""
    result = step.from_source_error(error)
    renamed = {"AuthFailed": "GitAuthFailed", "SecretMalformed": "GitAuthFailed"}
    assert result.condition.reason == renamed.get(error.reason, error.reason)
    assert result.failed
    assert not result.retry
    assert result.requeue_after == error.after
    assert phase.derive_phase({phase.BUILD: result.condition}, PhaseContext()).phase == "Failed"
