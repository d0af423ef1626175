"""SIGKILL before and after every side effect of an apply: the tree is the old or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import KILLED, CrashRunner, crash_runner, memory_directory

TREES = {"": {}, "old": site.OLD, "new": site.NEW}

FAILPOINTS = {
    "gateways.clean",
    "gateways.execute.delete",
    "gateways.execute.mkdir",
    "gateways.execute.put",
    "gateways.execute.rmdir",
    "gateways.journal.drop",
    "gateways.journal.forward",
    "gateways.lock.beat",
    "gateways.manifest",
    "gateways.stage",
    "gateways.tree.create",
    "gateways.tree.keep",
    "gateways.tree.link",
    "gateways.tree.mkdir",
    "gateways.tree.rename",
    "gateways.tree.rmdir",
    "gateways.tree.sync",
    "gateways.tree.unlink",
    "gateways.tree.write",
    "gateways.undo.keep",
}
"""Every side effect of an apply; each is passed before and after."""


@pytest.fixture(scope="module")
def runner() -> Iterator[CrashRunner]:
    """Runs applies in processes that may be killed."""
    with memory_directory() as directory, crash_runner(directory) as server:
        yield server


@pytest.fixture(scope="module")
def synced(runner: CrashRunner) -> Path:
    """A data directory that holds the old tree."""
    data = runner.empty()
    assert runner.run(data, "old") == 0
    return data


@pytest.fixture(scope="module")
def twice_synced(runner: CrashRunner, synced: Path) -> Path:
    """A data directory that holds the new tree and can be rolled back to the old one."""
    data = runner.copy(synced)
    assert runner.run(data, "new") == 0
    return data


def assert_survives_kills(
    runner: CrashRunner,
    template: Path,
    act: str,
    expected: set[str],
    *,
    armed: str = "",
    **extra: str,
) -> None:
    """Kill at every visit to every failpoint; the next start leaves a complete tree."""
    commits = set()
    for kill_point in runner.kill_points(template, act, armed=armed, **extra):
        data = runner.copy(template)
        code = runner.run(
            data, act, armed=f"{armed},{kill_point}" if armed else kill_point, **extra
        )
        assert code == KILLED, f"{kill_point} was not passed"
        assert runner.run(data, "replay", **extra) == 0, f"no start after {kill_point}"
        try:
            commits.add(site.assert_complete(data, TREES))
        except AssertionError as error:
            raise AssertionError(f"killed at {kill_point}: {error}") from error
        shutil.rmtree(data)
    assert commits == expected


@pytest.mark.scenario("G39")
def test_an_apply_killed_anywhere_leaves_the_old_or_the_new_tree(
    runner: CrashRunner, synced: Path
) -> None:
    """Every side effect has a failpoint, and a kill at none of them leaves a mixture."""
    visited = {kill_point.partition("=")[0] for kill_point in runner.kill_points(synced, "new")}
    assert visited == {f"{name}.{when}" for name in FAILPOINTS for when in ("before", "after")}
    assert_survives_kills(runner, synced, "new", {"old", "new"})


@pytest.mark.scenario("G39")
def test_a_first_apply_killed_anywhere_leaves_nothing_or_the_tree(runner: CrashRunner) -> None:
    """Also on a volume without any state of ours."""
    assert_survives_kills(runner, runner.empty(), "old", {"", "old"})


@pytest.mark.scenario("G39", "G48")
def test_a_rollback_killed_anywhere_leaves_the_old_or_the_new_tree(
    runner: CrashRunner, twice_synced: Path
) -> None:
    """A rollback is an apply like any other."""
    assert_survives_kills(runner, twice_synced, "rollback", {"old", "new"})


@pytest.mark.scenario("G39")
def test_an_undone_apply_killed_anywhere_leaves_the_old_or_the_new_tree(
    runner: CrashRunner, synced: Path
) -> None:
    """A step that fails leads back to the old tree, also through a crash in between."""
    armed = "gateways.execute.rmdir.after=full@2"
    data = runner.copy(synced)
    assert runner.run(data, "new", armed=armed) != 0
    assert site.assert_complete(data, TREES) == "old"
    assert_survives_kills(runner, synced, "new", {"old", "new"}, armed=armed)


@pytest.mark.scenario("G39")
@pytest.mark.parametrize(
    "first", ["gateways.journal.forward.after=kill", "gateways.execute.delete.before=kill@3"]
)
def test_a_replay_killed_anywhere_is_replayed(
    runner: CrashRunner, synced: Path, first: str
) -> None:
    """A second kill during the replay does not change the result."""
    interrupted = runner.copy(synced)
    assert runner.run(interrupted, "new", armed=first) == KILLED
    assert_survives_kills(runner, interrupted, "replay", {"new"})


@pytest.mark.scenario("G39")
def test_an_apply_across_file_systems_killed_anywhere_leaves_no_part(
    runner: CrashRunner, synced: Path
) -> None:
    """Files copied beside their destination leave nothing behind."""
    assert_survives_kills(runner, synced, "new", {"old", "new"}, split="yes")
