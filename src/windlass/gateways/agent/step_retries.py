"""The retry state of the agent's loop: its last failure, and when a step may run again.

A failed step is retried after its delay, or at once when an input changes that it may depend on:
the key of the failed inputs no longer matches then. The delay is the one that the reason of the
failure asks for, else a backoff that grows with every failure of the same inputs. While a
credential is missing or refused the loop looks at it more often, because mounted Secrets change
without an event.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import structlog

from windlass.base.clock import Backoff, Clock
from windlass.base.errors import WindlassError
from windlass.gateways.agent import failure_reasons
from windlass.gateways.agent.status import GatewayCondition

FIRST_RETRY_SECONDS = 5.0
MAX_RETRY_SECONDS = 300.0
CHECK_SECONDS = 5.0
"""How often the loop looks at mounted files and at a gateway that it waits for."""

_CREDENTIAL_REASONS = frozenset(("ScanUnauthorized", "WaitingForCredential"))

_log: Any = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StepFailure:
    """The last failed step: its inputs, its retry time, and the condition to publish."""

    # `AgentInputs.retry_key` of the failed turn.
    key: tuple[object, ...]
    # Monotonic time before which the same inputs are not tried again.
    until: float
    condition: GatewayCondition

    @property
    def is_for_credential(self) -> bool:
        """Whether the API token or the Git Secret has to change."""
        return self.condition.reason in _CREDENTIAL_REASONS


class StepRetries:
    """The last failure of the loop and the backoff of its inputs."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        # Grows with every failure of the same inputs; reset by a success and by other inputs.
        self._backoff = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, rng)
        # None once a step succeeded or there was nothing to do.
        self.failure: StepFailure | None = None

    def record_failure(
        self, step: str, key: tuple[object, ...], error: WindlassError, *, has_data: bool
    ) -> tuple[GatewayCondition, float]:
        """Record a failure and log it as that of `step`; return its condition and the seconds
        until the next turn.
        """
        reason = failure_reasons.failure_reason(error, has_data=has_data)
        condition = GatewayCondition(
            reason.status,
            reason.reason,
            reason.message,
            degraded=reason.is_source_failure and has_data,
        )
        previous = self.failure
        if previous is not None and previous.key != key:
            self._backoff.healthy()
        seconds = reason.retry_seconds
        if seconds is None:
            seconds = self._backoff.next_seconds()
        self.failure = StepFailure(key, self._clock.monotonic() + seconds, condition)
        # The same failure again is logged once, however often it is retried.
        if previous is None or previous.condition != condition:
            _log.warning(
                f"{step} failed", reason=reason.reason, error=reason.message, again_seconds=seconds
            )
        is_checked = self.failure.is_for_credential
        return condition, min(seconds, CHECK_SECONDS) if is_checked else seconds

    def record_success(self) -> None:
        """Forget the failure and reset the backoff."""
        self._backoff.healthy()
        self.failure = None

    def is_retry(self, key: tuple[object, ...]) -> bool:
        """Whether a step for `key` repeats the one that failed last."""
        return self.failure is not None and self.failure.key == key

    def wait_seconds(self, key: tuple[object, ...]) -> float:
        """Seconds until a step for `key` may run; 0 for inputs that have not failed."""
        if self.failure is None or not self.is_retry(key):
            return 0.0
        return max(0.0, self.failure.until - self._clock.monotonic())
