"""One writer per volume: processes on one node, agents on two, suspended owners."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import crash_runner
from tests.support.processes.operator import eventually
from windlass.gateways.volume import lock
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import LockOwner, LockRecord, VolumeLock, VolumeLocked

HERE = LockOwner("uid-1", "gateway-0", "node-a")
THERE = LockOwner("uid-2", "gateway-0", "node-b")


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[DataDirectory]:
    """A directory to keep a lock file in."""
    with DataDirectory(tmp_path) as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still."""
    return ManualClock()


def write_record(tree: DataDirectory, owner: LockOwner, beat: int, *, active: bool) -> None:
    """What an agent whose lock we cannot see has written."""
    record = {"podUID": owner.pod_uid, "podName": owner.pod_name, "node": owner.node}
    content = json.dumps({**record, "beat": beat, "active": active})
    (tree.root / "lock").write_text(content.ljust(1024))


def read_record(tree: DataDirectory) -> LockRecord:
    """What the lock file says."""
    return msgspec.json.decode((tree.root / "lock").read_bytes(), type=LockRecord)


@pytest.mark.scenario("G44")
def test_a_second_process_is_refused_until_the_first_dies(tmp_path: Path) -> None:
    """The refusal names the owner; a killed owner is succeeded at once."""
    data = tmp_path / "data"
    data.mkdir()
    with crash_runner(tmp_path / "deaths") as first:
        pid = first.hold(data)
        with site.applier(data, LockOwner("uid-2", "gateway-1", "node-a")) as second:
            with pytest.raises(VolumeLocked) as refused:
                second.start()
            assert "gateway-0 (uid-1) on node node-a" in str(refused.value)
            assert refused.value.after > 0
            with pytest.raises(VolumeLocked):
                site.sync(second, site.NEW, "new")
            subprocess.run(["kill", "-KILL", str(pid)], check=True)
            first.await_end()
            site.sync(second, site.NEW, "new")
    assert site.assert_complete(data, {"new": site.NEW}) == "new"


def test_the_lock_file_is_never_replaced(tmp_path: Path) -> None:
    """However often it changes hands, it is one file."""
    inodes = set()
    for owner in (HERE, THERE, HERE):
        with site.applier(tmp_path, owner) as applier:
            site.sync(applier, {"projects/a": owner.pod_uid.encode()}, owner.pod_uid)
        inodes.add((tmp_path / ".ignition-sync/lock").stat().st_ino)
    assert len(inodes) == 1


def test_an_idle_owner_writes_nothing(tree: DataDirectory, clock: ManualClock) -> None:
    """The beat goes up inside transactions only."""
    held = VolumeLock(tree, "lock", HERE, clock)
    held.acquire()
    beat = read_record(tree).beat
    clock.seconds += 3600
    held.acquire()
    assert read_record(tree) == LockRecord("uid-1", "gateway-0", "node-a", beat, False)
    with held.transaction():
        assert read_record(tree).active
        assert read_record(tree).beat > beat
    assert not read_record(tree).active
    held.release()


def test_an_active_owner_on_another_node_is_watched_first(
    tree: DataDirectory, clock: ManualClock
) -> None:
    """A lock that two kernels give to two nodes is decided by a beat that stands still."""
    write_record(tree, THERE, 7, active=True)
    waiting = VolumeLock(tree, "lock", HERE, clock)
    for beat in (7, 7, 8, 8):
        write_record(tree, THERE, beat, active=True)
        with pytest.raises(VolumeLocked, match="node-b"):
            waiting.acquire()
        clock.seconds += 40
    waiting.acquire()
    assert read_record(tree).owner == HERE
    waiting.release()


def test_an_idle_owner_on_another_node_is_succeeded_at_once(
    tree: DataDirectory, clock: ManualClock
) -> None:
    """A pod that moved to another node does not wait for its dead self."""
    write_record(tree, THERE, 7, active=False)
    successor = VolumeLock(tree, "lock", HERE, clock)
    successor.acquire()
    assert read_record(tree) == LockRecord("uid-1", "gateway-0", "node-a", 8, False)
    successor.release()


def test_an_owner_with_an_old_beat_stops(tree: DataDirectory, clock: ManualClock) -> None:
    """Who was suspended for too long does not write its next step."""
    held = VolumeLock(tree, "lock", HERE, clock)
    with held.transaction():
        held.check()
        clock.seconds += 61
        with pytest.raises(VolumeLocked):
            held.check()
        clock.seconds -= 61
        with pytest.raises(VolumeLocked):
            held.check()
    assert read_record(tree).active, "a lost lock is not given back"
    held.release()


def test_an_owner_that_was_succeeded_stops(tree: DataDirectory, clock: ManualClock) -> None:
    """The record is read again before the commit point."""
    held = VolumeLock(tree, "lock", HERE, clock)
    with held.transaction():
        write_record(tree, THERE, 9, active=True)
        with pytest.raises(VolumeLocked, match="node-b"):
            held.check_record()
    assert read_record(tree).owner == THERE
    held.release()


def test_a_long_transaction_beats(
    tree: DataDirectory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who only reads sees the owner alive."""
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.001)
    held = VolumeLock(tree, "lock", HERE, clock)
    with held.transaction():
        first = read_record(tree).beat
        eventually(lambda: read_record(tree).beat >= first + 3, "three beats")
    held.release()


def test_a_lost_lock_leaves_the_journal_to_the_successor(tmp_path: Path) -> None:
    """Past the commit point an owner that lost the volume stops; the next one finishes."""
    clock = ManualClock()
    with DataVolume(tmp_path, HERE, clock=clock, reserve=site.NO_RESERVE) as first:
        site.sync(first, site.OLD, "old")
        with pytest.MonkeyPatch.context() as patch:
            mkdir = first.directory.mkdir

            def suspended(path: str, mode: int) -> None:
                mkdir(path, mode)
                if path.startswith("projects"):
                    clock.seconds += 61

            patch.setattr(first.directory, "mkdir", suspended)
            with pytest.raises(VolumeLocked):
                site.sync(first, site.NEW, "new")
        assert (tmp_path / ".ignition-sync/journal").exists()
    with site.applier(tmp_path, HERE) as second:
        ended = second.start()
        assert ended is not None
        assert ended.tree == "new"
    assert site.assert_complete(tmp_path, {"new": site.NEW}) == "new"
