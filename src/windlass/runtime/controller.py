"""The worker loop: takes a key, runs one pass, reports it, decides when to look again.

What an error means is decided by `failure`. A pass that fails costs its own key a
backoff and nobody else anything; only `Fatal` ends the controller, and then `run`
raises it. A key is given back to its queue whatever happens.

What an exception of a pass means for its object.

| raised               | Ready | Reconciling | Stalled | looked at again            |
|----------------------|-------|-------------|---------|----------------------------|
| Waiting(after)       | False | True        | -       | after `after`              |
| Stalled              | False | -           | True    | on change, or after `after`|
| Retryable            | False | True        | -       | backoff, or after `after`  |
| other WindlassError  | False | True        | -       | backoff                    |
| anything else        | False | True        | -       | backoff                    |

All of them are told as Warning events: a pass that cannot do its work is a failure, also
where it comes again by itself.

The text of an unknown exception goes to the log alone: it may hold anything, and
text that differs each time would write the status each time. An id that stays the same
leads from the condition to the log. `Fatal` has no outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import structlog
from structlog.contextvars import bound_contextvars

from windlass.base.errors import Fatal, Retryable, Stalled, Waiting, WindlassError, error_id
from windlass.base.redaction import process
from windlass.runtime.outcome import Outcome, Verdict
from windlass.runtime.queue import K, KeyedQueue

INTERNAL = "InternalError"


def root_cause(error: BaseException) -> BaseException:
    """The error that decides: of a group the Fatal one, else the first of ours, else the first."""
    leaves = _leaves(error)
    for kind in (Fatal, WindlassError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def failure_outcome(error: BaseException) -> Outcome:
    """The outcome of a pass that ended in `error`, by the table above."""
    if isinstance(error, Stalled):
        return Outcome(_verdict(error), stalled=True, requeue_after=error.after)
    # A wait of nothing would spin: then the backoff decides.
    if isinstance(error, Waiting | Retryable) and error.after is not None and error.after > 0:
        return Outcome(_verdict(error), reconciling=True, requeue_after=error.after, warns=True)
    if isinstance(error, WindlassError):
        return Outcome(_verdict(error), reconciling=True, backoff=True)
    return Outcome(_unexpected(error), reconciling=True, backoff=True)


def _verdict(error: WindlassError) -> Verdict:
    return Verdict("False", error.reason, process.clean(error.message))


def _unexpected(error: BaseException) -> Verdict:
    kind, name = type(error).__name__, error_id(error)
    text = f"unexpected {kind}, error id {name}; the log of the controller says where"
    return Verdict("False", INTERNAL, text)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for child in error.exceptions for leaf in _leaves(child)]


DEFAULT_WORKERS = 4

Result = Literal["done", "waiting", "stalled", "failed", "gone", "postponed"]
Reconcile = Callable[[K], Awaitable[Outcome]]
S = TypeVar("S")
KIn = TypeVar("KIn", contravariant=True)

_log: Any = structlog.get_logger()


class OutcomeReporter(Protocol[KIn, S]):
    """Who writes outcomes down; what `look` saw before the pass is what the pass answers."""

    def read_status(self, key: KIn) -> S: ...

    async def report(self, key: KIn, seen: S, outcome: Outcome) -> None: ...


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """One finished pass, for whoever counts."""

    controller: str
    result: Result
    seconds: float


class Controller(Generic[K]):
    """`workers` passes at a time over the keys of one queue."""

    def __init__(
        self,
        name: str,
        queue: KeyedQueue[K],
        reconcile: Reconcile[K],
        *,
        reporter: OutcomeReporter[K, Any] | None = None,
        workers: int = DEFAULT_WORKERS,
        on_pass: Callable[[ReconcileResult], None] | None = None,
    ) -> None:
        self.name = name
        self._queue = queue
        self._reconcile = reconcile
        self._reporter = reporter
        self._workers = workers
        self._on_pass = on_pass

    async def run(self) -> None:
        """Work until the queue is shut down and served; raises the `Fatal` of a pass."""
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
        while (key := await self._queue.get()) is not None:
            try:
                with bound_contextvars(controller=self.name, key=str(key)):
                    await self._serve(key)
            finally:
                self._queue.done(key)

    async def _serve(self, key: K) -> None:
        """One pass, timed, and the wish for the next one."""
        started = asyncio.get_running_loop().time()
        outcome = await self._guarded(self._pass(key))
        self._schedule(key, outcome)
        if self._on_pass is not None:
            seconds = asyncio.get_running_loop().time() - started
            self._on_pass(ReconcileResult(self.name, _result(outcome), seconds))

    async def _pass(self, key: K) -> Outcome:
        """Reconcile and report; an error in reporting is an error of the pass."""
        if self._reporter is None:
            return await self._guarded(self._reconcile(key))
        seen = self._reporter.read_status(key)
        outcome = await self._guarded(self._reconcile(key))
        await self._reporter.report(key, seen, outcome)
        return outcome

    async def _guarded(self, work: Awaitable[Outcome]) -> Outcome:
        """The outcome of `work`, or what its error means; `Fatal` and our own end pass."""
        try:
            return await work
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Cancelled from inside, by a task of the pass itself: its fault, not our end.
            return _judged(error)
        except Exception as error:
            cause = root_cause(error)
            if isinstance(cause, Fatal):
                raise cause from error
            return _judged(cause)

    def _schedule(self, key: K, outcome: Outcome) -> None:
        if outcome.backoff:
            seconds = self._queue.retry(key)
            _log.debug("backing off", seconds=round(seconds, 3))
        else:
            self._queue.forget(key)
        if outcome.requeue_after is not None:
            self._queue.add_after(key, outcome.requeue_after)


def _judged(error: BaseException) -> Outcome:
    _say(error)
    return failure_outcome(error)


def _say(error: BaseException) -> None:
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
