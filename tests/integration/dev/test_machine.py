"""What nodes change on the machine, on files that replace it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windlass_dev.node import kernel_namespaces, machine

LIMIT = "fs/inotify/max_user_instances"
SETTINGS = {"kernel/panic": "1", "vm/overcommit_memory": "0", LIMIT: "128"}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two settings and one of two mount points."""
    for name, value in SETTINGS.items():
        _put(tmp_path / "sys" / name, value)
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(machine, "_SETTINGS", tmp_path / "sys")
    monkeypatch.setattr(machine, "_RECORD", tmp_path / "run" / "nodes.json")
    monkeypatch.setattr(machine, "_LOCK", tmp_path / "run.lock")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    points = (tmp_path / "there", tmp_path / "absent")
    monkeypatch.setattr(kernel_namespaces, "MOUNT_POINTS", points)
    return tmp_path


def _put(path: Path, value: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def _start_kubelet(stage: Path) -> None:
    for name in SETTINGS.keys() & machine.SET_BY_KUBELET.keys():
        _put(stage / "sys" / name, machine.SET_BY_KUBELET[name])


def _settings(stage: Path) -> dict[str, str]:
    return {name: (stage / "sys" / name).read_text().strip() for name in SETTINGS}


def _cluster(stage: Path, name: str) -> Path:
    directory = stage / "clusters" / name
    directory.mkdir(parents=True)
    return directory


def _as_before(stage: Path) -> bool:
    left = {path.name for path in stage.iterdir()}
    return left <= {"sys", "there", "clusters"} and _settings(stage) == SETTINGS


def test_one_node_leaves_the_machine_as_it_was(stage: Path) -> None:
    """Settings are restored; created files are removed, existing ones stay; twice too."""
    one = _cluster(stage, "one")
    machine.register_node(one)
    _start_kubelet(stage)
    assert machine.is_registered(one)
    assert (stage / "absent").is_dir()
    for _ in range(2):
        machine.unregister_node(one)
        assert _as_before(stage)
    assert (stage / "there").is_dir()


@pytest.mark.parametrize(("initial", "meanwhile"), [("128", "1024"), ("4096", "4096")])
def test_a_limit_is_raised_and_never_lowered(stage: Path, initial: str, meanwhile: str) -> None:
    """Watches of all clusters count together, and many machines allow few."""
    one = _cluster(stage, "one")
    _put(stage / "sys" / LIMIT, initial)
    machine.register_node(one)
    assert _settings(stage)[LIMIT] == meanwhile
    machine.unregister_node(one)
    assert _settings(stage)[LIMIT] == initial


def test_settings_that_a_record_does_not_know_are_added(stage: Path) -> None:
    """Another version may have begun it; its initial values stay."""
    one, two = _cluster(stage, "one"), _cluster(stage, "two")
    known = machine.MachineRecord({"kernel/panic": "7"}, (), (str(one),))
    machine._save(known)
    _start_kubelet(stage)
    machine.register_node(two)
    machine.unregister_node(one)
    machine.unregister_node(two)
    assert _settings(stage) == {**_settings(stage), "kernel/panic": "7", LIMIT: "128"}


def test_the_last_of_two_restores_the_initial_state(stage: Path) -> None:
    """Neither the order of removal nor the second one's initial values matter."""
    one, two = _cluster(stage, "one"), _cluster(stage, "two")
    machine.register_node(one)
    _start_kubelet(stage)
    machine.register_node(two)
    machine.unregister_node(one)
    assert _settings(stage)["kernel/panic"] == machine.SET_BY_KUBELET["kernel/panic"]
    assert (stage / "absent").is_dir()
    machine.unregister_node(two)
    assert _as_before(stage)


def test_a_cluster_without_directory_keeps_nothing(stage: Path) -> None:
    """A directory deleted by a user does not leave the machine changed forever."""
    one, two = _cluster(stage, "one"), _cluster(stage, "two")
    machine.register_node(one)
    machine.register_node(two)
    _start_kubelet(stage)
    two.rmdir()
    machine.unregister_node(one)
    assert _as_before(stage)


def test_a_mount_point_in_use_stays(stage: Path) -> None:
    """A real kubelet may have been started meanwhile."""
    one = _cluster(stage, "one")
    machine.register_node(one)
    (stage / "absent" / "somebody").touch()
    machine.unregister_node(one)
    assert (stage / "absent" / "somebody").exists()


def test_a_broken_record_is_removed(stage: Path) -> None:
    """A killed writer leaves drafts, never a reason to fail."""
    one = _cluster(stage, "one")
    (stage / "run").mkdir()
    (stage / "run" / ".nodes.json.draft").touch()
    (stage / "run.lock").touch()
    machine.unregister_node(one)
    assert _as_before(stage)
