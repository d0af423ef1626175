"""Polls the ref of each IgnitionSync: when the remote is asked, and its last result.

| since the last result | the remote is asked |
|---|---|
| another spec, credential or request | at once, without a shared result |
| an agent cannot fetch the published commit | at once, and proven anew (SRC-4) |
| no change, and it succeeded | after the polling interval, or never again |
| no change, and only a person can help | after 5 min |
| no change, and the error is transient | after 5 s, doubling up to 5 min |
| this process has just started | once, sharing a result of the last seconds |

In between a reconcile costs the remote nothing, however often it comes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from windlass.base.clock import Backoff, Clock
from windlass.base.errors import Stalled, WindlassError
from windlass.git.credentials import Credentials
from windlass.git.format.refs import ResolvedRef
from windlass.git.format.remote import Remote
from windlass.objects.names import Key
from windlass.sources import proofs
from windlass.sources.resolver import Resolver

RETRY_SECONDS = 5.0
RETRY_CEILING_SECONDS = 300.0
RETRY_SPREAD = (0.8, 1.2)
"""Which part of a retry's step is waited, at least and at most."""

_STARTUP_MAX_AGE_SECONDS = 10.0
_INTERVAL_JITTER = 0.1


@dataclass(frozen=True, slots=True)
class PollQuery:
    """What is asked; `request` changes when a person wants news.

    `lost` is the commit that was told and that an agent could not get.
    """

    remote: Remote
    fingerprint: str
    ref: str
    request: str
    generation: int = 0
    missing_commit: str = ""


@dataclass(frozen=True, slots=True)
class PollResult:
    """What came of a question: a commit or an error, and when to ask again."""

    query: PollQuery
    resolution: ResolvedRef | None
    error: WindlassError | None
    due_at: float


@dataclass(slots=True)
class _PollState:
    result: PollResult
    backoff: Backoff = field(default_factory=lambda: _new_backoff(random.Random()))


class RefPoller:
    """The questions of all IgnitionSyncs; `on_answer` gets the result and its seconds."""

    def __init__(
        self,
        resolver: Resolver,
        clock: Clock,
        *,
        on_answer: Callable[[str, float], None],
        rng: random.Random | None = None,
    ) -> None:
        self._resolver = resolver
        self._clock = clock
        self._on_answer = on_answer
        self._rng = rng or random.Random()
        self._states: dict[Key, _PollState] = {}

    async def poll(
        self,
        key: Key,
        question: PollQuery,
        credentials: Credentials,
        *,
        interval_seconds: float | None,
    ) -> PollResult:
        """The answer to `question`, from memory where that is good enough."""
        memory = self._states.get(key)
        now = self._clock.monotonic()
        if memory is not None and memory.result.query == question and now < memory.result.due_at:
            return memory.result
        patience = self._max_age_seconds(memory, question, interval_seconds)
        if question.missing_commit:
            self._resolver.forget(question.remote, question.missing_commit)
        try:
            found = await self._resolve_shared(question, credentials, patience)
        except WindlassError as error:
            self._on_answer(error.reason, self._clock.monotonic() - now)
            return self._record_failure(key, question, error)
        self._on_answer("ok", self._clock.monotonic() - now)
        answer = PollResult(question, found, None, self._next_poll(interval_seconds))
        self._states[key] = _PollState(answer)
        return answer

    def seconds_until_due(self, answer: PollResult) -> float | None:
        """How long until the question is asked again; None for never."""
        left = answer.due_at - self._clock.monotonic()
        return max(0.0, left) if left != float("inf") else None

    def is_reported_missing(self, key: Key, commit: str) -> bool:
        """Whether the newest answer is one for a commit that nobody could get.

        That stays so for as long as the commit is told: a report that comes and goes asks once.
        """
        memory = self._states.get(key)
        return memory is not None and memory.result.query.missing_commit == commit

    def forget(self, key: Key) -> None:
        self._states.pop(key, None)

    def _max_age_seconds(
        self, memory: _PollState | None, question: PollQuery, interval_seconds: float | None
    ) -> float:
        """How old an answer that others got may be."""
        if memory is None:
            return _STARTUP_MAX_AGE_SECONDS
        if memory.result.query != question:
            return 0.0
        if memory.result.error is not None or interval_seconds is None:
            return RETRY_SECONDS
        return interval_seconds * (1 - _INTERVAL_JITTER)

    async def _resolve_shared(
        self, question: PollQuery, credentials: Credentials, patience: float
    ) -> ResolvedRef:
        try:
            return await self._resolve(question, credentials, patience)
        except Stalled as error:
            if error.reason != "RefNotFound" or not patience:
                raise
        # The name may be newer than the answer that was shared.
        return await self._resolve(question, credentials, 0.0)

    async def _resolve(
        self, question: PollQuery, credentials: Credentials, patience: float
    ) -> ResolvedRef:
        return await self._resolver.resolve(
            question.remote, credentials, question.ref, max_age_seconds=patience
        )

    def _record_failure(self, key: Key, question: PollQuery, error: WindlassError) -> PollResult:
        memory = self._states.get(key)
        same = memory is not None and memory.result.query == question
        backoff = memory.backoff if memory is not None and same else _new_backoff(self._rng)
        is_stalled = isinstance(error, Stalled)
        wait = proofs.STALLED_SECONDS if is_stalled else backoff.next_seconds()
        answer = PollResult(question, None, error, self._clock.monotonic() + wait)
        self._states[key] = _PollState(answer, backoff)
        return answer

    def _next_poll(self, interval_seconds: float | None) -> float:
        if interval_seconds is None:
            return float("inf")
        factor = self._rng.uniform(1 - _INTERVAL_JITTER, 1 + _INTERVAL_JITTER)
        return self._clock.monotonic() + interval_seconds * factor


def _new_backoff(rng: random.Random) -> Backoff:
    return Backoff(RETRY_SECONDS, RETRY_CEILING_SECONDS, rng, spread=RETRY_SPREAD)
