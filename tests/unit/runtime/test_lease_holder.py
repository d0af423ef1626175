"""Names of lease holders."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from windlass.runtime.lease import Holder

ME = Holder("desk", "w1", 100, "aa")


def runs(pid: int) -> bool:
    """Only process 200 is running."""
    return pid == 200


def test_a_name_can_be_read_back() -> None:
    """Also with underscores in the host name."""
    for holder in (ME, Holder("my_odd_host", "w", 1, "x"), Holder("h", "", 1, "x")):
        assert Holder.parse(str(holder)) == holder


@pytest.mark.parametrize("identity", ["", "pod-1", "a_b_c_d", "a_b_-1_d", "a_1_d"])
def test_a_foreign_name_is_not_judged(identity: str) -> None:
    """A name in another format says nothing about a process."""
    assert Holder.parse(identity) is None
    assert not ME.is_dead_given(identity, runs=runs)


@pytest.mark.parametrize(
    ("other", "is_dead"),
    [
        (ME, False),
        (replace(ME, pid=300), True),
        (replace(ME, pid=200), False),
        (replace(ME, nonce="bb"), True),
        (replace(ME, pid=300, world="w2"), False),
        (replace(ME, pid=300, host="other"), False),
    ],
)
def test_only_processes_of_this_machine_can_be_dead(other: Holder, is_dead: bool) -> None:
    """A pid has a meaning only on the same host, boot and process namespace."""
    assert ME.is_dead_given(str(other), runs=runs) is is_dead


def test_an_unknown_machine_judges_no_holder() -> None:
    """Where host, boot or namespace are unknown, leases expire."""
    nowhere = replace(ME, world="")
    assert not nowhere.is_dead_given(str(replace(nowhere, pid=300)), runs=runs)


def test_real_processes_are_distinguished() -> None:
    """A child that exited is dead, this process and its parent are not."""
    me = Holder.local()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert me.pid == os.getpid()
    assert me.is_known_dead(str(replace(me, pid=child.pid)))
    assert not me.is_known_dead(str(me))
    assert not me.is_known_dead(str(replace(me, pid=os.getppid())))
