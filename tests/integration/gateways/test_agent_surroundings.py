"""Files around an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import Waiting
from windlass.gateways.agent import inputs
from windlass.gateways.agent.inputs import AgentIdentity, AgentPaths
from windlass.gateways.wire.metadata import AuthType, CommitSource
from windlass.git.credentials import Credentials


def _paths(here: Path) -> AgentPaths:
    return AgentPaths(
        data=here / "data",
        store=here / "store",
        pod_info=here / "podinfo",
        api_key=here / "apiKey",
        git_auth=here / "auth",
        git_ca=here / "ca",
        gateway_ca=here / "gw.crt",
    )


def _credentials(here: Path, auth: AuthType, **files: str) -> Credentials:
    (here / "auth" / "..data").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (here / "auth" / name.replace("_", "-")).write_text(text)
    source = CommitSource("1" * 40, "main", "https://h/x.git", auth)
    return inputs.read_git_credentials(_paths(here), source, verifies_host_keys=True)


def test_a_pod_without_files_is_a_pod(tmp_path: Path) -> None:
    """The kubelet may not have written them yet."""
    found = inputs.read_pod(AgentIdentity("p", "u", "n", "c"), _paths(tmp_path))
    assert (found.name, found.annotations, found.labels) == ("p", {}, {})


def test_a_token_is_a_token_also_beside_a_password(tmp_path: Path) -> None:
    """The kind that the IgnitionSync names decides which key counts."""
    found = _credentials(tmp_path, "token", token="t-1\n", password="p", username="me")
    assert found.basic == ("me", "t-1")


def test_nothing_is_read_for_a_public_repository(tmp_path: Path) -> None:
    """A Secret that lies there by chance is not sent anywhere."""
    assert _credentials(tmp_path, "none", token="t").basic is None


def test_the_authority_of_the_server_is_added(tmp_path: Path) -> None:
    """It comes from a Secret of its own."""
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca" / "ca.crt").write_text("PEM")
    assert _credentials(tmp_path, "none").ca == b"PEM"


@pytest.mark.parametrize("auth", ["ssh", "token"])
def test_a_missing_key_is_waited_for(tmp_path: Path, auth: AuthType) -> None:
    """The message names keys, never values."""
    with pytest.raises(Waiting, match="found: other") as waiting:
        _credentials(tmp_path, auth, other="s3cret")
    assert waiting.value.reason == "WaitingForCredential"
    assert "s3cret" not in waiting.value.message


def test_the_name_of_the_api_token(tmp_path: Path) -> None:
    """What stands before the colon; nothing where there is none."""
    assert inputs.read_api_token_name(_paths(tmp_path)) == ""
    (tmp_path / "apiKey").write_text("agent:s3cret\n")
    assert inputs.read_api_token_name(_paths(tmp_path)) == "agent"
    (tmp_path / "apiKey").write_text("nonsense")
    assert inputs.read_api_token_name(_paths(tmp_path)) == ""
