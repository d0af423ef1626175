"""Collects the API errors of one reconcile, step by step.

A step that fails does not end the reconcile: the others still do what is safe (REC-2). A
file of its own because both `reconciler` and `source` use it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import structlog

from windlass.kube.errors import ApiError

_log: Any = structlog.get_logger(__name__)


class StepErrors:
    """The faults of one pass, in words that stay the same while the fault does."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    @contextlib.contextmanager
    def collect(self, what: str) -> Iterator[None]:
        """Note what the API server refuses in the block, and go on after it."""
        try:
            yield
        except ApiError as error:
            _log.warning("step failed", step=what, reason=error.reason, error=error.message)
            self.messages.append(f"{what}: {error.reason}")
