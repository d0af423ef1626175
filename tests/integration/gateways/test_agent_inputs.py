"""Files mounted into the agent's container."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import Waiting
from windlass.gateways.agent import inputs
from windlass.gateways.agent.inputs import AgentIdentity, AgentPaths
from windlass.gateways.wire.metadata import AuthType, CommitSource
from windlass.git.credentials import Credentials


def _paths(root: Path) -> AgentPaths:
    return AgentPaths(
        data=root / "data",
        store=root / "store",
        pod_info=root / "podinfo",
        api_key=root / "apiKey",
        git_auth=root / "auth",
        git_ca=root / "ca",
        gateway_ca=root / "gw.crt",
    )


def _credentials(root: Path, auth: AuthType, **files: str) -> Credentials:
    (root / "auth" / "..data").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / "auth" / name.replace("_", "-")).write_text(text)
    source = CommitSource("1" * 40, "main", "https://h/x.git", auth)
    return inputs.read_git_credentials(_paths(root), source, verifies_host_keys=True)


def test_a_pod_without_files_has_no_labels(tmp_path: Path) -> None:
    """The kubelet may not have written them yet."""
    pod = inputs.read_pod(AgentIdentity("p", "u", "n", "c"), _paths(tmp_path))
    assert (pod.name, pod.annotations, pod.labels) == ("p", {}, {})


def test_the_auth_type_decides_which_key_is_used(tmp_path: Path) -> None:
    """A token is used although the Secret has a password as well."""
    credentials = _credentials(tmp_path, "token", token="t-1\n", password="p", username="me")
    assert credentials.basic == ("me", "t-1")


def test_no_credential_is_read_for_a_public_repository(tmp_path: Path) -> None:
    """Also if a Secret is mounted."""
    assert _credentials(tmp_path, "none", token="t").basic is None


def test_the_certificate_authority_of_the_server_is_read(tmp_path: Path) -> None:
    """It has its own Secret."""
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


def test_the_name_of_the_api_token_is_read(tmp_path: Path) -> None:
    """The part before the colon; empty if there is none."""
    assert inputs.read_api_token_name(_paths(tmp_path)) == ""
    (tmp_path / "apiKey").write_text("agent:s3cret\n")
    assert inputs.read_api_token_name(_paths(tmp_path)) == "agent"
    (tmp_path / "apiKey").write_text("nonsense")
    assert inputs.read_api_token_name(_paths(tmp_path)) == ""
