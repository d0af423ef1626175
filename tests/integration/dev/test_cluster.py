"""Starting control planes, damaging them and removing them."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.cluster import control_plane as support
from tests.support.cluster import dev_command as commands
from tests.support.processes.operator import eventually
from tests.support.processes.polling import DEADLINE_SECONDS
from windlass.base.errors import WindlassError
from windlass_dev import directories
from windlass_dev.cluster import cluster as control_plane
from windlass_dev.cluster import cluster_state, components, kubeconfig, status
from windlass_dev.cluster.local_cluster import LocalCluster, get_cluster
from windlass_dev.progress import SilentReporter

pytestmark = pytest.mark.cluster


@pytest.fixture
def doomed(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a control plane that the test starts and removes itself."""
    name = support.name(f"d{abs(hash(request.node.name)) % 10**8}")
    yield name
    control_plane.down(name)


def _pids(name: str) -> dict[str, int]:
    now = cluster_state.load_state(directories.cluster_directory(name))
    assert now is not None
    return {component: process.pid for component, process in now.processes.items()}


def _kubectl(local: LocalCluster, config: Path, *arguments: str) -> str:
    done = subprocess.run(
        [local.kubectl, "--kubeconfig", config, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_a_cluster_survives_kills_of_its_commands(doomed: str, victim: LocalCluster) -> None:
    """A full life cycle, by the commands a user types: each continues where the last was killed."""
    for failpoint_name in ("dev.found.after", "dev.spawn.kube-apiserver.after"):
        _killed_at(failpoint_name, "up", doomed)
    server = _two_take_turns(doomed)
    assert server.startswith("https://127.0.0.1:")
    # No twin of what the killed ones had started.
    assert sorted(commands.find_pids(directories.cluster_directory(doomed))) == sorted(
        _pids(doomed).values()
    )
    _assert_running(doomed)
    _assert_apart(victim, get_cluster(doomed))
    commands.kill(_pids(doomed)["kube-controller-manager"])
    _killed_at("dev.spawn.kube-controller-manager.after", "up", doomed)
    assert len(commands.find_pids(directories.cluster_directory(doomed))) == 3, (
        "one of them nobody recorded"
    )
    _end_in_pieces(doomed)


def _killed_at(failpoint_name: str, command: str, name: str) -> None:
    killed = commands.run(command, "--name", name, WINDLASS_FAILPOINTS=f"{failpoint_name}=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def _two_take_turns(name: str) -> str:
    """The output of two `up` at once: the second waits for the first and finds its work done."""
    with ThreadPoolExecutor() as pool:
        outputs = list(pool.map(lambda _: commands.run("up", "--name", name), range(2)))
    assert [one.returncode for one in outputs] == [0, 0]
    assert outputs[0].stdout == outputs[1].stdout
    for message in ("is ready at", "is running at"):
        assert sum(message in one.stderr for one in outputs) == 1
    return outputs[0].stdout


def _reported_ready(name: str) -> dict[str, Any]:
    """The cluster as `dev status` reports it, once every check succeeds at the same time.

    A single report may meet a server that answers late on a busy machine.
    """

    def reported() -> dict[str, Any] | None:
        done = commands.run("status", "--name", name, "-o", "json")
        found: dict[str, Any] = json.loads(done.stdout)["clusters"][0]
        return found if found["ready"] else None

    found = eventually(reported, f"cluster {name} is ready")
    assert found is not None
    return found


def _assert_running(name: str) -> None:
    rows = _reported_ready(name)["components"]
    assert [row["state"] for row in rows] == ["running"] * 3
    assert all(row["rssBytes"] > 10**6 and row["port"] > 1024 for row in rows)
    assert len(commands.find_pids(directories.cluster_directory(name))) == 3


def _assert_apart(*both: LocalCluster) -> None:
    """Clusters side by side share neither ports nor objects."""
    first, second = (cluster_state.load_state(one.directory) for one in both)
    assert first is not None
    assert second is not None
    assert not set(first.ports.values()) & set(second.ports.values())
    with support.fresh_namespace(both[0]) as namespace:
        assert both[1].api.request(f"/api/v1/namespaces/{namespace}").status == 404


def _end_in_pieces(name: str) -> None:
    """A killed `down` is finished by the next one, and nothing is left to a third."""
    _killed_at("dev.end.kube-apiserver.after", "down", name)
    assert commands.find_pids(directories.cluster_directory(name)) == [_pids(name)["etcd"]]
    _killed_at("dev.remove.before", "down", name)
    assert commands.run("down", "--name", name).returncode == 0
    assert commands.find_leftovers(name) == []
    again = commands.run("down", "--name", name)
    assert (again.returncode, commands.find_leftovers(name)) == (0, [])
    assert f"cluster {name!r} not found" in again.stderr


def test_up_again_changes_nothing(victim: LocalCluster) -> None:
    """A running cluster is reported, not changed."""
    before = _pids(victim.name)
    again = commands.run("up", "--name", victim.name)
    assert "is running at" in again.stderr
    assert _pids(victim.name) == before


class _Resuming(SilentReporter):
    """Remembers every line, and lets a stopped process continue once `up` waits."""

    def __init__(self, pid: int) -> None:
        self.lines: list[str] = []
        self._pid = pid

    def report(self, text: str) -> None:
        self.lines.append(text)

    def step(self, text: str) -> AbstractContextManager[None]:
        self.lines.append(text)
        os.kill(self._pid, signal.SIGCONT)
        return contextlib.nullcontext()


def test_up_waits_for_a_component_that_is_late(victim: LocalCluster) -> None:
    """It runs all the same: nothing is repaired, and the cluster is reported as running."""
    before = _pids(victim.name)
    late = _Resuming(before[components.CONTROLLER_MANAGER])
    os.kill(before[components.CONTROLLER_MANAGER], signal.SIGSTOP)
    try:
        account = "/api/v1/namespaces/kube-public/serviceaccounts/default"
        assert victim.api.request(account, method="DELETE").ok
        control_plane.up(victim.name, progress=late)
    finally:
        os.kill(before[components.CONTROLLER_MANAGER], signal.SIGCONT)
    assert late.lines == [
        f"waiting for cluster {victim.name!r}",
        f"cluster {victim.name!r} is running at {victim.server}",
    ]
    assert _pids(victim.name) == before


def test_state_is_private(victim: LocalCluster) -> None:
    """Keys are for their owner alone."""
    victim.user_kubeconfig("alice")
    assert stat.S_IMODE(victim.directory.stat().st_mode) == 0o700
    secrets = [*victim.directory.rglob("*.key"), *victim.directory.rglob("*.kubeconfig")]
    assert len(secrets) >= 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


def test_default_namespace_is_usable_at_once(victim: LocalCluster) -> None:
    """Ready means that pods could be admitted: the default account exists."""
    assert victim.api.request("/api/v1/namespaces/default/serviceaccounts/default").ok


@pytest.mark.parametrize("component", components.START_ORDER)
def test_up_restarts_dead_components(victim: LocalCluster, component: str) -> None:
    """Only the dead component is started again, on its old port, with its data."""
    with support.fresh_namespace(victim) as namespace:
        before = _pids(victim.name)
        commands.kill(before[component])
        seen = status.cluster_status(victim.name)
        again = control_plane.up(victim.name)
        after = _pids(victim.name)
        assert {name for name in before if before[name] != after[name]} == {component}
        assert again == victim
        assert victim.api.request(f"/api/v1/namespaces/{namespace}").ok
    assert seen is not None
    assert not seen.ready


def test_up_waits_for_the_work_of_a_restarted_controller_manager(victim: LocalCluster) -> None:
    """What its predecessor had created is no sign of it."""
    path = "/api/v1/namespaces/kube-public/serviceaccounts/default"
    before = json.loads(victim.api.request(path).text)["metadata"]["uid"]
    commands.kill(_pids(victim.name)[components.CONTROLLER_MANAGER])
    control_plane.up(victim.name)
    after = victim.api.request(path)
    assert after.ok
    assert json.loads(after.text)["metadata"]["uid"] != before


@pytest.mark.parametrize(
    "failpoint_name",
    [
        "dev.found.before",
        "dev.found.after",
        "dev.spawn.etcd.before",
        "dev.spawn.etcd.after",
        "dev.record.etcd.after",
        "dev.spawn.kube-apiserver.after",
    ],
)
def test_down_after_up_was_killed(doomed: str, failpoint_name: str) -> None:
    """Unrecorded processes are ended as well."""
    _killed_at(failpoint_name, "up", doomed)
    assert commands.run("down", "--name", doomed).returncode == 0
    assert commands.find_leftovers(doomed) == []


def test_down_without_etcd(doomed: str) -> None:
    """A dead component does not keep the rest running."""
    _killed_at("dev.record.kube-apiserver.after", "up", doomed)
    commands.kill(_pids(doomed)[components.ETCD])
    assert commands.run("down", "--name", doomed).returncode == 0
    assert commands.find_leftovers(doomed) == []


def test_directory_without_state_is_leftovers(doomed: str) -> None:
    """A damaged state file does not stop `down`."""
    directories.ensure_private(directories.cluster_directory(doomed))
    (directories.cluster_directory(doomed) / "state.json").write_text('{"name": ')
    assert control_plane.down(doomed)
    assert commands.find_leftovers(doomed) == []


def _has_open(pid: int, path: Path) -> bool:
    # A descriptor may be closed while the others are read; then it is asked again.
    with contextlib.suppress(OSError):
        return any(each.readlink() == path for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_unrelated_processes_survive_down(doomed: str) -> None:
    """Reading a log does not make a process part of the cluster."""
    directories.ensure_private(directories.cluster_directory(doomed))
    log = directories.cluster_directory(doomed) / "etcd.log"
    log.touch()
    bystander = subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL)
    try:
        # Once it reads the log: a reader that finds none ends by itself.
        eventually(lambda: _has_open(bystander.pid, log), "tail reads the log")
        control_plane.down(doomed)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_kubeconfig_has_the_requested_identity(victim: LocalCluster) -> None:
    """The lines of `env` give kubectl that identity, and our kubectl."""
    lines = commands.run(
        "env", "--name", victim.name, "--user", "alice", "--group", "dev", "--group", "ops"
    ).stdout
    shell = subprocess.run(
        ["bash", "-c", f"{lines}\ncommand -v kubectl; kubectl auth whoami -o json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    program, _, answer = shell.stdout.partition("\n")
    who = json.loads(answer)["status"]["userInfo"]
    assert Path(program) == victim.kubectl
    assert who["username"] == "alice"
    assert {"dev", "ops"} <= set(who["groups"])


def test_administrator_is_the_default_identity(victim: LocalCluster) -> None:
    """Without a user `env` points at the administrator's kubeconfig."""
    lines = commands.run("env", "--name", victim.name).stdout
    assert f"KUBECONFIG={victim.admin_kubeconfig}" in lines
    assert _kubectl(victim, victim.admin_kubeconfig, "auth", "can-i", "*", "*") == "yes\n"


def test_different_identities_have_different_files(victim: LocalCluster) -> None:
    """Groups belong to an identity, and no user name escapes the directory."""
    paths = {
        victim.user_kubeconfig("alice"),
        victim.user_kubeconfig("alice", ["dev"]),
        victim.user_kubeconfig("../../alice"),
        victim.user_kubeconfig("system:serviceaccount:x:y"),
    }
    assert len(paths) == 4
    assert {path.resolve().parent for path in paths} == {victim.directory / "users"}


def test_a_kubeconfig_has_its_marker(victim: LocalCluster, tmp_path: Path) -> None:
    """The marker survives the file, and a foreign file has none."""
    mark = kubeconfig.read_extension(victim.user_kubeconfig("alice"))
    assert mark == kubeconfig.ClusterExtension(victim.name, "127.0.0.1")
    assert kubeconfig.read_extension(tmp_path / "absent") is None


def test_the_marker_survives_kubectl(victim: LocalCluster) -> None:
    """People switch namespaces with kubectl, which rewrites the file."""
    path = victim.user_kubeconfig("editor")
    _kubectl(victim, path, "config", "set-context", "--current", "--namespace=other")
    assert kubeconfig.read_extension(path) == kubeconfig.ClusterExtension(victim.name, "127.0.0.1")


def test_etcd_may_be_shared(victim: LocalCluster, doomed: str) -> None:
    """Another API server under its own prefix sees its own objects and leaves no key.

    What a test adds to its command line is there, also after a repair.
    """
    added = "--max-mutating-requests-inflight=7"
    guest = control_plane.up(doomed, etcd_url=victim.etcd_url, extra_api_server_args=[added])
    assert _last_argument(doomed) == added
    with support.fresh_namespace(victim) as namespace:
        assert guest.api.request(f"/api/v1/namespaces/{namespace}").status == 404
    before = _pids(doomed)
    assert set(before) == {"kube-apiserver", "kube-controller-manager"}
    with pytest.raises(WindlassError, match="exists with a different etcd"):
        control_plane.up(doomed, etcd_url="http://127.0.0.1:1")
    commands.kill(before["kube-apiserver"])
    seen = status.cluster_status(doomed)
    assert seen is not None
    assert not seen.ready
    _killed_at("dev.record.kube-apiserver.after", "up", doomed)
    assert _pids(doomed)["kube-apiserver"] != before["kube-apiserver"]
    assert _last_argument(doomed) == added
    assert _keys(victim, f"/windlass/{doomed}/") > 100
    commands.kill(before["kube-controller-manager"])
    assert control_plane.down(doomed)
    assert (commands.find_leftovers(doomed), _keys(victim, f"/windlass/{doomed}/")) == ([], 0)
    eventually(lambda: victim.api.request("/readyz").ok, "the host of that etcd is unharmed")


def _last_argument(name: str) -> str:
    """The last argument of the API server, once it runs."""
    pid = _pids(name)["kube-apiserver"]
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[-2].decode()


def _keys(local: LocalCluster, prefix: str) -> int:
    """How many keys there are under `prefix` in a cluster's etcd."""
    end = f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}"
    first, last = (base64.b64encode(text.encode()).decode() for text in (prefix, end))
    body = json.dumps({"key": first, "range_end": last, "count_only": True})
    line = HTTPConnection(urlsplit(local.etcd_url).netloc, timeout=DEADLINE_SECONDS)
    with contextlib.closing(line):
        line.request("POST", "/v3/kv/range", body)
        return int(json.load(line.getresponse()).get("count", 0))


def test_logs_show_every_component(victim: LocalCluster) -> None:
    """Without a component there is a list with the last lines of each."""
    overview = commands.run("logs", "--name", victim.name, "--lines", "3").stdout
    assert all(f"==> {component}:" in overview for component in components.START_ORDER)
    one = commands.run("logs", "etcd", "--name", victim.name, "-n", "2").stdout
    assert 1 <= len(one.splitlines()) <= 2
    wrong = commands.run("logs", "nonsense", "--name", victim.name)
    assert wrong.returncode == 2
    assert "kube-apiserver" in wrong.stderr


def test_a_component_that_fails_is_quoted(doomed: str) -> None:
    """The error has the component's own message, and nothing is left after down."""
    with pytest.raises(WindlassError, match="unknown flag"):
        control_plane.up(doomed, extra_api_server_args=["--no-such-flag"])
    control_plane.down(doomed)
    assert commands.find_leftovers(doomed) == []


def test_missing_cluster_is_explained() -> None:
    """Each command that needs a cluster names the command that creates one."""
    for arguments in (["env"], ["logs"]):
        done = commands.run(*arguments, "--name", support.name("absent"))
        assert (done.returncode, done.stdout) == (1, "")
        assert "windlass dev up --name" in done.stderr
    assert commands.run("status", "--name", support.name("absent")).returncode == 1


def test_leftovers_of_dead_test_runs_are_removed() -> None:
    """A killed run leaves its clusters to the next one, which keeps those of running ones."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    orphan, living = f"test-{dead.pid}-x", support.name("living")
    for name in (orphan, living):
        directories.ensure_private(directories.cluster_directory(name))
    support.remove_leftovers()
    assert commands.find_leftovers(orphan) == []
    assert commands.find_leftovers(living) == [str(directories.cluster_directory(living))]
    control_plane.down(living)
