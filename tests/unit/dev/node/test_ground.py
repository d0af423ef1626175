"""Tests of the order in which a node's ground is made and taken away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.dev import processes
from windlass.dev.node import cgroups, ground, machine, namespaces, network, watches
from windlass.dev.state import Node, Process

DIRECTORY = Path("/nowhere/x")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every step that is taken, by name; none of them does anything."""
    taken: list[str] = []

    def note(name: str) -> Any:
        return lambda *arguments, **named: taken.append(name)

    for module in (namespaces, network, cgroups):
        name = module.__name__.rpartition(".")[2]
        monkeypatch.setattr(module, "make", note(f"make {name}"))
        monkeypatch.setattr(module, "remove", note(f"remove {name}"))
    monkeypatch.setattr(machine, "enter", note("enter machine"))
    monkeypatch.setattr(machine, "leave", note("leave machine"))
    monkeypatch.setattr(watches, "require", note("try watches"))
    monkeypatch.setattr(ground, "_write", note("write"))
    monkeypatch.setattr(ground, "_done", lambda directory: _Mark(taken))
    monkeypatch.setattr(cgroups, "members", lambda directory: [])
    monkeypatch.setattr(namespaces, "members", lambda directory: [])
    return taken


class _Mark:
    """The file that says that the ground is whole."""

    def __init__(self, taken: list[str]) -> None:
        self._taken = taken

    def touch(self) -> None:
        self._taken.append("whole")

    def unlink(self, *, missing_ok: bool) -> None:
        assert missing_ok
        self._taken.append("not whole")


def test_machine_is_written_down_before_anything_is_made(steps: list[str]) -> None:
    """And the ground counts as whole only when all of it is there."""
    ground.make(Node(0, "", ""), DIRECTORY)
    assert steps == [
        "write",
        "enter machine",
        "try watches",
        "make namespaces",
        "make network",
        "make cgroups",
        "whole",
    ]


def test_teardown_ends_processes_first_and_the_record_last(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever appears while others are killed is killed as well."""
    waiting = [[11, 12], [13], []]
    monkeypatch.setattr(namespaces, "members", lambda directory: waiting.pop(0))
    monkeypatch.setattr(processes, "of", lambda pid: Process(pid, 1, "/bin/x", ""))
    monkeypatch.setattr(
        processes, "end", lambda found, directory: steps.extend(f"kill {one.pid}" for one in found)
    )
    ground.remove(DIRECTORY)
    assert steps == [
        "not whole",
        "kill 11",
        "kill 12",
        "kill 13",
        "remove network",
        "remove namespaces",
        "remove cgroups",
        "leave machine",
    ]
