"""Recognizing processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cluster import dev_command as commands
from tests.support.cluster.stub_program import write_script
from windlass_dev.cluster import processes
from windlass_dev.cluster.cluster_state import RecordedProcess


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[RecordedProcess]:
    """A detached process that does nothing for a while."""
    process = processes.spawn(["/bin/sleep", "60"], directory=tmp_path, log=tmp_path / "log")
    yield process
    processes.kill_processes([process], tmp_path)
    assert not processes.is_alive(process, tmp_path)


def test_a_recorded_process_is_recognized(sleeper: RecordedProcess, tmp_path: Path) -> None:
    """Its start time and program are those of the record."""
    assert processes.is_alive(sleeper, tmp_path)
    assert processes.resident_bytes(sleeper.pid) > 0


@pytest.mark.parametrize("change", [{"started_ticks": 1}, {"executable": "/bin/other"}])
def test_a_foreign_process_with_a_reused_pid_survives(
    sleeper: RecordedProcess, tmp_path: Path, change: dict[str, object]
) -> None:
    """A reused pid is not ours to end."""
    foreign = replace(sleeper, **change)  # type: ignore[arg-type]
    assert not processes.is_alive(foreign, tmp_path)
    processes.kill_processes([foreign], tmp_path)
    assert processes.is_alive(sleeper, tmp_path)


def test_session_is_its_own(sleeper: RecordedProcess) -> None:
    """A closed terminal does not end a local cluster."""
    fields = Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()
    assert int(fields[3]) == sleeper.pid


def test_settings_of_the_caller_do_not_leak_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both etcd and Kubernetes would honor variables that were meant for others; Go's may."""
    monkeypatch.setenv("ETCD_DATA_DIR", "/elsewhere")
    monkeypatch.setenv("GOMAXPROCS", "1")
    monkeypatch.setenv("GOGC", "77")
    log = tmp_path / "log"
    process = processes.spawn(["/usr/bin/env"], directory=tmp_path, log=log)
    commands.wait_for_exit(process.pid)
    assert "ETCD_DATA_DIR" not in log.read_text()
    assert {"GOMAXPROCS=1", "GOGC=77"} <= set(log.read_text().split())
    assert not processes.is_alive(process, tmp_path)


def test_only_our_programs_are_found(sleeper: RecordedProcess, tmp_path: Path) -> None:
    """A process is the cluster's only if it names the directory and runs such a program."""
    # Not a shell: for a moment its own child would look just like it.
    script = "import time; time.sleep(60)"
    command = [sys.executable, "-c", script, f"{tmp_path}/x"]
    named = processes.spawn(command, directory=tmp_path, log=tmp_path / "log")
    programs = {Path(processes.executable(named.pid)).name}
    try:
        assert [one.pid for one in processes.find_processes(tmp_path, programs)] == [named.pid]
        assert list(processes.find_processes(tmp_path, ["etcd"])) == []
        assert list(processes.find_processes(tmp_path / "other", programs)) == []
    finally:
        processes.kill_processes([named], tmp_path)


@pytest.mark.parametrize(("program", "found"), [("kubelet", True), ("containerd", False)])
def test_a_process_that_enters_counts_as_its_program(
    tmp_path: Path, program: str, found: bool
) -> None:
    """On a busy machine one may still be entering when others are listed."""
    entrance = write_script(tmp_path / "nsenter", "sleep 60; :")
    command = [
        str(entrance),
        f"--net={tmp_path}/net",
        "--",
        "/bin/kubelet",
        f"--config={tmp_path}/x",
    ]
    process = processes.spawn(command, directory=tmp_path, log=tmp_path / "log")
    try:
        hits = processes.find_processes(tmp_path, [program], through="nsenter")
        # Until it sleeps, the child of the script looks like the script itself.
        assert (process.pid in {one.pid for one in hits}) == found
    finally:
        processes.kill_processes([process], tmp_path)


@pytest.mark.parametrize(
    ("script", "expected"), [("exit 3", "with code 3"), ("kill -9 $$", "by SIGKILL")]
)
def test_how_a_process_ended_is_known(tmp_path: Path, script: str, expected: str) -> None:
    """A killed process prints nothing."""
    process = processes.spawn(["/bin/sh", "-c", script], directory=tmp_path, log=tmp_path / "log")
    commands.wait_for_exit(process.pid)
    assert not processes.is_alive(process, tmp_path)
    assert processes.describe_exit(process) == expected


def test_the_callers_umask_does_not_leak_in(tmp_path: Path) -> None:
    """Pods could not read files created with a strict umask."""
    mask = os.umask(0o077)
    try:
        process = processes.spawn(
            ["/bin/sh", "-c", "umask"], directory=tmp_path, log=tmp_path / "log"
        )
    finally:
        os.umask(mask)
    commands.wait_for_exit(process.pid)
    assert not processes.is_alive(process, tmp_path)
    assert (tmp_path / "log").read_text() == "0022\n"
