"""Where the programs come from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.cluster import dev_command as commands
from tests.support.cluster.stub_program import write_script
from windlass.base.errors import WindlassError
from windlass_dev.programs import provider, tools
from windlass_dev.progress import LineReporter, SilentReporter


def _write_all(directory: Path, *, skip: str = "", wrong: str = "") -> Path:
    for tool in tools.CONTROL_PLANE_TOOLS:
        version = "v9.9.9" if tool.name == wrong else tool.version
        label = "etcd Version:" if tool is tools.ETCD else "Kubernetes"
        if tool.name != skip:
            write_script(directory / tool.name, f'echo "{label} {version}"')
    return directory


@pytest.fixture(autouse=True)
def _empty_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv(provider.BINARIES_VARIABLE, raising=False)
    monkeypatch.delenv(provider.ENVTEST_VARIABLE, raising=False)


def test_named_directory_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A named directory is used before PATH, and that is reported."""
    _write_all(tmp_path / "path")
    named = _write_all(tmp_path / "named")
    tools_found = provider.provide_tools(named, LineReporter(sys.stderr))
    assert {path.parent for path in tools_found.values()} == {named}
    assert f"from {named} (--binaries)" in capsys.readouterr().err


def test_wrong_version_in_a_named_directory_is_an_error(tmp_path: Path) -> None:
    """The message has the directory, its version, the needed one, and the remedy."""
    named = _write_all(tmp_path / "named", wrong="kube-apiserver")
    done = commands.run("up", "--name", "x", "--binaries", str(named))
    assert done.returncode == 1
    assert f"{named}, set by --binaries" in done.stderr
    assert "kube-apiserver has version v9.9.9, v1.35.4 is required" in done.stderr
    assert not (tmp_path / "state" / "windlass" / "dev" / "x").exists()


def test_gap_in_a_named_directory_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named directory must have everything."""
    named = _write_all(tmp_path / "named", skip="kubectl")
    monkeypatch.setenv(provider.BINARIES_VARIABLE, str(named))
    with pytest.raises(WindlassError, match=r"kubectl is missing.*unset WINDLASS_BINARIES"):
        provider.provide_tools(None, SilentReporter())


def test_gap_in_an_envtest_directory_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a directory never has a controller manager; the search continues for it."""
    _write_all(tmp_path / "path")
    named = _write_all(tmp_path / "named", skip="kube-controller-manager")
    monkeypatch.setenv(provider.ENVTEST_VARIABLE, str(named))
    tools_found = provider.provide_tools(None, SilentReporter())
    assert tools_found["etcd"].parent == named
    assert tools_found["kube-controller-manager"].parent == tmp_path / "path"


def test_other_versions_on_path_are_skipped(tmp_path: Path) -> None:
    """PATH belongs to the user; only an exact match is used from it."""
    _write_all(tmp_path / "path", wrong="kubectl")
    _write_all(provider.cache_directory())
    tools_found = provider.provide_tools(None, SilentReporter())
    assert tools_found["etcd"].parent == tmp_path / "path"
    assert tools_found["kubectl"].parent == provider.cache_directory()


def test_helm_is_kept_apart_from_the_programs_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is no part of their name, and a directory named for them need not have it."""
    monkeypatch.setenv(provider.BINARIES_VARIABLE, str(_write_all(tmp_path / "named")))
    assert provider.find_tool(tools.HELM) is None
    cached = write_script(provider.cache_directory(tools.HELM.bundle) / "helm", "exit 0")
    assert cached.parent != provider.cache_directory()
    assert provider.find_tool(tools.HELM) == cached
