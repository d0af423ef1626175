"""How a reflector continues after a stream ended, without a server."""

from __future__ import annotations

import random

import pytest

from windlass.kube import reflector_state
from windlass.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    Idle,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from windlass.kube.reflector_state import (
    CLOSED,
    Ending,
    ReflectorPhase,
    ReflectorSettings,
    ReflectorState,
)
from windlass.kube.watch import EnvelopeBroken

REFUSAL = Invalid(422, "Invalid", "sendInitialEvents: Forbidden: not enabled")
ERROR = Ending("error", "broken")
FORBIDDEN = Ending("forbidden", "no", 403)
EXPIRED = Ending("expired", "gone", 410, loses_version=True)


def _cursor(*, watchlist: bool = True) -> ReflectorState:
    return ReflectorState(ReflectorSettings(), random.Random(7), watchlist=watchlist)


def _live(version: str = "10") -> ReflectorState:
    """A synced state whose stream is open since 0."""
    state = _cursor()
    state.opened(0)
    state.synced(version)
    return state


@pytest.mark.parametrize(
    ("error", "reason", "loses"),
    [
        (Gone(410, "Expired", "too old"), "expired", True),
        (Unavailable(504, "Timeout", "Too large resource version: 9"), "expired", True),
        (ApiError(400, "BadRequest", "invalid resource version"), "error", True),
        (NotFound(404, "NotFound", "no such type"), "error", True),
        (Idle(0, "Idle", "no data"), "idle", False),
        (Forbidden(403, "Forbidden", "no"), "forbidden", False),
        (Unauthorized(401, "Unauthorized", "who"), "forbidden", False),
        (Unavailable(500, "InternalError", "oh"), "error", False),
        (Unavailable(0, "Unreachable", "refused"), "error", False),
        (EnvelopeBroken("half a line"), "error", False),
    ],
)
def test_classify(error: ApiError | EnvelopeBroken, reason: str, loses: bool) -> None:
    """Every error has one class, and only some reset the version."""
    ending = reflector_state.classify_ending(error)
    assert (ending.reason, ending.loses_version) == (reason, loses)


def test_refused_watchlist_is_listed_at_once() -> None:
    """A server that refuses WatchList is listed without delay or interruption."""
    state = _cursor()
    verdict = state.ended(reflector_state.classify_ending(REFUSAL), 0)
    assert state.state is ReflectorPhase.LIST
    assert verdict.is_silent
    assert verdict.wait_seconds == 0
    assert not state.uses_watchlist


@pytest.mark.parametrize(
    "error",
    [
        Invalid(422, "Invalid", "metadata.name: Required"),
        Unavailable(500, "InternalError", "sendInitialEvents exploded"),
    ],
)
def test_other_refusals_are_no_fallback(error: ApiError) -> None:
    """Only a refusal of the option itself falls back to lists."""
    state = _cursor()
    verdict = state.ended(reflector_state.classify_ending(error), 0)
    assert state.state is ReflectorPhase.WATCHLIST
    assert not verdict.is_silent


def test_silent_watchlist_becomes_a_list() -> None:
    """A server that never sends the last bookmark is listed after two tries."""
    state = _cursor()
    for expected in (ReflectorPhase.WATCHLIST, ReflectorPhase.LIST):
        state.opened(0)
        verdict = state.ended(Ending("idle", "no data"), 80)
        assert verdict.abandons_snapshot
        assert state.state is expected


def test_resume_keeps_the_version() -> None:
    """Closed, idle and error resume from the last version."""
    for ending in (CLOSED, Ending("idle", ""), ERROR):
        state = _live()
        state.moved("11")
        verdict = state.ended(ending, 5)
        assert (state.state, state.version) == (ReflectorPhase.LIVE, "11")
        assert verdict.resumes
        assert not verdict.abandons_snapshot


def test_expired_needs_a_snapshot() -> None:
    """After 410 the version is gone and a snapshot follows, by the way the type allows."""
    state = _live()
    assert not state.ended(EXPIRED, 5).resumes
    assert (state.state, state.version) == (ReflectorPhase.WATCHLIST, None)
    listed = _cursor(watchlist=False)
    listed.opened(0)
    listed.synced("3")
    listed.ended(EXPIRED, 5)
    assert listed.state is ReflectorPhase.LIST


def test_unreadable_last_event_costs_the_version() -> None:
    """Where the last version is unknown, a snapshot follows."""
    state = _live()
    state.moved(None)
    state.ended(CLOSED, 5)
    assert state.state is ReflectorPhase.WATCHLIST


def test_three_quick_closes() -> None:
    """A server that responds 200 and closes three times resets the version."""
    state = _live()
    state.ended(CLOSED, 5)
    for now, expected in (
        (10, ReflectorPhase.LIVE),
        (20, ReflectorPhase.LIVE),
        (30, ReflectorPhase.WATCHLIST),
    ):
        state.opened(now)
        state.ended(CLOSED, now + 0.5)
        assert state.state is expected
    assert state.version is None


