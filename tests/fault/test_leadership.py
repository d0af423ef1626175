"""Two operators at once: after a pause, and by configuration."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault import held_controller, history, open_window
from tests.fault.candidate import Candidate
from tests.fault.conftest import FLAGS
from tests.support.processes.operator import eventually, running_operator
from tests.support.reverser.api_users import api_user
from tests.support.reverser.mirrored_namespace import Commit, MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = {"resources": ["configmaps"]}


def _path(mirrored: MirroredNamespace, name: str) -> str:
    return f"v1/configmaps/{mirrored.namespace}/{name}.yaml"


def _await_file(mirrored: MirroredNamespace, name: str, text: str = "") -> None:
    path = _path(mirrored, name)
    eventually(
        lambda: path in (files_found := mirrored.files()) and text in files_found[path],
        f"file {name}",
        seconds=60.0,
    )


def _pid(commit: Commit) -> int:
    return int(commit.trailer("InstanceID").split("_")[-2])


@pytest.mark.scenario("A77")
def test_a_leader_that_was_paused_pushes_nothing_more(
    mirrored: MirroredNamespace,
    fault_cluster: LocalCluster,
    tmp_path: Path,
    candidates: Callable[..., Candidate],
) -> None:
    """Another takes over; the old leader resumes with an open window and writes nothing."""
    alice = mirrored.user("alice")
    flags = (*FLAGS, open_window.NO_GRACE)
    with running_operator(fault_cluster, tmp_path / "first", *flags, authors=False) as first:
        # Long enough to be open when the leader is paused, and over when it resumes: the other
        # one takes over only after the lease has expired.
        open_window.configure_window(mirrored, "10s")
        earlier = len(mirrored.commits())
        alice.apply(mirrored.config_map("open", a="1"))
        waiting = open_window.WAITING_FILES
        eventually(lambda: first.metric(waiting) >= 1, "an open window")
        first.signal(signal.SIGSTOP)
        other = candidates()
        other.start()
        _await_file(mirrored, "open")
        alice.apply(mirrored.config_map("open", a="2"), mirrored.config_map("late", a="1"))
        _await_file(mirrored, "late")
        first.signal(signal.SIGCONT)
        eventually(
            lambda: "no longer leading" in first.log.read_text(), "resignation", seconds=30.0
        )
        alice.apply(mirrored.config_map("last", a="1"))
        _await_file(mirrored, "last")
    assert {_pid(commit) for commit in mirrored.commits()[:-earlier]} == {other.pid}
    history.assert_sound(mirrored)


@pytest.mark.scenario("A76")
def test_two_active_operators_write_the_same_history(
    mirrored: MirroredNamespace, candidates: Callable[..., Candidate]
) -> None:
    """Both compute the same bytes; one wins each race, the other finds nothing to do.

    The slower of the two may bring back for a moment what the other has removed: its own
    deletion of the object is still on the way. So the files are awaited, not read once.
    """
    replicas = [candidates("--no-leader-elect"), candidates("--no-leader-elect")]
    for replica in replicas:
        replica.spawn()
    for replica in replicas:
        eventually(replica._is_ready, "readiness", seconds=60.0)
    alice = mirrored.user("alice")
    mirrored.configured(CONFIG_MAPS)
    for number in range(6):
        alice.apply(*(mirrored.config_map(f"map-{index}", value=str(number)) for index in range(4)))
    alice.delete("configmap", "map-0")
    for index in range(1, 4):
        _await_file(mirrored, f"map-{index}", 'value: "5"')
    alice.apply(mirrored.config_map("last", a="1"))
    expected = {_path(mirrored, name) for name in ("map-1", "map-2", "map-3", "last")}
    eventually(lambda: mirrored.files().keys() == expected, "the files of the four that live")
    assert all(replica.is_alive for replica in replicas)
    history.assert_sound(mirrored)


def _answer(leader: Candidate) -> tuple[int, str] | None:
    """The answer of `/readyz`; None if there was none in time."""
    status, text = leader.readiness()
    return (status, text) if status else None


@pytest.mark.scenario("A86")
def test_readiness_ends_before_the_work_and_the_work_before_the_lease(
    mirrored: MirroredNamespace, candidates: Callable[..., Candidate], tmp_path: Path
) -> None:
    """When the lease is about to be released, the window is pushed and `/readyz` already fails."""
    os.mkfifo(tmp_path / "go")
    command = (sys.executable, str(held_controller.__file__))
    leader = candidates(open_window.NO_GRACE, open_window.USUAL_PUSH_TIMEOUT, command=command)
    leader.start({"HELD_IN": str(tmp_path)})
    open_window.configure_window(mirrored, "60s")
    mirrored.user("alice").apply(mirrored.config_map("open", a="1"))
    eventually(lambda: leader.metric(open_window.WAITING_FILES) >= 1, "an open window")
    assert not mirrored.files()
    leader.signal(signal.SIGTERM)
    eventually((tmp_path / "reached").exists, "the end of all capabilities", seconds=30.0)
    status, text = eventually(lambda: _answer(leader), "an answer, whatever it is")
    assert (status, text.splitlines()[0]) == (503, "controller: shutting down")
    assert mirrored.files().keys() == {_path(mirrored, "open")}
    admin = api_user(mirrored, "admin", "windlass-system")
    assert f"_{leader.pid}_" in admin.get("lease", "windlass-leader")["spec"]["holderIdentity"]
    (tmp_path / "go").write_bytes(b"x")
    assert leader.wait_for_exit() == 0
    assert not admin.get("lease", "windlass-leader")["spec"].get("holderIdentity")
