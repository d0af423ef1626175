"""`windlass run --dev` installs cluster-wide objects only on local clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from windlass.app.settings import Settings
from windlass.app.settings_forms import ListenAddress
from windlass.base.errors import WindlassError
from windlass_dev.cli.local_run import local_settings, run
from windlass_dev.cluster.installer import InstalledOperator


def _foreign_kubeconfig(path: Path) -> Path:
    """A kubeconfig of a foreign cluster; connections are refused at once."""
    document = {
        "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
        "clusters": [{"name": "prod", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {"token": "sesame-open"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def _app() -> typer.Typer:
    app = typer.Typer()
    app.command()(run)
    return app


@pytest.mark.parametrize("named_by", ["flag", "variable"])
def test_a_foreign_cluster_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """However it is named, before any request; its token is not printed."""
    path = _foreign_kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    if named_by == "variable":
        monkeypatch.setenv("KUBECONFIG", str(path))
    flags = ["--kubeconfig", str(path)] if named_by == "flag" else []
    result = CliRunner().invoke(_app(), ["--dev", *flags])
    assert isinstance(result.exception, WindlassError)
    assert result.exception.reason == "NotADesk"
    assert str(path) in result.exception.message
    assert "sesame-open" not in result.exception.message


def test_without_dev_the_role_to_start_is_named() -> None:
    """Nothing is installed by accident."""
    result = CliRunner().invoke(_app(), [])
    assert isinstance(result.exception, WindlassError)
    assert "windlass controller" in result.exception.message


_INSTALLATION = InstalledOperator(Path("/k"), "10.212.0.1", 20443, Path("/stores"))


def test_a_local_cluster_differs_by_settings_only() -> None:
    """Every difference could be written into a settings file."""
    local = local_settings(Settings(git_insecure_hosts=("git.lan",)), _INSTALLATION)
    assert local.webhook_bind_address == ListenAddress("10.212.0.1", 20443)
    assert local.webhook_certificate_addresses == ("10.212.0.1", "127.0.0.1")
    assert local.git_insecure_hosts == ("git.lan", "10.212.0.1", "127.0.0.1", "localhost")
    assert local.git_allow_file
    assert local.leader_elect_retry_period == 1.0
    assert local.work_dir == Path("/stores")


def test_given_settings_are_kept() -> None:
    """What is not the default is the user's choice."""
    given = Settings(leader_elect_retry_period=3.0, work_dir=Path("/mine"))
    local = local_settings(given, _INSTALLATION)
    assert local.work_dir == Path("/mine")
    assert local.leader_elect_retry_period == 3.0
