"""Worker loop of a controller: takes a key, reconciles it, reports the outcome, schedules the next.

Every capability runs one `Controller` per kind. A failing reconcile costs its own key a backoff
and delays no other key; only `Fatal` ends the controller, and then `run` raises it. A key is
given back to its queue whatever happens.

`failure_outcome` decides what an exception of a reconcile means for its object:

| raised               | Ready | Reconciling | Stalled | reconciled again           |
|----------------------|-------|-------------|---------|----------------------------|
| Waiting(after)       | False | True        | -       | after `after`              |
| Stalled              | False | -           | True    | on change, or after `after`|
| Retryable            | False | True        | -       | backoff, or after `after`  |
| other WindlassError  | False | True        | -       | backoff                    |
| anything else        | False | True        | -       | backoff                    |
| Pending              | status stays as it is         | with the answer            |

An error is logged once per key until the key has another one, or none; a crash every time.

Each of them but Pending is recorded as a Warning event: a reconcile that cannot do its work is a
failure, also where it is retried without anyone's help.

The text of an unknown exception goes to the log only: it may contain anything, and text that
differs each time would write the status each time. An id that stays the same leads from the
condition to the log. `Fatal` has no outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import structlog
from structlog.contextvars import bound_contextvars

from windlass.base.errors import (
    Fatal,
    Pending,
    Retryable,
    Stalled,
    Waiting,
    WindlassError,
    error_id,
)
from windlass.base.redaction import process
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.queue import K, KeyedQueue

INTERNAL = "InternalError"


def root_cause(error: BaseException) -> BaseException:
    """The error that decides: in a group a Fatal, else the first WindlassError, else the first."""
    leaves = _leaves(error)
    for kind in (Fatal, WindlassError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def failure_outcome(error: BaseException) -> Outcome:
    """The outcome of a reconcile that raised `error`, by the table above."""
    if isinstance(error, Stalled):
        return Outcome(_failed_verdict(error), stalled=True, requeue_after=error.after)
    # A wait of 0 s would spin: then the backoff decides.
    if isinstance(error, Waiting | Retryable) and error.after is not None and error.after > 0:
        return Outcome(
            _failed_verdict(error), reconciling=True, requeue_after=error.after, warns=True
        )
    if isinstance(error, WindlassError):
        return Outcome(_failed_verdict(error), reconciling=True, backoff=True)
    return Outcome(_unexpected_verdict(error), reconciling=True, backoff=True)


def _failed_verdict(error: WindlassError) -> Verdict:
    return Verdict("False", error.reason, process.clean(error.message))


def _unexpected_verdict(error: BaseException) -> Verdict:
    kind, name = type(error).__name__, error_id(error)
    text = f"unexpected {kind}, error id {name}; see the controller log"
    return Verdict("False", INTERNAL, text)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for child in error.exceptions for leaf in _leaves(child)]


DEFAULT_WORKERS = 4
PENDING_SECONDS = 3.0
"""When an object whose answer is under way is reconciled again, to report that it waits."""

Result = Literal["done", "waiting", "stalled", "failed", "gone", "postponed"]
Reconcile = Callable[[K], Awaitable[Outcome]]
S = TypeVar("S")
KIn = TypeVar("KIn", contravariant=True)

_log: Any = structlog.get_logger()


class OutcomeReporter(Protocol[KIn, S]):
    """Writes outcomes to objects; `snapshot` was taken before the reconcile it answers for."""

    def read_status(self, key: KIn) -> S: ...

    async def report(self, key: KIn, snapshot: S, outcome: Outcome) -> None: ...


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """One finished reconcile, for metrics."""

    controller: str
    result: Result
    seconds: float


class Controller(Generic[K]):
    """Reconciles the keys of one queue, `workers` keys at a time."""

    def __init__(
        self,
        name: str,
        queue: KeyedQueue[K],
        reconcile: Reconcile[K],
        *,
        reporter: OutcomeReporter[K, Any] | None = None,
        workers: int = DEFAULT_WORKERS,
        on_result: Callable[[ReconcileResult], None] | None = None,
    ) -> None:
        self.name = name  # in task names, log lines and metrics
        self._queue = queue
        self._reconcile = reconcile
        self._reporter = reporter
        self._workers = workers
        self._on_result = on_result
        # Reason and message of the error that was logged last, of keys that still have it.
        self._logged_errors: dict[K, tuple[str, str]] = {}

    async def run(self) -> None:
        """Work until cancelled; raises the `Fatal` of a reconcile."""
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name}-{number}")
            for number in range(self._workers)
        ]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in ended:
                worker.result()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                with bound_contextvars(controller=self.name, key=str(key)):
                    await self._process(key)
            finally:
                self._queue.done(key)

    async def _process(self, key: K) -> None:
        """Reconcile one key, schedule its next reconcile, and measure the time."""
        started = asyncio.get_running_loop().time()
        outcome = await self._catch_errors(key, self._reconcile_and_report(key))
        self._schedule(key, outcome)
        if self._on_result is not None:
            seconds = asyncio.get_running_loop().time() - started
            self._on_result(ReconcileResult(self.name, _result(outcome), seconds))

    async def _reconcile_and_report(self, key: K) -> Outcome:
        """Reconcile and report; an error while reporting is an error of the reconcile."""
        if self._reporter is None:
            return await self._catch_errors(key, self._reconcile_key(key))
        snapshot = self._reporter.read_status(key)
        outcome = await self._catch_errors(key, self._reconcile_key(key))
        await self._reporter.report(key, snapshot, outcome)
        return outcome

    async def _reconcile_key(self, key: K) -> Outcome:
        outcome = await self._reconcile(key)
        if not outcome.is_postponed:
            self._logged_errors.pop(key, None)
        return outcome

    async def _catch_errors(self, key: K, work: Awaitable[Outcome]) -> Outcome:
        """The outcome of `work` or of its error; `Fatal` and our own cancellation propagate."""
        try:
            return await work
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Cancelled by a task of the reconcile itself: an error of that key, not our shutdown.
            return self._failed_outcome(key, error)
        except Pending:
            return Outcome.postponed(PENDING_SECONDS)
        except Exception as error:
            cause = root_cause(error)
            if isinstance(cause, Fatal):
                raise cause from error
            return self._failed_outcome(key, cause)

    def _failed_outcome(self, key: K, error: BaseException) -> Outcome:
        """The outcome of `error`, which is logged unless it is the one that was logged last."""
        if not isinstance(error, WindlassError):
            _log_failure(error)
        elif self._logged_errors.get(key) != (error.reason, error.message):
            self._logged_errors[key] = (error.reason, error.message)
            _log_failure(error)
        return failure_outcome(error)

    def _schedule(self, key: K, outcome: Outcome) -> None:
        if outcome.backoff:
            seconds = self._queue.retry(key)
            _log.debug("backing off", seconds=round(seconds, 3))
        elif not outcome.is_postponed:
            # A reconcile that was postponed did not succeed: its key keeps its backoff.
            self._queue.forget(key)
        if outcome.requeue_after is not None:
            self._queue.add_after(key, outcome.requeue_after)


def _log_failure(error: BaseException) -> None:
    if isinstance(error, Waiting):
        _log.debug("waiting", reason=error.reason, message=error.message, after=error.after)
    elif isinstance(error, Stalled):
        _log.warning("stalled", reason=error.reason, message=error.message)
    elif isinstance(error, Retryable):
        _log.warning("retrying", reason=error.reason, message=error.message, after=error.after)
    elif isinstance(error, WindlassError):
        _log.error("failed", reason=error.reason, message=error.message)
    else:
        _log.error("crashed", reason=INTERNAL, error_id=error_id(error), exc_info=error)


def _result(outcome: Outcome) -> Result:
    if outcome.is_gone:
        return "postponed" if outcome.is_postponed else "gone"
    if outcome.stalled:
        return "stalled"
    if outcome.backoff:
        return "failed"
    return "waiting" if outcome.reconciling else "done"
