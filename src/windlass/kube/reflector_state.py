"""State machine of a reflector: what it does after each ending.

This is the deciding half of `reflector`: no request is made here, time is a parameter.

Rules
1. A resourceVersion is opaque: stored, sent back, never compared by order.
2. Without a version to resume from there is a snapshot: by WatchList, or by a paged
   list for types whose server refuses WatchList.
3. Only an ending that means that the past is gone costs the version: 410 in any form, a
   version "too large", 400, 404, a last event whose version cannot be read, or three
   streams in a row that closed within a second without an event.
4. Waiting doubles from `backoff_initial` to `backoff_ceiling`, and is reset only after
   a stream that lived `healthy_seconds`; then a clean close costs no wait at all. The
   server's Retry-After is a lower bound. 401 and 403 have slower steps of their own.
5. A scope that had a complete snapshot was allowed once: its first three refusals in a
   row take the ordinary steps, because an API server that just started refuses every
   client until it has read its roles.
6. A WatchList that twice ended in silence or a clean close before its last
   bookmark is not supported by the server: that type is listed from then on.

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
    """Sizes and times of reflectors; the defaults are for production. Times are seconds."""

    page_size: int = 500  # objects per page of a list
    idle_seconds: float = 80.0  # silence after which a stream is closed; bookmarks come each minute
    watch_seconds: tuple[int, int] = (240, 480)  # the server ends a watch after a time in between
    backoff_initial: float = 0.5  # first wait after a failure
    backoff_ceiling: float = 30.0  # longest wait after failures
    forbidden_initial: float = 30.0  # first wait after 401 and 403
    forbidden_ceiling: float = 300.0  # longest wait after 401 and 403
    healthy_seconds: float = 60.0  # life of a stream that resets the backoff


class ReflectorPhase(enum.Enum):
    """The next request to the server."""

    WATCHLIST = "watchlist"
    LIST = "list"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended."""

    reason: Reason  # decides the next phase and the wait
    message: str  # for logs and status; redacted
    status: int = 0  # HTTP status; 0 without a response
    retry_after: float | None = None  # seconds that the server demands; None: not given
    refuses_watchlist: bool = False  # whether the server does not support WatchList
    loses_version: bool = False  # whether the server no longer accepts our resourceVersion


CLOSED = Ending("closed", "the server closed the stream")


@dataclass(frozen=True, slots=True)
class NextStep:
    """What a reflector does after an ending."""

    ending: Ending
    wait_seconds: float
    abandons_snapshot: bool
    is_silent: bool = False
    """A refused WatchList is not an interruption: the list follows at once."""
    resumes: bool = False
    """Whether the next attempt resumes from the version; else it takes a snapshot."""


def classify_ending(error: ApiError | EnvelopeBroken) -> Ending:
    """The ending of an attempt that raised `error`."""
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
    """State of one scope; the I/O half reports what happened and gets the next step."""

    def __init__(
        self, settings: ReflectorSettings, rng: random.Random, *, watchlist: bool = True
    ) -> None:
        self._settings = settings
        self._rng = rng
        self._backoff = Backoff(settings.backoff_initial, settings.backoff_ceiling, rng)
        self._forbidden = Backoff(settings.forbidden_initial, settings.forbidden_ceiling, rng)
        # How snapshots are taken; LIST once the server refused WatchList.
        self._snapshot = ReflectorPhase.WATCHLIST if watchlist else ReflectorPhase.LIST
        self.state = self._snapshot
        # The resourceVersion to resume from; None: a snapshot is needed.
        self.version: str | None = None
        # When the server began to respond, monotonic; None while no stream is open.
        self._opened_at: float | None = None
        # Whether the open stream delivered a change or bookmark.
        self._has_moved = False
        # Whether a snapshot has started and is not complete.
        self._in_snapshot = False
        # Streams in a row that closed at once without an event (rule 3).
        self._quick_closes = 0
        # WatchLists that ended without their last bookmark (rule 6).
        self._unanswered = 0
        # Whether a snapshot was ever complete (rule 5).
        self._was_synced = False
        # 401 and 403 in a row.
        self._refusals = 0

    @property
    def uses_watchlist(self) -> bool:
        return self._snapshot is ReflectorPhase.WATCHLIST

    @property
    def in_snapshot(self) -> bool:
        return self._in_snapshot

    def watch_seconds(self) -> int:
        """Seconds that the next stream may last; spread, so that streams do not end together."""
        return self._rng.randint(*self._settings.watch_seconds)

    def prefer_list(self) -> None:
        """Take snapshots by list: the server refuses WatchList for this type."""
        self._snapshot = ReflectorPhase.LIST
        if self.state is ReflectorPhase.WATCHLIST:
            self.state = ReflectorPhase.LIST

    def opened(self, now: float) -> None:
        """Note that the server began to respond."""
        self._opened_at = now
        self._refusals = 0
        self._has_moved = False
        self._in_snapshot = self.state is not ReflectorPhase.LIVE

    def synced(self, version: str) -> None:
        """Note a complete snapshot; changes follow from `version` on."""
        if self.state is ReflectorPhase.LIST:
            # A list is not a stream: its duration does not show whether streams are healthy.
            self._opened_at = None
        self.state = ReflectorPhase.LIVE
        self._was_synced = True
        self._in_snapshot = False
        self._unanswered = 0
        self.moved(version)

    def moved(self, version: str | None) -> None:
        """Note that changes up to `version` were delivered; None: the version is unknown."""
        self.version = version
        self._has_moved = True
        self._quick_closes = 0

    def ended(self, ending: Ending, now: float) -> NextStep:
        """Count an ending and change the phase; returns the next step with its wait."""
        lived = 0.0 if self._opened_at is None else now - self._opened_at
        abandons, self._in_snapshot = self._in_snapshot, False
        if ending.refuses_watchlist and self.state is ReflectorPhase.WATCHLIST:
            self._opened_at = None
            self.prefer_list()
            return NextStep(ending, 0.0, abandons, is_silent=not abandons)
        self._count(ending, lived)
        self._change_phase(ending)
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

    def _change_phase(self, ending: Ending) -> None:
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
        steps = self._forbidden if self._lacks_permission() else self._backoff
        return max(steps.next_seconds(), ending.retry_after or 0.0)

    def _lacks_permission(self) -> bool:
        """Whether the refusals mean a missing permission, not a server that is starting."""
        return self._refusals > (QUICK_REFUSALS if self._was_synced else 0)


def _reason_of(error: ApiError) -> Reason:
    # Only the message shows it: the reason for a version from the future is Timeout.
    if isinstance(error, Gone) or "too large resource version" in error.message.lower():
        return "expired"
    if isinstance(error, Idle):
        return "idle"
    if isinstance(error, (Unauthorized, Forbidden)):
        return "forbidden"
    return "error"


def _is_refusal(error: ApiError) -> bool:
    # Servers without the feature complain about the second of the two options.
    named = "sendInitialEvents" in error.message or "resourceVersionMatch" in error.message
    return named and (isinstance(error, Invalid) or error.status == 400)
