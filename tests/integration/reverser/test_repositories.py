"""GitRepoConfigs on a real operator: what they report of their remote, and how they recover."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.git.http_server import (
    PASSWORD,
    TOKEN,
    RunningGitServer,
    branch_tips,
    commit_files,
    running_git_server,
)
from tests.support.git.ssh_server import running_ssh_server
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.git import credentials
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.git_server.bare_repositories import BareRepositories


def _repository(mirrored: MirroredNamespace, **spec: Any) -> None:
    mirrored.admin.apply(mirrored.secret(), mirrored.repo_config(spec))


@pytest.mark.cluster
@pytest.mark.scenario("A1")
def test_a_reachable_branch_is_found(mirrored: MirroredNamespace) -> None:
    """Within seconds the config names its branches with their commits."""
    tip = commit_files(mirrored.path, {"README.md": "hello\n"})
    _repository(mirrored)
    ready = mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")
    assert ready["status"] == "True"
    assert ready["message"].startswith("1 branch validated")
    assert f"main@{tip[:8]}" in ready["message"]
    status = mirrored.admin.get("gitrepoconfig", "repo")["status"]
    assert status["branches"] == [{"name": "main", "state": "Found", "sha": tip}]
    assert status["remote"].endswith(mirrored.repository.removesuffix(".git"))
    assert status["observedGeneration"] == 1


@pytest.mark.cluster
@pytest.mark.scenario("A2")
def test_wrong_credentials_are_reported_without_the_password(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """No status or log has the password; a corrected Secret is enough."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    wrong = "wrong-canary-5531"
    mirrored.admin.apply(mirrored.secret(username="git", password=wrong), mirrored.repo_config())
    mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed")
    before = mirrored.admin.get("gitrepoconfig", "repo")
    assert wrong not in json.dumps(before)
    admin = admin_user(mirrored)

    def events() -> str:
        return admin.request("GET", admin.path("events")).text

    # An event comes after the status that it is about.
    eventually(lambda: "ConnectionFailed" in events(), "an event that says so")
    assert wrong not in events()
    mirrored.admin.apply(mirrored.secret())
    mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")
    after = mirrored.admin.get("gitrepoconfig", "repo")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    log = operator.log.read_text()
    assert wrong not in log
    assert PASSWORD not in log


