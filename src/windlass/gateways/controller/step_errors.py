"""Collects the API errors of one reconcile, step by step.

A step that fails does not end the reconcile: the others still do what is safe (REC-2). A
file of its own because both `reconciler` and `source` use it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import structlog

from windlass.kube.errors import ApiError

_log: Any = structlog.get_logger(__name__)


class StepErrors:
    """The API errors of one reconcile; equal errors give equal messages, for stable conditions.

    `known` are the messages of the last reconcile; those are not logged again.
    """

    def __init__(self, known: Collection[str] = ()) -> None:
        self._known = known
        self.messages: list[str] = []

    @contextlib.contextmanager
    def collect(self, what: str) -> Iterator[None]:
        """Record an API error of the block and continue after it; other errors propagate."""
        try:
            yield
        except ApiError as error:
            message = f"{what}: {error.reason}"
            if message not in self._known:
                _log.warning(
                    "reconcile step failed", step=what, reason=error.reason, error=error.message
                )
            self.messages.append(message)
