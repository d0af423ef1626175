"""The order of work."""

from __future__ import annotations

import pytest

from windlass.objects.names import Key
from windlass.runtime.queue import KeyOrder


def taken(line: KeyOrder[str], now: float = 0.0) -> list[str]:
    """Everything the line hands out now."""
    keys = []
    while (key := line.take(now)) is not None:
        keys.append(key)
    return keys


def test_keys_come_out_in_the_order_they_came_in() -> None:
    """A line is first in, first out."""
    line: KeyOrder[str] = KeyOrder()
    for key in "cab":
        line.add(key)
    assert taken(line) == ["c", "a", "b"]


def test_a_waiting_key_is_added_once() -> None:
    """Ten changes before a pass are one pass."""
    line: KeyOrder[str] = KeyOrder()
    for _ in range(10):
        line.add("a")
    assert taken(line) == ["a"]


def test_a_key_added_while_worked_on_runs_once_more_after() -> None:
    """A change during a pass is seen by exactly one further pass, never by a parallel one."""
    line: KeyOrder[str] = KeyOrder()
    line.add("a")
    assert taken(line) == ["a"]
    line.add("a")
    line.add("a")
    assert taken(line) == []
    line.done("a")
    assert taken(line) == ["a"]
    line.done("a")
    assert taken(line) == []


def test_a_key_that_runs_again_goes_to_the_end() -> None:
    """A busy key does not push out the others."""
    line: KeyOrder[str] = KeyOrder()
    line.add("busy")
    line.take(0)
    line.add("other")
    line.add("busy")
    line.done("busy")
    assert taken(line) == ["other", "busy"]


@pytest.mark.parametrize("dues", [(5, 9), (9, 5)])
def test_the_earliest_of_two_delays_wins(dues: tuple[float, float]) -> None:
    """A key has one due time, the earliest anybody wished for."""
    line: KeyOrder[str] = KeyOrder()
    for due in dues:
        line.add_at("a", due)
    assert line.next_due() == 5
    assert taken(line, 4.9) == []
    assert taken(line, 5) == ["a"]
    line.done("a")
    assert taken(line, 100) == []


def test_a_delay_outlives_a_pass_in_between() -> None:
    """An immediate pass does not swallow a wish for a later one."""
    line: KeyOrder[str] = KeyOrder()
    line.add_at("a", 5)
    line.add("a")
    assert taken(line, 1) == ["a"]
    line.done("a")
    assert taken(line, 5) == ["a"]


def test_a_key_due_while_worked_on_runs_after() -> None:
    """A due time that comes during a pass is honoured after it."""
    line: KeyOrder[str] = KeyOrder()
    line.add("a")
    line.add_at("a", 5)
    line.take(0)
    assert taken(line, 6) == []
    line.done("a")
    assert taken(line, 7) == ["a"]


def test_many_earlier_wishes_leave_no_heap_behind() -> None:
    """Ever earlier due times of one key do not pile up."""
    line: KeyOrder[str] = KeyOrder()
    for due in range(10_000, 0, -1):
        line.add_at("a", due)
    assert len(line._heap) < 100
    assert line.next_due() == 1
    assert line.delayed == 1


def test_giving_back_what_nobody_took_is_an_error() -> None:
    """A worker cannot give back a key it does not have."""
    with pytest.raises(KeyError):
        KeyOrder[str]().done("a")


def test_namespaces_take_turns() -> None:
    """Many keys of one namespace delay the key of another by one; its own stay in order."""
    order: KeyOrder[Key] = KeyOrder()
    for number in range(3):
        order.add(Key("many", str(number)))
    order.add(Key("few", "0"))
    order.add(Key("few", "1"))
    taken = [order.take(0.0) for _ in range(5)]
    assert [str(key) for key in taken] == ["many/0", "few/0", "many/1", "few/1", "many/2"]
    assert order.depth == 0
