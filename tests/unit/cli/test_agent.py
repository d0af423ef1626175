"""What the command line of the agent makes of its flags and variables."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer.main
from click.testing import CliRunner, Result

from windlass.app import agent as role
from windlass.cli import main as command_line
from windlass.telemetry import logs

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://10.96.0.1:6443"}}]
users: [{name: a, user: {token: x}}]
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[role.AgentSettings]:
    """The settings of agents, none of which really runs."""
    settings: list[role.AgentSettings] = []

    async def run(given: role.AgentSettings) -> None:
        settings.append(given)

    monkeypatch.setattr(role, "run", run)
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    return settings


def _start(tmp_path: Path, **variables: str) -> Result:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    identity = {"POD_NAME": "p", "POD_UID": "u", "POD_NAMESPACE": "n", "CR_NAME": "c"}
    return CliRunner().invoke(
        typer.main.get_group(command_line.complete_app()),
        ["agent", f"--kubeconfig={tmp_path / 'kubeconfig'}"],
        env=identity | {"DATA_PATH": str(tmp_path)} | variables,
    )


@pytest.mark.scenario("S18")
def test_git_of_an_agent_keeps_away_from_the_api_server(
    tmp_path: Path, started: list[role.AgentSettings]
) -> None:
    """The address that the agent itself uses, and the blocks of its variable, are refused."""
    done = _start(
        tmp_path, GIT_REFUSED_CIDRS="10.0.0.0/8, fd00::/8", GIT_INSECURE_HOSTS="Git.Corp:3000"
    )
    assert done.exit_code == 0, done.output
    [settings] = started
    assert settings.git.api_server == ("10.96.0.1", 6443)
    assert settings.git.refused_cidrs == ("10.0.0.0/8", "fd00::/8")
    assert settings.git.allows_insecure("git.corp", 3000)


@pytest.mark.parametrize(
    "variables", [{"GIT_REFUSED_CIDRS": "10.0.0.1"}, {"GIT_INSECURE_HOSTS": "http://git"}]
)
def test_a_malformed_list_is_refused(
    tmp_path: Path, started: list[role.AgentSettings], variables: dict[str, str]
) -> None:
    """An agent does not start with a list that it cannot read."""
    assert _start(tmp_path, **variables).exit_code == 2
    assert started == []


def test_an_agent_without_a_kubeconfig_starts(
    tmp_path: Path, started: list[role.AgentSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent works offline, so an unreadable kubeconfig does not end it."""
    monkeypatch.setattr(f"{__name__}.KUBECONFIG", "[]")
    assert _start(tmp_path).exit_code == 0
    assert started[0].git.api_server is None
