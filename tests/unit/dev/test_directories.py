"""Names and directories of clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass import __version__
from windlass.base.errors import WindlassError
from windlass_dev import directories


@pytest.mark.parametrize("name", ["dev", "a", "test-1-x", "0" * 40])
def test_good_names(name: str) -> None:
    """A name is a label."""
    directories.check_name(name)


@pytest.mark.parametrize("name", ["", "..", "a/b", "Dev", "-a", "a-", "x" * 41, "a.lock", "a\n"])
def test_bad_names_are_refused(name: str) -> None:
    """No name can leave the state directory or collide with a lock."""
    with pytest.raises(WindlassError, match="lowercase letters"):
        directories.cluster_directory(name)


def test_xdg_directories_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """For state and cache."""
    monkeypatch.setenv("XDG_STATE_HOME", "/nowhere/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere/cache")
    assert directories.cluster_directory("x") == Path("/nowhere/state/windlass/dev/x")
    assert directories.cache_root() == Path("/nowhere/cache/windlass") / __version__


def test_relative_xdg_directories_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As XDG requires; state that depends on the working directory would get lost."""
    monkeypatch.setenv("HOME", "/nowhere/home")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert directories.cluster_directory("x") == Path("/nowhere/home/.local/state/windlass/dev/x")
