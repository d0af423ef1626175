"""Where a follower of one scope stands, and what it does after an ending.

This is the deciding half of `follow`: no request is made here, time is handed in.

Rules
1. A resourceVersion is opaque: kept, handed back, never compared by order.
2. Without a version to resume from there is a snapshot: by WatchList, or by a paged
   list for types whose server refuses WatchList.
3. Only an ending that says that the past is gone costs the version: 410 in any form, a
   version "too large", 400, 404, a last event whose version cannot be read, or three
   streams running that closed within a second without an event.
4. Waiting doubles from `backoff_initial` to `backoff_ceiling`, and is reset only after
   a stream that lived `healthy_seconds`; then a clean close costs no wait at all. The
   server's Retry-After is a lower bound. 401 and 403 have slower steps of their own.
5. A scope that had a complete snapshot was allowed once: its first three refusals in a
   row take the ordinary steps, because an API server that just started refuses everybody
   until it has read its roles.
6. A WatchList that twice ended in silence or a clean close before its last
   bookmark was never understood by the server: that type is listed from then on.

State      Event                        Next       Wait
---------  ---------------------------  ---------  -------------------------------------
WATCHLIST  initial events end           LIVE       -   (the same stream goes on)
WATCHLIST  refused (rule 6 alike)       LIST       0   (rule 6: backoff)
WATCHLIST  any other ending             WATCHLIST  backoff
LIST       last page                    LIVE       -
LIST       any ending before            LIST       backoff
LIVE       expired, third quick close   snapshot   backoff
LIVE       closed, idle, error          LIVE       backoff; 0 for a clean, healthy close
any        forbidden                    the same   forbidden backoff; rule 5: backoff
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass
from typing import Literal

from windlass.base.clock import Backoff
from windlass.kube.errors import ApiError, Forbidden, Gone, Idle, Invalid, Unauthorized
from windlass.kube.watch import EnvelopeBroken

Reason = Literal["expired", "idle", "closed", "error", "forbidden"]

QUICK_SECONDS = 1.0
QUICK_CLOSES = 3
UNANSWERED_WATCHLISTS = 2
QUICK_REFUSALS = 3


@dataclass(frozen=True)
class ReflectorSettings:
    """Sizes and times of following; the defaults are for production."""

    page_size: int = 500
    idle_seconds: float = 80.0
    watch_seconds: tuple[int, int] = (240, 480)
    backoff_initial: float = 0.5
    backoff_ceiling: float = 30.0
    forbidden_initial: float = 30.0
    forbidden_ceiling: float = 300.0
    healthy_seconds: float = 60.0


class ReflectorPhase(enum.Enum):
    """What is asked of the server next."""

    WATCHLIST = "watchlist"
    LIST = "list"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt came to its end."""

    reason: Reason
    message: str
    status: int = 0
    retry_after: float | None = None
    refuses_watchlist: bool = False
    loses_version: bool = False
    """Whether the version we resumed from is what the server does not accept."""


CLOSED = Ending("closed", "the server closed the stream")


@dataclass(frozen=True, slots=True)
class NextStep:
    """What follows from an ending."""

    ending: Ending
    wait_seconds: float
    abandons_snapshot: bool
    is_silent: bool = False
    """A refused WatchList is no interruption: the list follows at once."""
    resumes: bool = False
    """Whether the next attempt goes on from the version; else it takes a snapshot."""


def classify_ending(error: ApiError | EnvelopeBroken) -> Ending:
    """The ending that an error means."""
    if isinstance(error, EnvelopeBroken):
        return Ending("error", str(error))
    reason = _reason_of(error)
    return Ending(
        reason,
        error.message,
        error.status,
        error.retry_after,
        refuses_watchlist=_is_refusal(error),
        loses_version=reason == "expired" or error.status in {400, 404},
    )


