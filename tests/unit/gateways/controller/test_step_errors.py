"""Errors of single steps of a reconcile."""

from __future__ import annotations

import structlog

from windlass.gateways.controller.step_errors import StepErrors
from windlass.kube.errors import ApiError


def _failed(known: list[str], reason: str) -> list[str]:
    errors = StepErrors(known)
    with errors.collect("metadata ConfigMap"):
        raise ApiError(503, reason, "no answer")
    return errors.messages


def test_a_step_that_fails_alike_is_logged_once() -> None:
    """The next reconcile knows what the last one has logged; another reason is logged again."""
    with structlog.testing.capture_logs() as lines:
        first = _failed([], "Unavailable")
        assert _failed(first, "Unavailable") == first == ["metadata ConfigMap: Unavailable"]
        _failed(first, "Forbidden")
    assert [line["reason"] for line in lines] == ["Unavailable", "Forbidden"]
