"""Remotes that are unavailable, slow, protected, busy or rewritten."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault import history
from tests.fault.conftest import Mirrors
from tests.fault.foreign import ForeignWriter
from tests.support.git import http_server
from tests.support.git.http_server import (
    PASSWORD,
    RunningGitServer,
    commit_files,
    running_git_server,
)
from tests.support.processes.operator import Operator, eventually, free_port
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.git_server.fault_injection import ActiveFault, GitFault

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

CONFIG_MAPS = {"resources": ["configmaps"]}
WRONG = "wrong-horse-8841"
ACTIVE = "gitopsreverser_repo_branch_active_workers"
DEPTH = "gitopsreverser_repo_branch_queue_depth"
PUSHES = 'gitopsreverser_git_operations_total{op="push"'


@pytest.fixture
def faults(git_host: RunningGitServer) -> Iterator[ActiveFault]:
    """The faults of the git server; none is left behind."""
    yield git_host.server.faults
    git_host.server.faults.clear()


def _path(mirrored: MirroredNamespace, name: str) -> str:
    return f"v1/configmaps/{mirrored.namespace}/{name}.yaml"


def _create(mirrored: MirroredNamespace, *names: str) -> None:
    mirrored.user("alice").apply(*(mirrored.config_map(name, a="1") for name in names))


def _await_files(mirrored: MirroredNamespace, *names: str, seconds: float = 40.0) -> None:
    expected = {_path(mirrored, name) for name in names}
    eventually(lambda: expected <= mirrored.files().keys(), f"files {names}", seconds=seconds)


def _ready(mirrored: MirroredNamespace, reason: str) -> str:
    row = mirrored.await_condition("gitdestination", "destination", reason, seconds=40.0)
    text: str = row["message"]
    return text


def _await_event(mirrored: MirroredNamespace, reason: str) -> str:
    """The text of the first event for that reason."""
    admin = admin_user(mirrored)

    def matching_events() -> list[str]:
        return [row["message"] for row in admin.list("events") if row["reason"] == reason]

    return eventually(matching_events, f"an event {reason}")[0]


@pytest.mark.scenario("A83")
def test_a_remote_that_was_unavailable_gets_everything_in_one_push(
    mirrors: Mirrors, tmp_path: Path, operator: Operator
) -> None:
    """GitUnavailable while it is down; one push has all changes since."""
    waiting = "gitopsreverser_git_commit_queue_size"
    port = free_port()
    with running_git_server(tmp_path, username="git", password=PASSWORD, port=port) as served:
        mirrored = mirrors(served)
        mirrored.configured(CONFIG_MAPS)
        _create(mirrored, "before")
        _await_files(mirrored, "before")
        mirrored.await_listed()
    pushes = len(history.branch_updates(mirrored))
    _create(mirrored, "one", "two", "three")
    _ready(mirrored, "GitUnavailable")
    eventually(lambda: operator.metric(waiting) >= 1.0, "a commit that waits")
    mirrored.user("alice").delete("configmap", "before")
    _create(mirrored, "four")
    eventually(lambda: operator.metric(DEPTH) >= 5.0, "five files that wait")
    # An attempt that is under way may lack the last of them; it must not meet the server.
    ended = operator.metric(PUSHES)
    eventually(lambda: operator.metric(PUSHES) > ended, "the end of one more push", seconds=40.0)
    with running_git_server(tmp_path, username="git", password=PASSWORD, port=port):
        _await_files(mirrored, "one", "two", "three", "four")
        _ready(mirrored, "Ready")
        assert _path(mirrored, "before") not in mirrored.files()
        assert len(history.branch_updates(mirrored)) == pushes + 1
        history.assert_sound(mirrored)
        _await_event(mirrored, "GitRecovered")
        eventually(lambda: operator.metric(waiting) == 0.0, "no commit that waits")


@pytest.mark.scenario("A2")
def test_wrong_credentials_are_reported_until_the_secret_is_corrected(
    mirrored: MirroredNamespace, operator: Operator
) -> None:
    """ConnectionFailed without the password; a corrected Secret is enough."""
    mirrored.admin.apply(mirrored.secret(username="git", password=WRONG), mirrored.repo_config())
    row = mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed")
    assert "AuthFailed" in row["message"]
    before = mirrored.admin.get("gitrepoconfig", "repo")["metadata"]["generation"]
    mirrored.admin.apply(mirrored.secret())
    mirrored.await_condition("gitrepoconfig", "repo", "EmptyRepository")
    admin = admin_user(mirrored)
    listed = "".join(
        admin.request("GET", admin.path(kind)).text for kind in ("gitrepoconfig", "event")
    )
    assert WRONG not in listed + operator.log.read_text() + operator.metrics()
    assert mirrored.admin.get("gitrepoconfig", "repo")["metadata"]["generation"] == before


@pytest.mark.scenario("A3")
def test_an_unknown_branch_is_named_and_stops_no_other(mirrored: MirroredNamespace) -> None:
    """BranchNotFound names it; objects for main are written."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    repository = {"allowedBranches": ["main", "ghost"]}
    mirrored.configured(CONFIG_MAPS, repository=repository, wait=False)
    row = mirrored.await_condition("gitrepoconfig", "repo", "BranchNotFound")
    assert "ghost" in row["message"]
    _create(mirrored, "one")
    _await_files(mirrored, "one")
    mirrored.admin.apply(mirrored.git_destination({"branch": "ghost"}))
    assert "ghost" in _ready(mirrored, "BranchNotFound")