class ReflectorState:
    """State of one scope; the I/O half reports what happened and asks what to do."""

    def __init__(
        self, settings: ReflectorSettings, rng: random.Random, *, watchlist: bool = True
    ) -> None:
        self._settings = settings
        self._rng = rng
        self._backoff = Backoff(settings.backoff_initial, settings.backoff_ceiling, rng)
        self._forbidden = Backoff(settings.forbidden_initial, settings.forbidden_ceiling, rng)
        self._snapshot = ReflectorPhase.WATCHLIST if watchlist else ReflectorPhase.LIST
        self.state = self._snapshot
        self.version: str | None = None
        self._opened_at: float | None = None
        self._has_moved = False
        self._in_snapshot = False
        self._quick_closes = 0
        self._unanswered = 0
        self._was_synced = False
        self._refusals = 0

    @property
    def uses_watchlist(self) -> bool:
        return self._snapshot is ReflectorPhase.WATCHLIST

    @property
    def in_snapshot(self) -> bool:
        return self._in_snapshot

    def watch_seconds(self) -> int:
        """How long the next stream may last; spread, so that streams do not end together."""
        return self._rng.randint(*self._settings.watch_seconds)

    def prefer_list(self) -> None:
        """Another scope of the type learnt that WatchList is refused."""
        self._snapshot = ReflectorPhase.LIST
        if self.state is ReflectorPhase.WATCHLIST:
            self.state = ReflectorPhase.LIST

    def opened(self, now: float) -> None:
        """The server began to answer."""
        self._opened_at = now
        self._refusals = 0
        self._has_moved = False
        self._in_snapshot = self.state is not ReflectorPhase.LIVE

    def synced(self, version: str) -> None:
        """The snapshot is complete; changes follow from `version` on."""
        if self.state is ReflectorPhase.LIST:
            # A list is no stream: its length says nothing about the health of one.
            self._opened_at = None
        self.state = ReflectorPhase.LIVE
        self._was_synced = True
        self._in_snapshot = False
        self._unanswered = 0
        self.moved(version)

    def moved(self, version: str | None) -> None:
        """Everything up to `version` has been handed on; None: nobody can say up to where."""
        self.version = version
        self._has_moved = True
        self._quick_closes = 0

    def ended(self, ending: Ending, now: float) -> NextStep:
        """Count an ending, take the next state, say how long to wait."""
        lived = 0.0 if self._opened_at is None else now - self._opened_at
        abandons, self._in_snapshot = self._in_snapshot, False
        if ending.refuses_watchlist and self.state is ReflectorPhase.WATCHLIST:
            self._opened_at = None
            self.prefer_list()
            return NextStep(ending, 0.0, abandons, is_silent=not abandons)
        self._count(ending, lived)
        self._choose(ending)
        self._opened_at = None
        resumes = self.state is ReflectorPhase.LIVE
        return NextStep(ending, self._wait(ending, lived), abandons, resumes=resumes)

    def _count(self, ending: Ending, lived: float) -> None:
        self._refusals = self._refusals + 1 if ending.reason == "forbidden" else 0
        if self._opened_at is None:
            return
        if self.state is ReflectorPhase.WATCHLIST:
            self._unanswered += ending.reason in {"closed", "idle"}
        elif self.state is ReflectorPhase.LIVE and not self._has_moved and lived <= QUICK_SECONDS:
            self._quick_closes += 1
        else:
            self._quick_closes = 0

    def _choose(self, ending: Ending) -> None:
        if self._unanswered >= UNANSWERED_WATCHLISTS:
            self.prefer_list()
        if self.state is not ReflectorPhase.LIVE:
            return
        lost = ending.loses_version or self.version is None
        if lost or self._quick_closes >= QUICK_CLOSES:
            self.version = None
            self._quick_closes = 0
            self.state = self._snapshot

    def _wait(self, ending: Ending, lived: float) -> float:
        if lived >= self._settings.healthy_seconds:
            self._backoff.healthy()
            self._forbidden.healthy()
            if ending.reason == "closed":
                return 0.0
        steps = self._forbidden if self._is_shut_out() else self._backoff
        return max(steps.next_seconds(), ending.retry_after or 0.0)

    def _is_shut_out(self) -> bool:
        """Whether the refusals so far mean that we lack a right, and not a start of the server."""
        return self._refusals > (QUICK_REFUSALS if self._was_synced else 0)


def _reason_of(error: ApiError) -> Reason:
    # The server says it in words only: the reason of a version from the future is Timeout.
    if isinstance(error, Gone) or "too large resource version" in error.message.lower():
        return "expired"
    if isinstance(error, Idle):
        return "idle"
    if isinstance(error, (Unauthorized, Forbidden)):
        return "forbidden"
    return "error"


def _is_refusal(error: ApiError) -> bool:
    # Servers older than the feature stumble over the second of the two options.
    named = "sendInitialEvents" in error.message or "resourceVersionMatch" in error.message
    return named and (isinstance(error, Invalid) or error.status == 400)