def test_event_between_quick_closes() -> None:
    """An event, or a longer stream, resets the count."""
    state = _live()
    state.ended(CLOSED, 5)
    for now in range(10, 100, 10):
        state.opened(now)
        if now % 20 == 0:
            state.moved(str(now))
        state.ended(CLOSED, now + 0.5)
        assert state.state is ReflectorPhase.LIVE
    for now in range(100, 200, 10):
        state.opened(now)
        state.ended(CLOSED, now + 1.5)
        assert state.state is ReflectorPhase.LIVE


def test_unreachable_server_keeps_the_version() -> None:
    """Attempts that never opened prove nothing about the version."""
    state = _live()
    for now in range(5, 100, 5):
        state.ended(ERROR, now)
    assert (state.state, state.version) == (ReflectorPhase.LIVE, "10")


def test_backoff_grows_and_survives_events() -> None:
    """Short streams double the delay up to the ceiling, with or without events."""
    state = _live()
    waits = []
    for now in range(0, 1200, 100):
        state.opened(now)
        state.moved(str(now))
        waits.append(state.ended(CLOSED, now + 0.1).wait_seconds)
    assert 0.25 <= waits[0] <= 0.5
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(waits[:6]))
    assert all(15 <= wait <= 30 for wait in waits[6:])


def test_health_resets_the_backoff() -> None:
    """After a minute the backoff is reset, and a clean close costs no delay."""
    state = _live()
    for now in range(0, 500, 100):
        state.opened(now)
        state.ended(ERROR, now + 1)
    state.opened(1000)
    assert state.ended(CLOSED, 1061).wait_seconds == 0
    state.opened(2000)
    assert state.ended(ERROR, 2061).wait_seconds <= 0.5


def test_forbidden_waits_longer() -> None:
    """A scope that was never allowed is retried after half a minute to five."""
    state = _cursor()
    waits = [state.ended(FORBIDDEN, now).wait_seconds for now in range(8)]
    assert 15 <= waits[0] <= 30
    assert 150 <= waits[-1] <= 300


def test_first_refusals_of_a_synced_scope_are_quick() -> None:
    """A scope that was allowed is retried soon, three times; then like a forbidden one."""
    state = _live()
    verdicts = [state.ended(FORBIDDEN, now) for now in range(5)]
    waits = [verdict.wait_seconds for verdict in verdicts]
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(waits[:3]))
    assert 15 <= waits[3] <= 30
    assert 30 <= waits[4] <= 60
    assert {verdict.ending.reason for verdict in verdicts} == {"forbidden"}
    assert (state.state, state.version) == (ReflectorPhase.LIVE, "10")


@pytest.mark.parametrize("between", ["opened", "unreachable"])
def test_refusals_count_in_a_row(between: str) -> None:
    """A stream that opened, or another error, resets the count of refusals."""
    settings = ReflectorSettings(forbidden_initial=1000, forbidden_ceiling=1000)
    state = ReflectorState(settings, random.Random(7))
    state.opened(0)
    state.synced("10")
    for now in (0.0, 100.0, 200.0):
        assert all(state.ended(FORBIDDEN, now).wait_seconds < 31 for _ in range(3))
        if between == "opened":
            state.opened(now)
            state.moved(str(now))
            state.ended(CLOSED, now + 61)
        else:
            state.ended(ERROR, now)
    assert all(state.ended(FORBIDDEN, 300).wait_seconds < 31 for _ in range(3))
    assert state.ended(FORBIDDEN, 300).wait_seconds >= 500


def test_retry_after_is_a_lower_bound() -> None:
    """No retry comes earlier than the server asked for."""
    state = _live()
    ending = reflector_state.classify_ending(
        Throttled(429, "TooManyRequests", "slow", retry_after=17)
    )
    assert state.ended(ending, 1).wait_seconds == 17


def test_broken_snapshot_is_abandoned_once() -> None:
    """A snapshot that had begun is abandoned; one that had not is not."""
    state = _cursor()
    assert not state.ended(ERROR, 0).abandons_snapshot
    state.opened(0)
    assert state.ended(ERROR, 0).abandons_snapshot
    assert not state.ended(ERROR, 0).abandons_snapshot


def test_a_slow_list_does_not_reset_the_backoff() -> None:
    """A list that took minutes does not count as a long stream."""
    state = _cursor(watchlist=False)
    for _ in range(5):
        state.ended(ERROR, 0)
    state.opened(0)
    state.synced("4")
    assert state.ended(ERROR, 500).wait_seconds > 1


def test_a_scope_learns_from_another_of_its_type() -> None:
    """At its next snapshot."""
    state = _live()
    state.prefer_list()
    assert state.version == "10"
    state.ended(EXPIRED, 1)
    assert state.state is ReflectorPhase.LIST


def test_streams_are_spread() -> None:
    """The timeout of streams varies within its bounds."""
    state = _cursor()
    lengths = {state.watch_seconds() for _ in range(50)}
    assert len(lengths) > 10
    assert all(240 <= length <= 480 for length in lengths)
