"""Unpacking packages, with replacements for apt and dpkg that fail on demand."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster.stub_program import write_script
from windlass.base.errors import WindlassError
from windlass_dev import directories
from windlass_dev.programs import debian_packages
from windlass_dev.progress import LineReporter, SilentReporter

# Old lists name a package that is no longer offered; only refreshed ones lead to it.
_APT = """
echo "$*" >> "$STAGE/calls"
case "$*" in
*update*) : > "$STAGE/refreshed" ;;
*--simulate*) echo "Inst tool (1.0)"; echo "Inst libtool (1.0)" ;;
*download*)
  if [ -n "$STALE" ] && [ ! -f "$STAGE/refreshed" ]; then echo "E: 404 Not Found" >&2; exit 100; fi
  if [ -n "$ABSENT" ]; then echo "E: Unable to locate package" >&2; exit 100; fi
  : > tool_1.0.deb; : > libtool_1.0.deb ;;
esac
"""
_DPKG = """
case "$2" in
*/tool_*)
  /bin/mkdir -p "$3/usr/sbin"; echo "#!/bin/sh" > "$3/usr/sbin/tool"
  /bin/chmod 755 "$3/usr/sbin/tool" ;;
*/libtool_*) /bin/mkdir -p "$3/usr/lib/some-machine"; : > "$3/usr/lib/some-machine/libtool.so.1" ;;
esac
"""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, and an archive with one program and the library that it needs."""
    write_script(tmp_path / "path" / "apt-get", _APT)
    write_script(tmp_path / "path" / "dpkg-deb", _DPKG)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("STAGE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def _cache() -> Path:
    return directories.cache_root() / "debian"


def test_unpacked_once_with_its_dependencies(stage: Path) -> None:
    """The second time apt is not run, and nothing but the set is left in the cache."""
    progress_text = io.StringIO()
    for _ in range(2):
        provided = debian_packages.provide_packages("tool", ["tool"], LineReporter(progress_text))
    assert progress_text.getvalue().count("done in") == 1
    assert debian_packages.find_unpacked("tool") == provided
    assert [path.name for path in _cache().iterdir()] == ["tool"]
    script = (provided / "run" / "tool").read_text()
    assert f'exec "{provided}/usr/sbin/tool"' in script
    assert f'LD_LIBRARY_PATH="{provided}/usr/lib/some-machine"' in script
    calls = (stage / "calls").read_text()
    assert "download libtool tool" in calls
    assert "update" not in calls


def test_stale_lists_are_refreshed_in_our_own_directory(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's lists are not written to."""
    monkeypatch.setenv("STALE", "1")
    debian_packages.provide_packages("tool", ["tool"], SilentReporter())
    updates = [line for line in (stage / "calls").read_text().splitlines() if "update" in line]
    assert len(updates) == 1
    assert f"Dir::State::lists={_cache()}/" in updates[0]
    assert [path.name for path in _cache().iterdir()] == ["tool"]


def test_a_missing_package_is_named(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With apt's own message, and nothing under its final name."""
    monkeypatch.setenv("ABSENT", "1")
    with pytest.raises(
        WindlassError, match=r"Debian packages tool; install them: .*Unable to locate"
    ):
        debian_packages.provide_packages("tool", ["tool"], SilentReporter())
    assert debian_packages.find_unpacked("tool") is None


def test_other_systems_get_an_instruction_to_install(stage: Path) -> None:
    """Without apt nothing can be fetched."""
    (stage / "path" / "apt-get").unlink()
    with pytest.raises(WindlassError, match="this is not a Debian system"):
        debian_packages.provide_packages("tool", ["tool"], SilentReporter())


def test_killed_before_the_rename_leaves_nothing_that_looks_finished(stage: Path) -> None:
    """The next attempt cleans up and succeeds."""
    script = (
        "from windlass_dev import progress; from windlass_dev.programs import debian_packages;"
        "debian_packages.provide_packages('tool', ['tool'], progress.SilentReporter())"
    )
    armed = {**os.environ, "WINDLASS_FAILPOINTS": "dev.packages.rename.before=kill"}
    done = subprocess.run([sys.executable, "-c", script], env=armed, check=False)
    assert done.returncode == -signal.SIGKILL
    assert debian_packages.find_unpacked("tool") is None
    assert debian_packages.provide_packages("tool", ["tool"], SilentReporter()).is_dir()
    assert [path.name for path in _cache().iterdir()] == ["tool"]
