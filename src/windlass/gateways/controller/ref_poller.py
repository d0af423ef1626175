"""Polls the ref of each IgnitionSync: when the remote is queried, and its last result.

| since the last result | the remote is queried |
|---|---|
| another spec, credential or request | at once, without a shared result |
| an agent cannot fetch the published commit | at once, and proven anew (SRC-4) |
| no change, and it succeeded | after the polling interval, or never again |
| no change, and only a person can help | after 5 min |
| no change, and the error is transient | after 5 s, doubling up to 5 min |
| this process has just started | once, sharing a result of the last seconds |

In between a reconcile costs the remote nothing, however often it comes. While the remote is
queried for a query that it answered before, that answer holds; else the reconcile is `Pending`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from windlass.base.clock import Backoff, Clock
from windlass.base.errors import Pending, Stalled, WindlassError
from windlass.git.credentials import Credentials
from windlass.git.format.refs import ResolvedRef
from windlass.git.format.remote import Remote
from windlass.objects.names import Key
from windlass.runtime.pending_calls import PendingCalls
from windlass.sources import proofs
from windlass.sources.resolver import Resolver

RETRY_SECONDS = 5.0
RETRY_CEILING_SECONDS = 300.0
RETRY_SPREAD = (0.8, 1.2)
"""Bounds of the random factor of each retry delay."""

_STARTUP_MAX_AGE_SECONDS = 10.0
_INTERVAL_JITTER = 0.1


@dataclass(frozen=True, slots=True)
class PollQuery:
    """What is polled; a query that differs in any field is polled at once."""

    remote: Remote  # the repository of the spec
    fingerprint: str  # of the credentials, so that a new Secret is tried at once
    ref: str  # as in the spec: branch, tag, full ref or commit
    request: str  # newest reconcile request of a user; empty if there is none
    generation: int = 0  # of the IgnitionSync
    missing_commit: str = ""  # published commit that an agent could not fetch; usually empty


@dataclass(frozen=True, slots=True)
class PollResult:
    """The answer to a query: a commit or an error, and when to poll again."""

    query: PollQuery
    resolution: ResolvedRef | None  # None exactly if there is an error
    error: WindlassError | None
    due_at: float  # monotonic; infinite if only a new query leads to another poll


@dataclass(slots=True)
class _PollState:
    """The last result for one IgnitionSync; the backoff restarts with every new query."""

    result: PollResult
    backoff: Backoff = field(default_factory=lambda: _new_backoff(random.Random()))


class RefPoller:
    """Polls remotes for all IgnitionSyncs; `on_result` gets each result's reason and seconds."""

    def __init__(
        self,
        resolver: Resolver,
        calls: PendingCalls,
        clock: Clock,
        *,
        on_result: Callable[[str, float], None],
        rng: random.Random | None = None,
    ) -> None:
        self._resolver = resolver
        self._calls = calls
        self._clock = clock
        self._on_result = on_result
        self._rng = rng or random.Random()
        # The last result per IgnitionSync; only in memory, so a restart polls each ref once.
        self._states: dict[Key, _PollState] = {}

    async def poll(
        self,
        key: Key,
        query: PollQuery,
        credentials: Credentials,
        *,
        interval_seconds: float | None,
    ) -> PollResult:
        """The result for `query`: the last one until it is due, else a new one."""
        state = self._states.get(key)
        now = self._clock.monotonic()
        if state is not None and state.result.query == query and now < state.result.due_at:
            return state.result
        try:
            resolution = await self._calls.result(
                key,
                "ref",
                query,
                lambda: self._resolve_timed(
                    query, credentials, self._max_age_seconds(state, query, interval_seconds)
                ),
            )
        except Pending:
            if state is None or state.result.query != query:
                raise
            # Due again when the answer is there, which queues the key.
            return replace(state.result, due_at=float("inf"))
        except WindlassError as error:
            return self._record_failure(key, query, error)
        result = PollResult(query, resolution, None, self._next_poll(interval_seconds))
        self._states[key] = _PollState(result)
        return result

    def seconds_until_due(self, result: PollResult) -> float | None:
        """How long until the query is polled again; None for never."""
        left = result.due_at - self._clock.monotonic()
        return max(0.0, left) if left != float("inf") else None

    def is_reported_missing(self, key: Key, commit: str) -> bool:
        """Whether the newest query already carried `commit` as missing.

        That holds for as long as the commit is published, so an agent's report that comes and
        goes leads to one poll only.
        """
        state = self._states.get(key)
        return state is not None and state.result.query.missing_commit == commit

    def forget(self, key: Key) -> None:
        self._states.pop(key, None)
        self._calls.forget(key)

    def _max_age_seconds(
        self, state: _PollState | None, query: PollQuery, interval_seconds: float | None
    ) -> float:
        """How old a listing of the same remote may be that another IgnitionSync requested."""
        if state is None:
            return _STARTUP_MAX_AGE_SECONDS
        if state.result.query != query:
            return 0.0
        if state.result.error is not None or interval_seconds is None:
            return RETRY_SECONDS
        return interval_seconds * (1 - _INTERVAL_JITTER)

    async def _resolve_timed(
        self, query: PollQuery, credentials: Credentials, max_age_seconds: float
    ) -> ResolvedRef:
        began, reason = self._clock.monotonic(), "ok"
        if query.missing_commit:
            # Without its proof the commit must be found on the server again (SRC-4).
            self._resolver.forget(query.remote, query.missing_commit)
        try:
            return await self._resolve_shared(query, credentials, max_age_seconds)
        except WindlassError as error:
            reason = error.reason
            raise
        finally:
            self._on_result(reason, self._clock.monotonic() - began)

    async def _resolve_shared(
        self, query: PollQuery, credentials: Credentials, max_age_seconds: float
    ) -> ResolvedRef:
        try:
            return await self._resolve(query, credentials, max_age_seconds)
        except Stalled as error:
            if error.reason != "RefNotFound" or not max_age_seconds:
                raise
        # The ref may have been created after the shared listing.
        return await self._resolve(query, credentials, 0.0)

    async def _resolve(
        self, query: PollQuery, credentials: Credentials, max_age_seconds: float
    ) -> ResolvedRef:
        return await self._resolver.resolve(
            query.remote, credentials, query.ref, max_age_seconds=max_age_seconds
        )

    def _record_failure(self, key: Key, query: PollQuery, error: WindlassError) -> PollResult:
        state = self._states.get(key)
        is_same_query = state is not None and state.result.query == query
        backoff = state.backoff if state is not None and is_same_query else _new_backoff(self._rng)
        is_stalled = isinstance(error, Stalled)
        wait = proofs.STALLED_SECONDS if is_stalled else backoff.next_seconds()
        result = PollResult(query, None, error, self._clock.monotonic() + wait)
        self._states[key] = _PollState(result, backoff)
        return result

    def _next_poll(self, interval_seconds: float | None) -> float:
        if interval_seconds is None:
            return float("inf")
        factor = self._rng.uniform(1 - _INTERVAL_JITTER, 1 + _INTERVAL_JITTER)
        return self._clock.monotonic() + interval_seconds * factor


def _new_backoff(rng: random.Random) -> Backoff:
    return Backoff(RETRY_SECONDS, RETRY_CEILING_SECONDS, rng, spread=RETRY_SPREAD)