@pytest.mark.scenario("A9")
@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/owned",
        "--upload-pack=touch /tmp/owned",
        "ssh://-oProxyCommand=touch/x",
        "-oProxyCommand=x:y",
        "https://tok_5512@127.0.0.1/x.git",
        "https://user:tok_5512@127.0.0.1/x.git",
        "ssh://git:tok_5512@127.0.0.1/x.git",
        "https://127.0.0.1/x.git\n--upload-pack=y",
    ],
)
def test_a_hostile_url_is_refused_and_not_repeated(
    url: str, mirrored: MirroredNamespace, operator: Operator
) -> None:
    """The API server names the violated rule; a token in the URL is printed nowhere."""
    manifest = mirrored.repo_config({"repoUrl": url})
    admin = admin_user(mirrored)
    refused = admin.request("POST", admin.path("gitrepoconfig"), manifest)
    assert not refused.ok
    assert "spec.repoUrl" in refused.text
    assert "tok_5512" not in refused.text + operator.log.read_text()


def test_a_redirect_to_another_host_gets_no_credentials(
    mirrored: MirroredNamespace, faults: ActiveFault, tmp_path: Path
) -> None:
    """The remote is not reached, and the other host got no Authorization header."""
    with running_git_server(tmp_path) as other:
        elsewhere = other.server.url("x").removesuffix("/x.git")
        faults.set(GitFault("redirect", location=elsewhere))
        mirrored.admin.apply(mirrored.secret(), mirrored.repo_config())
        mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed")
        assert not any(seen.had_authorization for seen in other.server.requests)