@pytest.mark.cluster
@pytest.mark.scenario("A3")
def test_a_missing_branch_does_not_block_another(mirrored: MirroredNamespace) -> None:
    """The config names the missing branch; a destination on the other one writes."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured(
        {"resources": ["configmaps"]}, repository={"allowedBranches": ["main", "ghost"]}
    )
    ready = mirrored.await_condition("gitrepoconfig", "repo", "BranchNotFound")
    assert ready["status"] == "False"
    assert "ghost" in ready["message"]
    path = f"v1/configmaps/{mirrored.namespace}/one.yaml"
    eventually(lambda: path in mirrored.files(), "the object on main")
    assert mirrored.git("show", "main:README.md") == "hello\n"


@pytest.mark.cluster
def test_a_url_of_the_api_server_is_refused(
    mirrored: MirroredNamespace, cluster: LocalCluster
) -> None:
    """Nothing is sent to the API server, and the status does not reveal it."""
    _repository(mirrored, repoUrl=f"{cluster.server}/api/v1/secrets.git")
    ready = mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed")
    assert ": Unavailable: git server " in ready["message"]
    assert (
        "cannot be reached: it does not answer, or its address is not allowed" in (ready["message"])
    )


@pytest.mark.cluster
@pytest.mark.scenario("A4")
def test_an_empty_repository_gets_a_root_commit(mirrored: MirroredNamespace) -> None:
    """An empty remote is in order; the first object makes the branch."""
    _repository(mirrored)
    ready = mirrored.await_condition("gitrepoconfig", "repo", "EmptyRepository")
    assert ready["status"] == "True"
    assert branch_tips(mirrored.path) == {}
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]})
    eventually(mirrored.files, "the first object")
    roots = mirrored.git("rev-list", "--max-parents=0", "main").split()
    assert roots == [mirrored.commits()[-1].sha]
    mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")


@pytest.mark.cluster
@pytest.mark.scenario("A5")
def test_a_created_branch_starts_at_the_default_branch(mirrored: MirroredNamespace) -> None:
    """The new branch holds what was there; the default branch does not move."""
    tip = commit_files(mirrored.path, {"README.md": "hello\n", "apps/x.yaml": "a: 1\n"})
    mirrored.branch = "mirror"
    mirrored.admin.apply(mirrored.config_map("one", a="1"))
    mirrored.configured({"resources": ["configmaps"]}, destination={"createBranch": True})
    eventually(mirrored.files, "the first object on the new branch")
    assert mirrored.git("merge-base", "main", "mirror").strip() == tip
    assert branch_tips(mirrored.path)["main"] == tip
    assert mirrored.git("show", "mirror:README.md") == "hello\n"
    assert mirrored.git("show", "mirror:apps/x.yaml") == "a: 1\n"


@pytest.mark.cluster
@pytest.mark.scenario("A6")
def test_ssh_needs_host_keys_unless_verification_is_disabled(
    mirrored: MirroredNamespace, tmp_path: Path
) -> None:
    """HostKeyUnknown before any login; Disabled works, and the condition says what it costs."""
    with running_ssh_server(tmp_path) as served:
        commit_files(BareRepositories(tmp_path).create("a"), {"f": "1"})
        spec: dict[str, Any] = {"repoUrl": served.remote("a").url}
        secret = mirrored.secret(identity=served.key.decode())
        mirrored.admin.apply(secret, mirrored.repo_config(spec))
        ready = mirrored.await_condition("gitrepoconfig", "repo", "HostKeyUnknown")
        assert ready["status"] == "False"
        assert (
            "to known_hosts in Secret git-credentials, or set spec.knownHostsRef"
            in ready["message"]
        )
        assert mirrored.condition("gitrepoconfig", "repo", "Stalled")["status"] == "True"
        assert served.logins == []
        mirrored.admin.apply(mirrored.repo_config({**spec, "hostKeyVerification": "Disabled"}))
        mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")
        assert served.logins
        shown = mirrored.condition("gitrepoconfig", "repo", "TransportVerified")
        assert shown["status"] == "False"
        known = mirrored.secret(
            identity=served.key.decode(), known_hosts=served.known_hosts.decode()
        )
        mirrored.admin.apply(known, mirrored.repo_config(spec))
        eventually(
            lambda: not mirrored.condition("gitrepoconfig", "repo", "TransportVerified"),
            "the condition withdrawn",
        )
        mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")


_FAMILIES = {
    "basic": {"username": b"u", "password": b"p"},
    "password alone": {"password": b"p"},
    "token": {"token": b"t"},
    "seed ssh": {"ssh-privatekey": b"key", "ssh-password": b"phrase", "known_hosts": b"h k v"},
    "Flux ssh": {"identity": b"key", "identity.pub": b"pub", "known_hosts": b"h k v"},
    "Flux bearer": {"bearerToken": b"t"},
    "Argo CD ssh": {"sshPrivateKey": b"key", "type": b"git", "url": b"ssh://git@h/x"},
    "Argo CD basic": {"username": b"u", "password": b"p", "type": b"git", "url": b"https://h/x"},
}


@pytest.mark.scenario("A7")
@pytest.mark.parametrize("family", _FAMILIES)
def test_every_family_of_key_names_is_understood(family: str) -> None:
    """Secrets made for other tools work as they are."""
    found = credentials.from_secret(_FAMILIES[family])
    assert found.ssh_key or found.basic or found.bearer


@pytest.mark.cluster
@pytest.mark.scenario("A7")
def test_a_token_authenticates_and_unknown_keys_are_malformed(
    mirrored: MirroredNamespace, tmp_path: Path
) -> None:
    """SecretMalformed names the accepted keys; a token heals it without a new spec."""
    with running_git_server(tmp_path, token=TOKEN) as served:
        commit_files(served.create("a.git"), {"f": "1"})
        address = served.server.url("a.git")
        mirrored.admin.apply(
            mirrored.secret(passwort="x"), mirrored.repo_config({"repoUrl": address})
        )
        condition = mirrored.await_condition("gitrepoconfig", "repo", "SecretMalformed")
        assert "accepted keys" in condition["message"]
        admin_user(mirrored).delete("secret", "git-credentials")
        mirrored.await_condition("gitrepoconfig", "repo", "SecretNotFound")
        mirrored.admin.apply(mirrored.secret(token=TOKEN))
        mirrored.await_condition("gitrepoconfig", "repo", "BranchFound")


def _listings(git_host: RunningGitServer, mirrored: MirroredNamespace) -> int:
    """How many ls-remote the server answered for the repository of this test."""
    return sum(
        mirrored.repository in seen.path and seen.method == "POST"
        for seen in git_host.server.requests
    )


@pytest.mark.cluster
@pytest.mark.scenario("A8")
def test_configs_of_one_remote_share_ref_listings(
    mirrored: MirroredNamespace, git_host: RunningGitServer, operator: Operator
) -> None:
    """Many reconciles of ten configs of one remote and credential cost few ls-remote calls."""
    commit_files(mirrored.path, {"f": "1"})
    names = [f"repo-{number}" for number in range(10)]
    configs = [mirrored.repo_config() for _ in names]
    for config, name in zip(configs, names, strict=True):
        config["metadata"]["name"] = name
    began = time.monotonic()
    mirrored.admin.apply(mirrored.secret(), *configs)
    for name in names:
        mirrored.await_condition("gitrepoconfig", name, "BranchFound")
    reconciles = operator.metric(_RECONCILES)
    eventually(lambda: operator.metric(_RECONCILES) >= reconciles + 40, "forty reconciles")
    listings = _listings(git_host, mirrored)
    # Each listing serves every config for a second.
    assert listings <= time.monotonic() - began + 2


_RECONCILES = 'windlass_reconciles_total{controller="gitrepoconfig"'


@pytest.mark.cluster
@pytest.mark.scenario("A9")
def test_a_token_in_the_address_is_refused_and_not_repeated(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """The API server refuses it; no answer and no log of ours shows the token."""
    token = "ghp_canary8842"
    config = mirrored.repo_config({"repoUrl": f"https://{token}@git.example.org/x.git"})
    refused = mirrored.admin.try_kubectl("apply", "-f", "-", stdin=json.dumps(config))
    assert refused.returncode != 0
    direct = admin_user(mirrored).send(config)
    assert direct.status == 422
    for text in (refused.stdout, refused.stderr, direct.text, operator.log.read_text()):
        assert token not in text
