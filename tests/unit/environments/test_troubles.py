"""What keeps commits, files or a render from us, as a condition says it."""

from __future__ import annotations

import pytest

from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.environments import troubles
from windlass.environments.decide import phase
from windlass.kube.errors import Forbidden


@pytest.mark.parametrize(
    ("error", "kind", "reason", "failed"),
    [
        (Stalled("SandboxUnavailable", "x"), phase.DEPLOYMENT, "SandboxUnavailable", True),
        (Retryable("RenderUnavailable", "x"), phase.DEPLOYMENT, "Rendering", False),
        (Forbidden(403, "Forbidden", "x"), phase.DEPLOYMENT, "Rendering", False),
        (Stalled("UnsafePath", "x"), phase.BUILD, "UnsafePath", True),
        (Stalled("TooLarge", "x"), phase.BUILD, "SourceTooLarge", True),
        (Retryable("Unreachable", "x"), phase.BUILD, "GitUnavailable", False),
    ],
)
def test_each_trouble_has_its_condition(
    error: WindlassError, kind: str, reason: str, failed: bool
) -> None:
    """What may pass is tried again; for the rest somebody has to change something."""
    found = troubles.of_render(error)
    assert (found.condition.type, found.condition.reason) == (kind, reason)
    assert (found.failed, found.retry) == (failed, not failed)
