"""Tests of the state as a value."""

from __future__ import annotations

from windlass.dev.state import Process, State


def test_process_is_recorded_and_forgotten() -> None:
    """Each start replaces the former process of the component, an end removes it."""
    first, second = Process(1, 10, "/bin/etcd", ""), Process(2, 20, "/bin/etcd", "")
    state = State("x", {}, {}).with_process("etcd", first)
    assert state.with_process("etcd", second).processes == {"etcd": second}
    assert state.with_process("etcd", None).processes == {}
    assert state.processes == {"etcd": first}