@pytest.mark.scenario("A73")
def test_foreign_pushes_in_a_loop_lose_no_change(
    mirrored: MirroredNamespace, operator: Operator, tmp_path: Path
) -> None:
    """All changes of both writers are pushed, without a merge and without a rewrite."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    mirrored.configured(CONFIG_MAPS)
    retries = "gitopsreverser_rebase_retries_total"
    before = operator.metric(retries)
    names: list[str] = []

    def raced() -> bool:
        names.append(f"map-{len(names)}")
        _create(mirrored, names[-1])
        return len(names) >= 8 and operator.metric(retries) > before

    with ForeignWriter(mirrored.path, tmp_path) as other:
        eventually(raced, "a race", seconds=60.0)
    _await_files(mirrored, *names)
    history.assert_sound(mirrored)
    files_before = http_server.files_at(mirrored.path)
    assert other.pushed
    assert set(other.pushed) <= files_before.keys()


@pytest.mark.scenario("A75")
def test_a_lost_reply_makes_no_second_commit(
    mirrored: MirroredNamespace, faults: ActiveFault
) -> None:
    """The server accepted the pack and the connection broke: that was a success."""
    mirrored.configured(CONFIG_MAPS)
    _create(mirrored, "zero")
    _await_files(mirrored, "zero")
    faults.set(GitFault("cut", service="receive-pack", times=1, advertisement=False))
    _create(mirrored, "one")
    _await_files(mirrored, "one")
    _create(mirrored, "two")
    _await_files(mirrored, "two")
    _ready(mirrored, "Ready")
    subjects = [subject for subject in mirrored.subjects() if "/one" in subject]
    assert len(subjects) == 1
    history.assert_sound(mirrored)


@pytest.mark.scenario("A82")
def test_a_protected_branch_is_reported_with_the_message_of_the_server(
    mirrored: MirroredNamespace, faults: ActiveFault, operator: Operator
) -> None:
    """PushRejected while it lasts; after a request, all changes are pushed together."""
    mirrored.configured(CONFIG_MAPS)
    _create(mirrored, "zero")
    _await_files(mirrored, "zero")
    pushes = len(history.branch_updates(mirrored))
    faults.set(GitFault("protected", service="receive-pack", branch="main"))
    _create(mirrored, "one", "two")
    assert "this is a protected branch" in _ready(mirrored, "PushRejected")
    assert mirrored.condition("gitdestination", "destination", "Stalled")["status"] == "True"
    _create(mirrored, "three")
    eventually(lambda: operator.metric(DEPTH) >= 3.0, "three files that wait")
    faults.clear()
    request = {"metadata": {"annotations": {"windlass.dev/requestedAt": "x"}}}
    admin_user(mirrored).merge("gitdestination", "destination", request)
    _await_files(mirrored, "one", "two", "three")
    _ready(mirrored, "Ready")
    # The last attempt with the first two may be under way when the server gives in.
    assert pushes < len(history.branch_updates(mirrored)) <= pushes + 2


@pytest.mark.parametrize("mode", ["error", "hang", "slow", "endless"])
def test_a_push_that_does_not_end_is_ended(
    mode: str,
    mirrored: MirroredNamespace,
    faults: ActiveFault,
    operator: Operator,
    fault_cluster: LocalCluster,
) -> None:
    """The deadline ends the whole child; no lock and no process is left, and it recovers."""
    mirrored.configured(CONFIG_MAPS)
    _create(mirrored, "zero")
    _await_files(mirrored, "zero")
    faults.set(GitFault(mode, service="receive-pack"))
    _create(mirrored, "one")
    if mode == "hang":
        eventually(lambda: operator.metric(ACTIVE) >= 1.0, "a worker that is busy")
    _ready(mirrored, "GitUnavailable")
    faults.clear()
    _await_files(mirrored, "one")
    _ready(mirrored, "Ready")
    eventually(lambda: not _pushing_children(operator), "no git child that pushes")
    eventually(lambda: operator.metric(ACTIVE) == 0.0, "no worker that is busy")
    assert not list((fault_cluster.directory / "stores").rglob("*.lock"))
    history.assert_sound(mirrored)


def _pushing_children(operator: Operator) -> list[str]:
    # There may be other children at any moment: remotes are checked all the time.
    listed = subprocess.run(
        ["ps", "--ppid", str(operator.pid), "-o", "args="], capture_output=True, text=True
    )
    fields = [line.split() for line in listed.stdout.splitlines()]
    return [" ".join(row) for row in fields if row[0].endswith("git") and "push" in row]


@pytest.mark.scenario("A79")
def test_a_rewound_branch_is_rebuilt_without_force(mirrored: MirroredNamespace) -> None:
    """All live objects are committed again on the tip that the server has now."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    mirrored.configured(CONFIG_MAPS)
    for name in ("one", "two", "three"):
        _create(mirrored, name)
        _await_files(mirrored, name)
    first = mirrored.commits()[-2].sha
    # The branch moves once: what lies between two moves may be reported, too.
    http_server.git(mirrored.path, "branch", "rewritten", first)
    rewound = commit_files(mirrored.path, {"theirs.txt": "kept\n"}, branch="rewritten")
    http_server.git(mirrored.path, "update-ref", "refs/heads/main", rewound)
    _create(mirrored, "four")
    _await_files(mirrored, "one", "two", "three", "four")
    assert rewound in [commit.sha for commit in mirrored.commits()]
    assert http_server.files_at(mirrored.path)["theirs.txt"] == "kept\n"
    assert rewound[:8] in _await_event(mirrored, "RemoteRewound")
    history.assert_sound(mirrored)


@pytest.mark.scenario("A79")
def test_a_rewound_branch_is_detected_without_a_change(mirrored: MirroredNamespace) -> None:
    """The regular check of the remote is enough to restore lost files."""
    mirrored.configured(CONFIG_MAPS)
    for name in ("one", "two"):
        _create(mirrored, name)
        _await_files(mirrored, name)
    http_server.git(mirrored.path, "update-ref", "refs/heads/main", mirrored.commits()[-1].sha)
    _await_event(mirrored, "RemoteRewound")
    _await_files(mirrored, "one", "two")
    history.assert_sound(mirrored)


def test_a_deleted_branch_stalls_until_it_is_back(mirrored: MirroredNamespace) -> None:
    """The operator does not recreate a branch that may have been removed on purpose."""
    commit_files(mirrored.path, {"README.md": "hello\n"})
    http_server.git(mirrored.path, "branch", "other", "main")
    mirrored.configured(CONFIG_MAPS)
    _create(mirrored, "one")
    _await_files(mirrored, "one")
    http_server.git(mirrored.path, "update-ref", "-d", "refs/heads/main")
    _create(mirrored, "two")
    assert "main" in _ready(mirrored, "BranchNotFound")
    assert http_server.branch_tips(mirrored.path).keys() == {"other"}
    http_server.git(mirrored.path, "branch", "main", "other")
    _await_files(mirrored, "one", "two", seconds=60.0)
