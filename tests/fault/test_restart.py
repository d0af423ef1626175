"""Changes while the operator was down, and starts with any state that the last run left."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fault import history, open_window
from tests.fault.conftest import FLAGS, Mirrors
from tests.support.git.http_server import RunningGitServer, commit_files, files_at
from tests.support.processes.operator import Operator, eventually, running_operator
from tests.support.reverser import central_repository
from tests.support.reverser.api_users import admin_user, api_user
from tests.support.reverser.author_proof import prove_author
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass.api.install.installation import Installation
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.objects.names import GVR
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = {"resources": ["configmaps"]}
MANY = 200


def _path(mirrored: MirroredNamespace, name: str) -> str:
    return f"v1/configmaps/{mirrored.namespace}/{name}.yaml"


def _await_files(mirrored: MirroredNamespace, *names: str) -> None:
    wanted = {_path(mirrored, name) for name in names}
    eventually(lambda: wanted <= mirrored.files().keys(), f"files {names}", seconds=60.0)


def _write_user_files(mirrored: MirroredNamespace) -> dict[str, str]:
    """Files of a user, in the folder and at paths of our own files."""
    other = json.dumps(mirrored.config_map("elsewhere", a="1"))
    return {
        "README.md": "about this repository\n",
        f"{mirrored.folder}/kustomization.yaml": "resources: []\n",
        f"{mirrored.folder}/by-hand.yaml": other,
        f"{mirrored.folder}/{_path(mirrored, 'other-name')}": other,
        f"{mirrored.folder}/v1/configmaps/{mirrored.namespace}/notes.txt": "mine\n",
        f"{mirrored.folder}/{_path(mirrored, 'broken')}": "{not yaml: [\n",
    }


def _role(mirrored: MirroredNamespace, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": mirrored.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }


async def _create_all(fault_cluster: LocalCluster, documents: list[dict[str, Any]]) -> None:
    """Create objects over one connection."""
    maps = GVR("", "v1", "configmaps")
    async with Connection.open(kubeconfig=fault_cluster.admin_kubeconfig) as connection:
        api = Api(connection)
        await asyncio.gather(*(api.create(maps, one, field_manager="test") for one in documents))


@pytest.mark.scenario("A89", "A91", "A95")
def test_objects_deleted_while_down_are_removed_in_one_push(
    mirrored: MirroredNamespace, idle_operator: Operator, fault_cluster: LocalCluster
) -> None:
    """Hundreds of files and the last one of a type are removed together; files of users stay."""
    theirs = _write_user_files(mirrored)
    commit_files(mirrored.path, theirs)
    alice = mirrored.user("alice")
    many = [mirrored.config_map(f"many-{number}", n=str(number)) for number in range(MANY)]
    for one in many:
        one["metadata"]["labels"] = {"set": "many"}
    asyncio.run(_create_all(fault_cluster, many))
    alice.apply(_role(mirrored, "only"), mirrored.config_map("kept", a="1"))
    idle_operator.start()
    mirrored.configured({"resources": ["configmaps", "roles"]})
    last = f"rbac.authorization.k8s.io/v1/roles/{mirrored.namespace}/only.yaml"
    eventually(lambda: len(mirrored.files()) == MANY + 7, "every file", seconds=60.0)
    assert last in mirrored.files()
    idle_operator.kill()
    before, logged = len(history.branch_updates(mirrored)), len(idle_operator.log.read_text())
    alice.delete("role", "only")
    all_of_them = f"/api/v1/namespaces/{mirrored.namespace}/configmaps?labelSelector=set%3Dmany"
    assert fault_cluster.api.request(all_of_them, method="DELETE").ok
    idle_operator.start()
    eventually(lambda: len(mirrored.files()) == 6, "only files that are right", seconds=60.0)
    assert _path(mirrored, "kept") in mirrored.files()
    pushes = len(history.branch_updates(mirrored)) - before
    late = history.late_snapshots(idle_operator, logged, mirrored)
    assert 1 <= pushes <= 1 + late
    history.assert_sound(mirrored)
    stored = files_at(mirrored.path)
    assert {path: stored.get(path) for path in theirs} == theirs


@pytest.mark.scenario("A27", "A21")
def test_rules_and_exclusions_that_changed_while_down_are_followed(
    mirrored: MirroredNamespace,
    idle_operator: Operator,
    fault_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    """Files of a deleted rule and of an excluded type are removed, each with its reason."""
    idle_operator.start()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": mirrored.namespace},
        "spec": {"ports": [{"port": 80}]},
    }
    more = mirrored.watch_rule({"resources": ["roles"]})
    more["metadata"]["name"] = "more"
    mirrored.admin.apply(mirrored.config_map("kept", a="1"), service, _role(mirrored, "only"), more)
    mirrored.configured({"resources": ["configmaps", "services"]})
    eventually(lambda: len(mirrored.files()) == 3, "every file", seconds=60.0)
    idle_operator.stop()
    admin_user(mirrored).delete("watchrule", "more")
    changed = (*FLAGS, "--removal-grace=1s", "--discovery-exclude=services")
    with running_operator(fault_cluster, tmp_path / "again", *changed, authors=False):
        kept = {_path(mirrored, "kept")}
        eventually(lambda: mirrored.files().keys() == kept, "only what is selected", seconds=60.0)
    messages = "\n".join(commit.body for commit in mirrored.commits())
    assert "1 object no longer mirrored: type excluded by --discovery-exclude" in messages
    assert "1 object no longer mirrored: not selected by any rule" in messages
    admin_user(mirrored).delete("watchrule", "rule")
    with running_operator(fault_cluster, tmp_path / "last", *changed, authors=False):
        eventually(lambda: not mirrored.files(), "no file without any rule", seconds=60.0)
    history.assert_sound(mirrored)


@pytest.mark.scenario("A100")
def test_a_restart_without_a_change_writes_nothing(
    mirrors: Mirrors, idle_operator: Operator, git_host: RunningGitServer
) -> None:
    """No commit, no push and no status write; another namespace shows that it works."""
    mirrored = mirrors()
    mirrored.user("alice").apply(*(mirrored.config_map(f"map-{n}", a="1") for n in range(5)))
    idle_operator.start()
    mirrored.configured({"resources": ["configmaps", "secrets", "deployments"]})
    eventually(lambda: len(mirrored.files()) == 6, "six files", seconds=60.0)
    _await_report(mirrored)
    before, requests = _versions(mirrored), len(git_host.server.requests)
    idle_operator.stop()
    idle_operator.start()
    other = mirrors()
    other.user("alice").apply(other.config_map("one", a="1"))
    other.configured(CONFIG_MAPS)
    _await_files(other, "one")
    _await_report(other)
    assert _versions(mirrored) == before
    seen = git_host.server.requests[requests:]
    assert not [
        one for one in seen if one.service == "receive-pack" and mirrored.repository in one.path
    ]


def test_until_records_are_complete_status_and_commits_report_it(
    mirrored: MirroredNamespace, idle_operator: Operator, tmp_path: Path
) -> None:
    """A destination is Ready before authors can be proven; soon after the start they can."""
    alice = mirrored.user("alice")
    idle_operator.start()
    mirrored.configured(CONFIG_MAPS)
    mirrored.await_condition("gitdestination", "destination", "Receiving", type_="Attributed")
    idle_operator.stop()
    before = len(idle_operator.log.read_text())
    # The process that answers admission calls stops itself before it can; all else goes on.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "if 'windlass.reverser.attribution' in sys.orig_argv:\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    idle_operator.spawn({"PYTHONPATH": str(tmp_path)})
    webhook_pid = eventually(idle_operator.webhook_pid, "the admission webhook")
    try:
        eventually(lambda: _is_synced_again(idle_operator, before), "the stream", seconds=60.0)
        alice.apply(mirrored.config_map("early", a="1"))
        early = mirrored.await_commit("[CREATE] v1/configmaps/early by user/(unresolved)")
        row = mirrored.await_condition(
            "gitdestination", "destination", "Starting", type_="Attributed"
        )
        # A push that takes longer than --git-push-timeout is tried again.
        mirrored.await_condition("gitdestination", "destination", "Ready")
    finally:
        os.kill(webhook_pid, signal.SIGCONT)
    assert early.trailer("Unresolved") == "Starting"
    assert row["status"] == "False"
    mirrored.await_condition("gitdestination", "destination", "Receiving", type_="Attributed")

    def create(number: int) -> str:
        alice.apply(mirrored.config_map(f"late-{number}", a="1"))
        return f"[CREATE] v1/configmaps/late-{number}"

    prove_author(mirrored, idle_operator, "alice", create)


def _is_synced_again(operator: Operator, before: int) -> bool:
    """Whether a stream is synced in the log lines since; the log outlives a process."""
    return '"state":"synced"' in operator.log.read_text()[before:]


HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def test_a_restart_leaves_the_webhook_as_it_is_and_out_of_the_mirror(
    idle_operator: Operator, git_host: RunningGitServer, fault_cluster: LocalCluster
) -> None:
    """Path and authority outlive the process, and our own writes there are not mirrored."""
    hooks = {"resources": ["validatingwebhookconfigurations"], "scope": "Cluster"}
    idle_operator.start()
    with contextlib.ExitStack() as stack:
        platform = stack.enter_context(
            central_repository.central_repository(fault_cluster, git_host)
        )
        for name in ("restart-one", "restart-two"):
            stack.callback(fault_cluster.api.request, f"{HOOKS}/{name}", method="DELETE")
        central_repository.configure_mirror(platform, hooks)
        assert fault_cluster.api.request(HOOKS, method="POST", body=_hook("restart-one")).ok
        eventually(lambda: _mirrored_hooks(platform) == {"restart-one"}, "the first")
        # Authors are provable only once the webhook is registered.
        idle_operator.await_provable()
        before, commits = _our_hook(fault_cluster), len(platform.commits())
        idle_operator.stop()
        idle_operator.start()
        assert fault_cluster.api.request(HOOKS, method="POST", body=_hook("restart-two")).ok
        eventually(lambda: "restart-two" in _mirrored_hooks(platform), "the second")
        assert len(platform.commits()) == commits + 1, platform.subjects()
        idle_operator.await_provable()
        assert _our_hook(fault_cluster) == before
        assert _mirrored_hooks(platform) == {"restart-one", "restart-two"}


def _hook(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
    }


def _our_hook(fault_cluster: LocalCluster) -> dict[str, Any]:
    stored = fault_cluster.api.request(f"{HOOKS}/{Installation().webhook_configuration}")
    hook: dict[str, Any] = json.loads(stored.text)
    return hook


def _mirrored_hooks(mirrored: MirroredNamespace) -> set[str]:
    return {Path(path).stem for path in mirrored.files()}


def _await_report(mirrored: MirroredNamespace) -> None:
    """Wait until all our objects report the last push, after a reconcile request."""
    tip = history.tip(mirrored)
    request = {"metadata": {"annotations": {"windlass.dev/requestedAt": tip}}}
    admin_user(mirrored).merge("gitdestination", "destination", request)

    def reported() -> bool:
        status = mirrored.admin.get("gitdestination", "destination").get("status", {})
        branches = mirrored.admin.get("gitrepoconfig", "repo")["status"].get("branches", [])
        objects = mirrored.admin.get("watchrule", "rule")["status"].get("objects")
        is_reported = status.get("lastPush", {}).get("commit") == tip and status.get("pending") == 0
        rows = status.get("conditions", [])
        is_reported = is_reported and any(
            row["type"] == "Synced" and row["status"] == "True" for row in rows
        )
        # The push may have been reported before the request; the response is one more write.
        is_answered = status.get("lastHandledReconcileAt") == tip
        # The rule is reconciled once more after the destination, to count its files.
        is_counted = objects == len(mirrored.files())
        is_listed = [branch.get("sha") for branch in branches] == [tip]
        return is_reported and is_answered and is_counted and is_listed

    eventually(reported, "the report of the last push", seconds=40.0)


def _versions(mirrored: MirroredNamespace) -> dict[str, Any]:
    """The tip of the branch, and the version of each of our objects."""
    stored: dict[str, Any] = {"tip": history.tip(mirrored)}
    for kind, name in (
        ("gitrepoconfig", "repo"),
        ("gitdestination", "destination"),
        ("watchrule", "rule"),
    ):
        stored[kind] = mirrored.admin.get(kind, name)["metadata"]["resourceVersion"]
    return stored


def _truncate(stores: Path) -> int:
    """Cut every object file and pack of every store in half."""
    files = [path for path in stores.glob("*/objects/**/*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        path.unlink()  # what is mapped into memory must not change under its reader
        path.write_bytes(content[: len(content) // 2])
    return len(files)


@pytest.mark.scenario("A84")
@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_damaged_store_is_fetched_again(
    running: bool, mirrored: MirroredNamespace, idle_operator: Operator, fault_cluster: LocalCluster
) -> None:
    """Every object of the store is cut in half; the only visible effect is a log line."""
    commit_files(mirrored.path, {f"files/{number}.txt": f"{number}\n" for number in range(150)})
    alice = mirrored.user("alice")
    idle_operator.start()
    mirrored.configured(CONFIG_MAPS)
    alice.apply(mirrored.config_map("one", a="1"), mirrored.config_map("two", a="1"))
    _await_files(mirrored, "one", "two")
    if not running:
        idle_operator.stop()
    assert _truncate(fault_cluster.directory / "stores")
    alice.apply(mirrored.config_map("three", a="1"))
    alice.delete("configmap", "two")
    if not running:
        idle_operator.start()
    _await_files(mirrored, "one", "three")
    eventually(lambda: _path(mirrored, "two") not in mirrored.files(), "two is gone")
    mirrored.await_condition("gitdestination", "destination", "Ready")
    history.assert_sound(mirrored)


def test_a_full_disk_is_reported_and_recovered_from(
    mirrored: MirroredNamespace, idle_operator: Operator
) -> None:
    """DiskFull is reported, nothing half-written counts, and the next try succeeds."""
    idle_operator.start({"WINDLASS_FAILPOINTS": "git.store.write.before=full@1"})
    mirrored.configured(CONFIG_MAPS)
    # The last status write of the start; a slow one could outlast the failure and its retry.
    mirrored.await_condition("gitdestination", "destination", "Receiving", type_="Attributed")
    mirrored.user("alice").apply(mirrored.config_map("one", a="1"))
    _await_files(mirrored, "one")
    mirrored.await_condition("gitdestination", "destination", "Ready")
    admin = admin_user(mirrored)
    eventually(
        lambda: "DiskFull" in {event["reason"] for event in admin.list("events")}, "the Event"
    )
    history.assert_sound(mirrored)


@contextmanager
def _continuous_writes(mirrored: MirroredNamespace) -> Iterator[list[str]]:
    """Creates one ConfigMap after the other; the names of those that exist."""
    done: list[str] = []
    enough = threading.Event()

    def work() -> None:
        alice = mirrored.user("alice")
        for number in itertools.count():
            if enough.wait(0.02):
                return
            name = f"load-{number}"
            alice.apply(mirrored.config_map(name, a="1"))
            done.append(name)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        enough.set()
        thread.join(60)


@pytest.mark.scenario("A86")
def test_sigterm_under_load_pushes_open_windows_and_frees_the_lease(
    mirrored: MirroredNamespace, fault_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Open windows are pushed before the end; the next leader need not wait."""
    flags = (*FLAGS, open_window.NO_GRACE, open_window.USUAL_PUSH_TIMEOUT)
    with running_operator(fault_cluster, tmp_path, *flags, authors=False) as operator:
        open_window.configure_window(mirrored, "60s")
        with _continuous_writes(mirrored) as names:
            waiting = open_window.WAITING_FILES
            eventually(lambda: operator.metric(waiting) >= 8, "eight files", seconds=30.0)
            assert not mirrored.files(), "the window is open"
            observed = names[:6]
            operator.stop()
    written = mirrored.files()
    assert {_path(mirrored, name) for name in observed} <= written.keys()
    lease = api_user(mirrored, "admin", "windlass-system").get("lease", "windlass-leader")
    assert not lease["spec"].get("holderIdentity")
    history.assert_sound(mirrored)
