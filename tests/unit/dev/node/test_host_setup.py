"""The order in which the host side of a node is set up and torn down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass_dev.cluster import processes
from windlass_dev.cluster.cluster_state import NodeState, RecordedProcess
from windlass_dev.node import (
    cgroups,
    host_link,
    host_setup,
    kernel_namespaces,
    machine,
    requirements,
)

DIRECTORY = Path("/nowhere/x")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all executed steps; none of them has an effect."""
    recorded_steps: list[str] = []

    def note(name: str) -> Any:
        return lambda *arguments, **named: recorded_steps.append(name)

    for module in (kernel_namespaces, host_link, cgroups):
        name = module.__name__.rpartition(".")[2]
        monkeypatch.setattr(module, "create", note(f"create {name}"))
        monkeypatch.setattr(module, "remove", note(f"remove {name}"))
    monkeypatch.setattr(machine, "register_node", note("enter machine"))
    monkeypatch.setattr(machine, "unregister_node", note("leave machine"))
    monkeypatch.setattr(requirements, "check_inotify", note("try watches"))
    monkeypatch.setattr(host_setup, "_write_config_files", note("write"))
    monkeypatch.setattr(
        host_setup, "_complete_marker", lambda directory: _CompleteMarker(recorded_steps)
    )
    monkeypatch.setattr(cgroups, "member_pids", lambda directory: [])
    monkeypatch.setattr(kernel_namespaces, "member_pids", lambda directory: [])
    return recorded_steps


class _CompleteMarker:
    """The file that marks the setup as complete."""

    def __init__(self, recorded_steps: list[str]) -> None:
        self._steps = recorded_steps

    def touch(self) -> None:
        self._steps.append("whole")

    def unlink(self, *, missing_ok: bool) -> None:
        assert missing_ok
        self._steps.append("not whole")


def test_the_machine_is_recorded_before_it_is_changed(steps: list[str]) -> None:
    """And the setup is marked complete only at its end."""
    host_setup.create(NodeState(0, "", ""), DIRECTORY)
    assert steps == [
        "write",
        "enter machine",
        "try watches",
        "create kernel_namespaces",
        "create host_link",
        "create cgroups",
        "whole",
    ]


def test_teardown_ends_processes_first_and_the_record_last(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that start while others are killed are killed as well."""
    waiting = [[11, 12], [13], []]
    monkeypatch.setattr(kernel_namespaces, "member_pids", lambda directory: waiting.pop(0))
    monkeypatch.setattr(
        processes, "inspect_process", lambda pid: RecordedProcess(pid, 1, "/bin/x", "")
    )
    monkeypatch.setattr(
        processes,
        "kill_processes",
        lambda found, directory: steps.extend(f"kill {one.pid}" for one in found),
    )
    host_setup.remove(DIRECTORY)
    assert steps == [
        "not whole",
        "kill 11",
        "kill 12",
        "kill 13",
        "remove host_link",
        "remove kernel_namespaces",
        "remove cgroups",
        "leave machine",
    ]
