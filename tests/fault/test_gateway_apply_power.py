"""Power cuts during an apply: whatever was not synced may be lost, the tree is old or new."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import copy_tree, memory_directory
from tests.support.gateways.power_loss import Disk, Event, RecordingTree
from windlass.base.errors import WindlassError
from windlass.gateways.volume import data_volume, staging
from windlass.gateways.volume.data_volume import DataVolume

TREES = {"": {}, "old": site.OLD, "new": site.NEW}

Act = Callable[[DataVolume], object]

_SETTINGS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory; the model decides what a sync makes durable."""
    with memory_directory() as directory:
        yield directory


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make data volumes use trees that record their changes."""
    monkeypatch.setattr(data_volume, "DataDirectory", RecordingTree)


def record(data: Path, act: Act) -> list[Event]:
    """The events of a start and of `act`."""
    RecordingTree.events.clear()
    with site.applier(data) as applier:
        applier.start()
        act(applier)
    return list(RecordingTree.events)


def recorded_run(memory: Path, act: Act, *before: Act) -> tuple[Path, list[Event]]:
    """A data directory before `act`, and the events of `act`."""
    data = Path(tempfile.mkdtemp(dir=memory))
    for earlier in before:
        record(data, earlier)
    start = Path(tempfile.mkdtemp(dir=memory)) / "start"
    copy_tree(data, start)
    return start, record(data, act)


def cut(memory: Path, start: Path, events: list[Event], chance: Random | None) -> Path:
    """The data directory that remains after `events` and a power cut."""
    disk = Disk(start)
    for event in events:
        disk.play(event)
    remaining = Path(tempfile.mkdtemp(dir=memory)) / "data"
    disk.cut(remaining, chance)
    return remaining


def replay(applier: DataVolume) -> None:
    """Only what every start does."""
    del applier


def to_new(applier: DataVolume) -> None:
    """Apply the new tree, the apply under test."""
    site.sync(applier, site.NEW, "new")


def to_old(applier: DataVolume) -> None:
    """Apply the old tree, the apply before it."""
    site.sync(applier, site.OLD, "old")


def roll_back(applier: DataVolume) -> None:
    """Undo the last apply."""
    applier.rollback()


def fail_and_undo(applier: DataVolume) -> None:
    """An apply that finds a folder in place of its third-last file."""
    obstacle = applier.directory.root / "projects/site/view/more.bin"
    with applier.begin() as transaction, pytest.MonkeyPatch.context() as patch:
        patch.setattr(applier.directory, "mkdir", _obstructing(applier, obstacle))
        with pytest.raises(WindlassError):
            site.commit_files(applier, transaction, site.NEW, "new")


def _obstructing(applier: DataVolume, obstacle: Path) -> Callable[[str, int], None]:
    make = applier.directory.mkdir

    def mkdir(path: str, mode: int) -> None:
        make(path, mode)
        if path == "projects/other":
            make(obstacle.relative_to(applier.directory.root).as_posix(), mode)

    return mkdir


RUNS: dict[str, tuple[Act, tuple[Act, ...]]] = {
    "first": (to_old, ()),
    "second": (to_new, (to_old,)),
    "rollback": (roll_back, (to_old, to_new)),
}


@pytest.mark.scenario("G40")
@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("chances", [0, 3])
def test_after_a_power_cut_at_any_event_the_tree_is_old_or_new(
    name: str, chances: int, memory: Path
) -> None:
    """Cut after every event, with none or a random part of the unsynced data left."""
    act, before = RUNS[name]
    start, events = recorded_run(memory, act, *before)
    commits = set()
    tries = [Random(seed) for seed in range(chances)] or [None]
    for count, chance in itertools.product(range(len(events) + 1), tries):
        remaining = cut(memory, start, events[:count], chance)
        with site.applier(remaining) as applier:
            applier.start()
        commits.add(site.assert_complete(remaining, TREES))
        shutil.rmtree(remaining)
    assert len(commits) == 2


@pytest.mark.scenario("G40")
@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("many", [False, True])
def test_a_committed_apply_survives_a_power_cut(
    many: bool, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After commit() has returned, however the files were synced."""
    monkeypatch.setattr(staging, "MAX_SINGLE_SYNCS", 0 if many else 1000)
    start, events = recorded_run(memory, to_new, to_old)
    assert any(event[0] == "sync_all" for event in events) is many
    remaining = cut(memory, start, events, None)
    with site.applier(remaining) as applier:
        applier.start()
        assert site.assert_complete(remaining, TREES) == "new"
        applier.rollback()
    assert site.assert_complete(remaining, TREES) == "old"


@pytest.mark.scenario("G40")
@pytest.mark.usefixtures("recording")
@_SETTINGS
@given(data=st.data(), seed=st.integers(0, 2**32), many=st.booleans())
def test_power_cuts_during_replay_change_nothing(
    data: st.DataObject, seed: int, many: bool, memory: Path
) -> None:
    """Cut anywhere, start, cut that start anywhere, start again: old or new."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "MAX_SINGLE_SYNCS", 0 if many else 1000)
        name = data.draw(st.sampled_from(sorted(RUNS)))
        act, before = RUNS[name]
        start, events = recorded_run(memory, act, *before)
        count = data.draw(st.integers(0, len(events)))
        first = cut(memory, start, events[:count], Random(seed))
        before_replay = first.with_name("again")
        copy_tree(first, before_replay)
        resumed = record(first, replay)
        stop = data.draw(st.integers(0, len(resumed)))
        second = cut(memory, before_replay, resumed[:stop], Random(seed + 1))
        with site.applier(second) as applier:
            applier.start()
        site.assert_complete(second, TREES)


@pytest.mark.scenario("G40")
@pytest.mark.usefixtures("recording")
def test_a_power_cut_during_an_undo_leaves_old_or_new(memory: Path) -> None:
    """The undo is as safe as the apply."""
    start, events = recorded_run(memory, fail_and_undo, to_old)
    for count in range(len(events) + 1):
        remaining = cut(memory, start, events[:count], Random(count))
        obstacle = remaining / "projects/site/view/more.bin"
        if obstacle.is_dir():
            obstacle.rmdir()
        with site.applier(remaining) as applier:
            applier.start()
        site.assert_complete(remaining, TREES)
        shutil.rmtree(remaining)
