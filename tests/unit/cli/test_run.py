"""`windlass run --dev` installs cluster-wide things, so it is careful about where."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from windlass.base.errors import WindlassError
from windlass.cli.main import app


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
    result = CliRunner().invoke(app, ["run", "--dev", *flags])
    assert isinstance(result.exception, WindlassError)
    assert result.exception.reason == "NotADesk"
    assert str(path) in result.exception.message
    assert "sesame-open" not in result.exception.message


def test_without_dev_the_role_to_start_is_named() -> None:
    """Nobody installs by accident."""
    result = CliRunner().invoke(app, ["run"])
    assert isinstance(result.exception, WindlassError)
    assert "windlass controller" in result.exception.message
