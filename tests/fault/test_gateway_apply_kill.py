"""SIGKILL before and after every side effect of an apply: the tree is the old or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import KILLED, CrashRunner, crash_runner, memory_directory

TREES = {"": {}, "old": site.OLD, "new": site.NEW}

DOMAIN_PLACES = {
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
def dying() -> Iterator[CrashRunner]:
    """Children that may be killed."""
    with memory_directory() as directory, crash_runner(directory) as server:
        yield server


@pytest.fixture(scope="module")
def synced(dying: CrashRunner) -> Path:
    """A data directory that holds the old tree."""
    data = dying.empty()
    assert dying.run(data, "old") == 0
    return data


@pytest.fixture(scope="module")
def twice_synced(dying: CrashRunner, synced: Path) -> Path:
    """A data directory that holds the new tree and can go back to the old one."""
    data = dying.copy(synced)
    assert dying.run(data, "new") == 0
    return data


def die_everywhere(
    dying: CrashRunner, template: Path, act: str, ends: set[str], *, armed: str = "", **extra: str
) -> None:
    """Kill at every visit to every place; a fresh start then leaves a whole tree."""
    seen = set()
    for place in dying.kill_points(template, act, armed=armed, **extra):
        data = dying.copy(template)
        code = dying.run(data, act, armed=f"{armed},{place}" if armed else place, **extra)
        assert code == KILLED, f"{place} was not passed"
        assert dying.run(data, "replay", **extra) == 0, f"no start after {place}"
        try:
            seen.add(site.assert_complete(data, TREES))
        except AssertionError as error:
            raise AssertionError(f"killed at {place}: {error}") from error
        shutil.rmtree(data)
    assert seen == ends


@pytest.mark.scenario("G39")
def test_an_apply_killed_anywhere_leaves_the_old_or_the_new_tree(
    dying: CrashRunner, synced: Path
) -> None:
    """Every named side effect is a place to die at, and none of them leaves a mixture."""
    visited = {place.partition("=")[0] for place in dying.kill_points(synced, "new")}
    assert visited == {f"{name}.{when}" for name in DOMAIN_PLACES for when in ("before", "after")}
    die_everywhere(dying, synced, "new", {"old", "new"})


@pytest.mark.scenario("G39")
def test_a_first_apply_killed_anywhere_leaves_nothing_or_the_tree(dying: CrashRunner) -> None:
    """A volume without any state of ours is no exception."""
    die_everywhere(dying, dying.empty(), "old", {"", "old"})


@pytest.mark.scenario("G39", "G48")
def test_a_rollback_killed_anywhere_leaves_the_old_or_the_new_tree(
    dying: CrashRunner, twice_synced: Path
) -> None:
    """A rollback is an apply like any other."""
    die_everywhere(dying, twice_synced, "rollback", {"old", "new"})


@pytest.mark.scenario("G39")
def test_an_apply_that_turns_back_killed_anywhere_leaves_the_old_tree(
    dying: CrashRunner, synced: Path
) -> None:
    """A step that cannot be done leads to the old tree, also through a crash on the way."""
    armed = "gateways.execute.rmdir.after=full@2"
    data = dying.copy(synced)
    assert dying.run(data, "new", armed=armed) != 0
    assert site.assert_complete(data, TREES) == "old"
    die_everywhere(dying, synced, "new", {"old", "new"}, armed=armed)


@pytest.mark.scenario("G39")
@pytest.mark.parametrize(
    "first", ["gateways.journal.forward.after=kill", "gateways.execute.delete.before=kill@3"]
)
def test_a_replay_killed_anywhere_is_replayed(dying: CrashRunner, synced: Path, first: str) -> None:
    """Dying again while coming back from a death changes nothing about the end."""
    broken = dying.copy(synced)
    assert dying.run(broken, "new", armed=first) == KILLED
    die_everywhere(dying, broken, "replay", {"new"})


@pytest.mark.scenario("G39")
def test_an_apply_over_two_file_systems_killed_anywhere_leaves_no_part(
    dying: CrashRunner, synced: Path
) -> None:
    """Where files must be copied beside their destination, nothing of that stays."""
    die_everywhere(dying, synced, "new", {"old", "new"}, parcelled="yes")
