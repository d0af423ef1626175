"""Any prefix of an apply followed by a replay has the same result."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import memory_directory
from windlass.base.errors import Retryable
from windlass.gateways.tree import path_rules
from windlass.gateways.volume.data_volume import DataVolume

_NAMES = st.sampled_from(["a", "b", "resource.json"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map(lambda parts: "/".join(["projects", *parts]))


def _without_clashes(files: dict[str, bytes]) -> dict[str, bytes]:
    """A file cannot be a folder too: the longer path wins."""
    folders = {folder for path in files for folder in path_rules.parents(path)}
    return {path: content for path, content in files.items() if path not in folders}


TREES = st.dictionaries(_PATHS, st.binary(max_size=8), max_size=6).map(_without_clashes)


class Stopped(Exception):
    """Stands in for the end of the process."""


class Stopping:
    """Allows so many steps, then raises Stopped."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def __call__(self) -> None:
        if self._left == 0:
            raise Stopped
        self._left -= 1


def stop_after(applier: DataVolume, steps: int) -> None:
    """Make the lock check fail after so many steps."""
    applier._lock.check = Stopping(steps)  # type: ignore[method-assign]


@settings(max_examples=80, deadline=None)
@given(old=TREES, new=TREES, steps=st.lists(st.integers(0, 14), max_size=3))
def test_any_prefix_and_a_replay_have_the_same_result(
    old: dict[str, bytes], new: dict[str, bytes], steps: list[int]
) -> None:
    """However often it is stopped, after the last start there is one complete tree."""
    trees = {"old": old, "new": new}
    with memory_directory() as directory:
        _sync(directory, old, "old")
        _sync_with_stops(directory, new, steps)
        with site.applier(directory) as applier:
            applier.start()
        if (commit := _commit(directory)) is not None:
            assert site.assert_complete(directory, trees) == commit
        _sync(directory, new, "new")
        if new:
            site.assert_complete(directory, trees)
            _undo(directory, old, new)


def _undo(directory: Path, old: dict[str, bytes], new: dict[str, bytes]) -> None:
    if site.expected_tree(old) == site.expected_tree(new):
        return
    with site.applier(directory) as applier:
        applier.rollback()
        applier.rollback()
    assert site.read_tree(directory) == site.expected_tree(new)


def _sync(directory: Path, files: dict[str, bytes], commit: str) -> None:
    with site.applier(directory) as applier:
        site.sync(applier, files, commit)


def _sync_with_stops(directory: Path, files: dict[str, bytes], steps: list[int]) -> None:
    for count in steps:
        with site.applier(directory) as applier, suppress(Stopped, Retryable):
            applier.start()
            stop_after(applier, count)
            site.sync(applier, files, "new")


def _commit(directory: Path) -> str | None:
    with site.applier(directory) as applier:
        manifest = applier.manifest()
    return manifest.commit if manifest is not None else None
