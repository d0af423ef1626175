"""The rules of the election, row by row."""

from __future__ import annotations

import pytest

from windlass.runtime.election import Candidacy, Record, Step, Terms

TERMS = Terms(15, 10, 2)
OTHER = Record("other", 15, "1")


def candidate(**more: object) -> Candidacy:
    """A candidate that has not read the lease yet."""
    return Candidacy("me", TERMS, **more)  # type: ignore[arg-type]


def leader(at: float = 0.0) -> Candidacy:
    """A candidate that leads since `at`."""
    leads = candidate()
    leads.observe(None, at)
    leads.wrote(Record("me", 15, "1"), at, at + 0.1)
    return leads


def test_an_absent_lease_is_created() -> None:
    """Row: no lease."""
    one = candidate()
    one.observe(None, 0)
    assert one.step(0) is Step.CREATE
    assert not one.held(0)


@pytest.mark.parametrize(
    "record", [Record("", 15, "1"), Record("me", 15, "1")], ids=["released", "own"]
)
def test_a_free_lease_is_taken(record: Record) -> None:
    """Rows: released, own identity."""
    one = candidate()
    one.observe(record, 0)
    assert one.step(0) is Step.TAKE
    assert not one.held(0)


def test_a_dead_holder_is_replaced_at_once() -> None:
    """Row: a holder known to be dead."""
    one = candidate(holder_is_dead=lambda holder: holder == "other")
    one.observe(OTHER, 0)
    assert one.step(0) is Step.TAKE


def test_a_lease_is_taken_over_after_its_duration() -> None:
    """Row: unchanged for its duration, measured locally since the last change."""
    one = candidate()
    one.observe(OTHER, 100)
    one.observe(OTHER, 110)
    assert one.step(114.9) is Step.WAIT
    assert one.step(115) is Step.TAKE
    one.observe(Record("other", 15, "2"), 114)
    assert one.step(128.9) is Step.WAIT
    assert one.step(129) is Step.TAKE


def test_the_holders_own_duration_counts() -> None:
    """A holder with a longer duration keeps it; a missing duration is ours."""
    one = candidate()
    one.observe(Record("other", 60, "1"), 0)
    assert one.step(59) is Step.WAIT
    one.observe(Record("other", 0, "2"), 0)
    assert one.step(14) is Step.WAIT
    assert one.step(15) is Step.TAKE


def test_a_leader_renews() -> None:
    """Row: its own record."""
    one = leader()
    assert one.leading(1)
    assert one.step(1) is Step.RENEW


def test_held_counts_from_before_the_write_was_sent() -> None:
    """The margin is subtracted from the end."""
    one = leader(at=5)
    assert one.held(19.9)
    assert not one.held(20)
    assert one.held(17.9, 2)
    assert not one.held(18, 2)


def test_a_leader_gives_up_at_its_renew_deadline() -> None:
    """Row: no successful renewal; it stops before others may take over."""
    one = leader()
    one.lapse(9.9)
    assert one.held(9.9)
    one.lapse(10)
    assert not one.held(10)
    assert one.give_up_at() is None
    assert one.step(10) is Step.TAKE


@pytest.mark.parametrize("record", [None, OTHER])
def test_a_leader_that_sees_another_stops(record: Record | None) -> None:
    """Row: the record of another holder, or none."""
    one = leader()
    one.observe(record, 1)
    assert not one.held(1)


def test_a_late_response_does_not_lead() -> None:
    """A write that took longer than the deadline (a paused process) does not lead."""
    one = candidate()
    one.observe(None, 0)
    one.wrote(Record("me", 15, "1"), 0, 30)
    assert not one.held(30)
    assert not one.leading(30)


def test_resigning_is_immediate_and_final() -> None:
    """Rows: release; neither a response in flight nor a free lease brings it back."""
    one = leader()
    one.resign()
    assert not one.held(0.2)
    one.wrote(Record("me", 15, "2"), 0.1, 0.3)
    assert not one.held(0.3)
    one.observe(None, 0.4)
    assert one.step(0.4) is Step.WAIT
    assert one.resigned


@pytest.mark.parametrize("terms", [(10, 10, 2), (15, 2, 2), (15, 10, 0), (5, 10, 2)])
def test_terms_that_cannot_work_are_refused(terms: tuple[int, float, float]) -> None:
    """The error names the rule and the values."""
    with pytest.raises(ValueError, match="duration > renew deadline > retry"):
        Terms(*terms)


def test_an_empty_identity_is_refused() -> None:
    """An empty holder means that nobody holds the lease."""
    with pytest.raises(ValueError, match="identity"):
        Candidacy("", TERMS)
