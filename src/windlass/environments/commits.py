"""Which commits each Environment is made of, and what of that still holds when git is away.

| Wished | Asked of git |
|---|---|
| the newest commit of a branch | once per interval, for all who follow it |
| a certain commit | once: that it lies on its branch is not questioned while it runs |
| the newest commit, on request | at once |

A server that cannot be reached takes nothing away: the commits that were settled last are
still the wished ones, and `Settled.trouble` says why nobody knows of newer ones. It is asked
again after the interval, so that a server that does not answer holds nobody up twice. What a
person has to mend (credentials, a branch that is gone) is an error as it always was.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import Retryable
from windlass.environments.decide.report import Source
from windlass.environments.decide.wish import SourceWish
from windlass.environments.source import Sources
from windlass.objects.names import Key

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settled:
    """The commits that are wished; `trouble` keeps us from looking for newer ones."""

    sources: tuple[Source, ...]
    trouble: Retryable | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What was settled last for a wish; `failed_at` is when git last could not be asked."""

    wish: SourceWish
    namespace: str
    source: Source
    trouble: Retryable | None = None
    failed_at: float = 0.0


class Commits:
    """The commits of all Environments, looked for every `poll_seconds`."""

    def __init__(self, sources: Sources, clock: Clock, *, poll_seconds: float) -> None:
        self._sources = sources
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._known: dict[Key, dict[str, _Known]] = {}

    async def settle(
        self, key: Key, namespace: str, wishes: tuple[SourceWish, ...], *, at_once: bool
    ) -> Settled:
        """The commits that the Environment `key` wishes of a Project in `namespace`."""
        before = self._known.get(key, {})
        now = [
            await self._one(before.get(wish.name), namespace, wish, at_once=at_once)
            for wish in wishes
        ]
        self._known[key] = {known.wish.name: known for known in now}
        trouble = next((known.trouble for known in now if known.trouble is not None), None)
        return Settled(tuple(known.source for known in now), trouble)

    def forget(self, key: Key) -> None:
        """The Environment is gone."""
        self._known.pop(key, None)

    async def _one(
        self, known: _Known | None, namespace: str, wish: SourceWish, *, at_once: bool
    ) -> _Known:
        if known is None or (known.wish, known.namespace) != (wish, namespace):
            known = None
        elif self._holds(known, at_once=at_once):
            return known
        age = 0.0 if at_once else self._poll_seconds
        try:
            found = await self._sources.settle(namespace, wish, max_age_seconds=age)
        except Retryable as error:
            if known is None:
                raise
            _log.warning("newer commits are not known", source=wish.name, reason=error.reason)
            return _Known(wish, namespace, known.source, error, self._clock.monotonic())
        return _Known(wish, namespace, found)

    def _holds(self, known: _Known, *, at_once: bool) -> bool:
        """Whether git need not be asked now."""
        if known.trouble is None:
            return not known.wish.follows
        return not at_once and self._clock.monotonic() - known.failed_at < self._poll_seconds
