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

OWNER = LockOwner("uid-1", "gateway-0", "node-a")
OTHER_OWNER = LockOwner("uid-2", "gateway-0", "node-b")


class ManualClock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[DataDirectory]:
    """A directory for a lock file."""
    with DataDirectory(tmp_path) as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    """A clock that does not advance by itself."""
    return ManualClock()


def write_record(tree: DataDirectory, owner: LockOwner, beat: int, *, active: bool) -> None:
    """Write the record of an agent whose lock we cannot see."""
    record = {"podUID": owner.pod_uid, "podName": owner.pod_name, "node": owner.node}
    content = json.dumps({**record, "beat": beat, "active": active})
    (tree.root / "lock").write_text(content.ljust(1024))


def read_record(tree: DataDirectory) -> LockRecord:
    """The record in the lock file."""
    return msgspec.json.decode((tree.root / "lock").read_bytes(), type=LockRecord)


@pytest.mark.scenario("G44")
def test_a_second_process_is_refused_until_the_first_dies(tmp_path: Path) -> None:
    """The error names the owner; a killed owner is succeeded at once."""
    data = tmp_path / "data"
    data.mkdir()
    with crash_runner(tmp_path / "runner") as first:
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
    """It stays the same file, however often the owner changes."""
    inodes = set()
    for owner in (OWNER, OTHER_OWNER, OWNER):
        with site.applier(tmp_path, owner) as applier:
            site.sync(applier, {"projects/a": owner.pod_uid.encode()}, owner.pod_uid)
        inodes.add((tmp_path / ".ignition-sync/lock").stat().st_ino)
    assert len(inodes) == 1


def test_an_idle_owner_writes_nothing(tree: DataDirectory, clock: ManualClock) -> None:
    """The beat increases inside transactions only."""
    volume_lock = VolumeLock(tree, "lock", OWNER, clock)
    volume_lock.acquire()
    beat = read_record(tree).beat
    clock.seconds += 3600
    volume_lock.acquire()
    assert read_record(tree) == LockRecord("uid-1", "gateway-0", "node-a", beat, False)
    with volume_lock.transaction():
        assert read_record(tree).active
        assert read_record(tree).beat > beat
    assert not read_record(tree).active
    volume_lock.release()


def test_an_active_owner_on_another_node_is_watched_first(
    tree: DataDirectory, clock: ManualClock
) -> None:
    """If two nodes get the lock, a beat that no longer increases decides."""
    write_record(tree, OTHER_OWNER, 7, active=True)
    waiting = VolumeLock(tree, "lock", OWNER, clock)
    for beat in (7, 7, 8, 8):
        write_record(tree, OTHER_OWNER, beat, active=True)
        with pytest.raises(VolumeLocked, match="node-b"):
            waiting.acquire()
        clock.seconds += 40
    waiting.acquire()
    assert read_record(tree).owner == OWNER
    waiting.release()


def test_an_idle_owner_on_another_node_is_succeeded_at_once(
    tree: DataDirectory, clock: ManualClock
) -> None:
    """A pod that moved to another node does not wait for its predecessor."""
    write_record(tree, OTHER_OWNER, 7, active=False)
    successor = VolumeLock(tree, "lock", OWNER, clock)
    successor.acquire()
    assert read_record(tree) == LockRecord("uid-1", "gateway-0", "node-a", 8, False)
    successor.release()


def test_an_owner_with_an_old_beat_stops(tree: DataDirectory, clock: ManualClock) -> None:
    """An owner that was suspended for too long does not write its next step."""
    volume_lock = VolumeLock(tree, "lock", OWNER, clock)
    with volume_lock.transaction():
        volume_lock.check()
        clock.seconds += 61
        with pytest.raises(VolumeLocked):
            volume_lock.check()
        clock.seconds -= 61
        with pytest.raises(VolumeLocked):
            volume_lock.check()
    assert read_record(tree).active, "a lost lock is not released"
    volume_lock.release()


def test_an_owner_that_was_succeeded_stops(tree: DataDirectory, clock: ManualClock) -> None:
    """The record is read again before the commit point."""
    volume_lock = VolumeLock(tree, "lock", OWNER, clock)
    with volume_lock.transaction():
        write_record(tree, OTHER_OWNER, 9, active=True)
        with pytest.raises(VolumeLocked, match="node-b"):
            volume_lock.check_record()
    assert read_record(tree).owner == OTHER_OWNER
    volume_lock.release()


def test_a_long_transaction_beats(
    tree: DataDirectory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node sees that the owner is alive."""
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.001)
    volume_lock = VolumeLock(tree, "lock", OWNER, clock)
    with volume_lock.transaction():
        first = read_record(tree).beat
        eventually(lambda: read_record(tree).beat >= first + 3, "three beats")
    volume_lock.release()


def test_a_lost_lock_leaves_the_journal_to_the_successor(tmp_path: Path) -> None:
    """Past the commit point an owner without the lock stops; the next one completes the apply."""
    clock = ManualClock()
    with DataVolume(tmp_path, OWNER, clock=clock, reserve=site.NO_RESERVE) as first:
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
    with site.applier(tmp_path, OWNER) as second:
        replayed = second.start()
        assert replayed is not None
        assert replayed.tree == "new"
    assert site.assert_complete(tmp_path, {"new": site.NEW}) == "new"
