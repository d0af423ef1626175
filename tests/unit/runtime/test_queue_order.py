"""The order of keys in the work queue."""

from __future__ import annotations

import pytest

from windlass.objects.names import Key
from windlass.runtime.queue import KeyOrder


def take_all(line: KeyOrder[str], now: float = 0.0) -> list[str]:
    """Every key that the order returns now."""
    keys = []
    while (key := line.take(now)) is not None:
        keys.append(key)
    return keys


def test_keys_come_out_in_the_order_they_came_in() -> None:
    """First in, first out."""
    line: KeyOrder[str] = KeyOrder()
    for key in "cab":
        line.add(key)
    assert take_all(line) == ["c", "a", "b"]


def test_a_waiting_key_is_added_once() -> None:
    """Ten changes before a reconcile are one reconcile."""
    line: KeyOrder[str] = KeyOrder()
    for _ in range(10):
        line.add("a")
    assert take_all(line) == ["a"]


def test_a_key_added_while_worked_on_runs_once_more_after() -> None:
    """A change during a reconcile leads to exactly one more, never to a parallel one."""
    line: KeyOrder[str] = KeyOrder()
    line.add("a")
    assert take_all(line) == ["a"]
    line.add("a")
    line.add("a")
    assert take_all(line) == []
    line.done("a")
    assert take_all(line) == ["a"]
    line.done("a")
    assert take_all(line) == []


def test_a_key_that_runs_again_goes_to_the_end() -> None:
    """A busy key does not starve the others."""
    line: KeyOrder[str] = KeyOrder()
    line.add("busy")
    line.take(0)
    line.add("other")
    line.add("busy")
    line.done("busy")
    assert take_all(line) == ["other", "busy"]


@pytest.mark.parametrize("dues", [(5, 9), (9, 5)])
def test_the_earliest_of_two_delays_wins(dues: tuple[float, float]) -> None:
    """A key has one due time, the earliest that was requested."""
    line: KeyOrder[str] = KeyOrder()
    for due in dues:
        line.add_at("a", due)
    assert line.next_due() == 5
    assert take_all(line, 4.9) == []
    assert take_all(line, 5) == ["a"]
    line.done("a")
    assert take_all(line, 100) == []


def test_a_delay_outlives_a_reconcile_in_between() -> None:
    """An immediate reconcile does not cancel a later one."""
    line: KeyOrder[str] = KeyOrder()
    line.add_at("a", 5)
    line.add("a")
    assert take_all(line, 1) == ["a"]
    line.done("a")
    assert take_all(line, 5) == ["a"]


def test_a_key_due_while_worked_on_runs_after() -> None:
    """A due time during a reconcile is honored after it."""
    line: KeyOrder[str] = KeyOrder()
    line.add("a")
    line.add_at("a", 5)
    line.take(0)
    assert take_all(line, 6) == []
    line.done("a")
    assert take_all(line, 7) == ["a"]


def test_ever_earlier_delays_do_not_grow_the_heap() -> None:
    """One key has one entry."""
    line: KeyOrder[str] = KeyOrder()
    for due in range(10_000, 0, -1):
        line.add_at("a", due)
    assert len(line._heap) < 100
    assert line.next_due() == 1
    assert line.delayed == 1


def test_returning_a_key_that_was_not_taken_is_an_error() -> None:
    """A worker cannot return a key it does not hold."""
    with pytest.raises(KeyError):
        KeyOrder[str]().done("a")


def test_namespaces_take_turns() -> None:
    """Many keys of one namespace delay another's key by one; keys of a namespace stay in order."""
    order: KeyOrder[Key] = KeyOrder()
    for number in range(3):
        order.add(Key("many", str(number)))
    order.add(Key("few", "0"))
    order.add(Key("few", "1"))
    take_all = [order.take(0.0) for _ in range(5)]
    assert [str(key) for key in take_all] == ["many/0", "few/0", "many/1", "few/1", "many/2"]
    assert order.depth == 0
