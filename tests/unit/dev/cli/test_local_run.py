"""`windlass run --dev` installs cluster-wide things, so it is careful about where."""

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


def _elsewhere(path: Path) -> Path:
    """A kubeconfig of a cluster that is not ours; whoever connects is refused at once."""
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
def test_a_cluster_that_is_no_desk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    """Whichever way it is named, before anything is asked of it; its token stays unsaid."""
    path = _elsewhere(tmp_path / "kubeconfig")
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
    """Nobody installs by accident."""
    result = CliRunner().invoke(_app(), [])
    assert isinstance(result.exception, WindlassError)
    assert "windlass controller" in result.exception.message


_INSTALLATION = InstalledOperator(Path("/k"), "10.212.0.1", 20443, Path("/stores"))


def test_a_local_cluster_is_a_matter_of_settings() -> None:
    """Everything that differs from a real cluster could be written into a file of settings."""
    found = local_settings(Settings(git_insecure_hosts=("git.lan",)), _INSTALLATION)
    assert found.webhook_bind_address == ListenAddress("10.212.0.1", 20443)
    assert found.webhook_certificate_addresses == ("10.212.0.1", "127.0.0.1")
    assert found.git_insecure_hosts == ("git.lan", "10.212.0.1", "127.0.0.1", "localhost")
    assert found.git_allow_file
    assert found.leader_elect_lease_duration == 6.0
    assert found.work_dir == Path("/stores")


def test_what_was_given_stays() -> None:
    """One term of the lease that was given keeps all three: they must fit each other."""
    given = Settings(leader_elect_renew_deadline=8.0, work_dir=Path("/mine"))
    found = local_settings(given, _INSTALLATION)
    assert found.work_dir == Path("/mine")
    assert found.leader_elect_lease_duration == 15.0
    assert found.leader_elect_renew_deadline == 8.0
