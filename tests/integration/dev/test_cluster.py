"""Tests of bringing control planes up, breaking them and taking them down."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cluster as support
from tests.support import desk as commands
from windlass.base.errors import WindlassError
from windlass.dev import cluster as control_plane
from windlass.dev import components, kubeconfig, places, state, status
from windlass.dev.desk import Desk

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def victim() -> Iterator[Desk]:
    """A control plane that the tests of this file may hurt and must leave whole."""
    with support.running("victim") as desk:
        yield desk


@pytest.fixture
def doomed(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a control plane that the test brings up and down itself."""
    name = support.name(f"d{abs(hash(request.node.name)) % 10**8}")
    yield name
    control_plane.down(name)


def _pids(name: str) -> dict[str, int]:
    now = state.load(places.directory(name))
    assert now is not None
    return {component: process.pid for component, process in now.processes.items()}


def _kubectl(desk: Desk, config: Path, *arguments: str) -> str:
    done = subprocess.run(
        [desk.kubectl, "--kubeconfig", config, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_up_use_down_leaves_nothing(doomed: str) -> None:
    """A whole life, by the commands a person types; half an end is finished by the next one."""
    up = commands.run("up", "--name", doomed)
    assert up.returncode == 0, up.stderr
    assert up.stdout.startswith("https://127.0.0.1:")
    assert "is ready at" in up.stderr
    found = json.loads(commands.run("status", "--name", doomed, "-o", "json").stdout)
    rows = found["clusters"][0]["components"]
    assert found["clusters"][0]["ready"]
    assert [row["state"] for row in rows] == ["running"] * 3
    assert all(row["rssBytes"] > 10**6 and row["port"] > 1024 for row in rows)
    assert len(commands.pids_naming(places.directory(doomed))) == 3
    _end_half(doomed)
    assert commands.run("down", "--name", doomed).returncode == 0
    assert commands.remains(doomed) == []
    again = commands.run("down", "--name", doomed)
    assert (again.returncode, commands.remains(doomed)) == (0, [])
    assert "there is no cluster" in again.stderr


def _end_half(name: str) -> None:
    for place in ("dev.end.kube-apiserver.after", "dev.remove.before"):
        killed = commands.run("down", "--name", name, WINDLASS_FAILPOINTS=f"{place}=kill")
        assert killed.returncode == -signal.SIGKILL


def test_up_again_changes_nothing(victim: Desk) -> None:
    """A running cluster is told, not touched."""
    before = _pids(victim.name)
    again = commands.run("up", "--name", victim.name)
    assert "is running at" in again.stderr
    assert _pids(victim.name) == before


def test_state_is_private(victim: Desk) -> None:
    """Keys are for their owner alone."""
    victim.user_kubeconfig("alice")
    assert stat.S_IMODE(victim.directory.stat().st_mode) == 0o700
    secrets = [*victim.directory.rglob("*.key"), *victim.directory.rglob("*.kubeconfig")]
    assert len(secrets) >= 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


def test_default_namespace_is_usable_at_once(victim: Desk) -> None:
    """Ready means that pods could be admitted: the default account exists."""
    assert victim.api.ask("/api/v1/namespaces/default/serviceaccounts/default").ok


def test_two_side_by_side(cluster: Desk, victim: Desk) -> None:
    """Clusters share neither ports nor objects."""
    first, second = (state.load(desk.directory) for desk in (cluster, victim))
    assert first is not None
    assert second is not None
    assert not set(first.ports.values()) & set(second.ports.values())
    with support.fresh_namespace(cluster) as namespace:
        assert victim.api.ask(f"/api/v1/namespaces/{namespace}").status == 404


@pytest.mark.parametrize("component", components.START_ORDER)
def test_up_repairs_what_died(victim: Desk, component: str) -> None:
    """Only the dead component is started again, on its old port, with its data."""
    with support.fresh_namespace(victim) as namespace:
        before = _pids(victim.name)
        commands.kill(before[component])
        seen = status.of(victim.name)
        again = control_plane.up(victim.name)
        after = _pids(victim.name)
        assert {name for name in before if before[name] != after[name]} == {component}
        assert again == victim
        assert victim.api.ask(f"/api/v1/namespaces/{namespace}").ok
    assert seen is not None
    assert not seen.ready


@pytest.mark.parametrize(
    "place",
    [
        "dev.found.before",
        "dev.found.after",
        "dev.spawn.etcd.before",
        "dev.spawn.etcd.after",
        "dev.record.etcd.after",
        "dev.spawn.kube-apiserver.after",
        "dev.spawn.kube-controller-manager.after",
    ],
)
def test_down_after_up_was_killed(doomed: str, place: str) -> None:
    """Not even a process that nobody recorded is left."""
    up = commands.run("up", "--name", doomed, WINDLASS_FAILPOINTS=f"{place}=kill")
    assert up.returncode == -signal.SIGKILL
    assert commands.run("down", "--name", doomed).returncode == 0
    assert commands.remains(doomed) == []


@pytest.mark.parametrize(
    ("place", "component"),
    [
        ("dev.found.after", components.ETCD),
        ("dev.spawn.kube-apiserver.after", components.CONTROLLER_MANAGER),
    ],
)
def test_up_after_up_was_killed(doomed: str, place: str, component: str) -> None:
    """The second attempt goes on and leaves no twin of what the first one started."""
    commands.run("up", "--name", doomed, WINDLASS_FAILPOINTS=f"{place}=kill")
    assert commands.run("up", "--name", doomed).returncode == 0
    assert sorted(commands.pids_naming(places.directory(doomed))) == sorted(_pids(doomed).values())
    _down_without(doomed, component)


def _down_without(name: str, component: str) -> None:
    """What is dead already does not keep the rest alive."""
    commands.kill(_pids(name)[component])
    assert commands.run("down", "--name", name).returncode == 0
    assert commands.remains(name) == []


def test_directory_without_state_is_leftovers(doomed: str) -> None:
    """A damaged state file is no reason to give up."""
    places.make_private(places.directory(doomed))
    (places.directory(doomed) / "state.json").write_text('{"name": ')
    assert control_plane.down(doomed)
    assert commands.remains(doomed) == []


def test_two_ups_of_one_name_take_turns(doomed: str) -> None:
    """The second waits for the first and finds its work done."""
    children = [commands.start("up", "--name", doomed) for _ in range(2)]
    outputs = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    assert sum("is running at" in stderr for _, stderr in outputs) == 1
    assert len(commands.pids_naming(places.directory(doomed))) == 3
    _down_without(doomed, components.API_SERVER)


def test_bystanders_survive_down(doomed: str) -> None:
    """Reading a log does not make a process part of the cluster."""
    places.make_private(places.directory(doomed))
    log = places.directory(doomed) / "etcd.log"
    log.touch()
    bystander = subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL)
    try:
        control_plane.down(doomed)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_kubeconfig_is_a_person(victim: Desk) -> None:
    """The lines of `env` give kubectl the identity that was asked for, and our kubectl."""
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


def test_administrator_is_the_default_person(victim: Desk) -> None:
    """Without a user `env` points at the administrator's kubeconfig."""
    lines = commands.run("env", "--name", victim.name).stdout
    assert f"KUBECONFIG={victim.admin_kubeconfig}" in lines
    assert _kubectl(victim, victim.admin_kubeconfig, "auth", "can-i", "*", "*") == "yes\n"


def test_different_identities_have_different_files(victim: Desk) -> None:
    """Groups belong to an identity, and no user name escapes the directory."""
    paths = {
        victim.user_kubeconfig("alice"),
        victim.user_kubeconfig("alice", ["dev"]),
        victim.user_kubeconfig("../../alice"),
        victim.user_kubeconfig("system:serviceaccount:x:y"),
    }
    assert len(paths) == 4
    assert {path.resolve().parent for path in paths} == {victim.directory / "users"}


def test_kubeconfig_is_marked(victim: Desk, tmp_path: Path) -> None:
    """The mark survives the file, and a foreign file has none."""
    mark = kubeconfig.desk_mark(victim.user_kubeconfig("alice"))
    assert mark == kubeconfig.DeskMark(victim.name, "127.0.0.1")
    assert kubeconfig.desk_mark(tmp_path / "absent") is None


def test_mark_survives_kubectl(victim: Desk) -> None:
    """People switch namespaces with kubectl, which rewrites the file."""
    path = victim.user_kubeconfig("editor")
    _kubectl(victim, path, "config", "set-context", "--current", "--namespace=other")
    assert kubeconfig.desk_mark(path) == kubeconfig.DeskMark(victim.name, "127.0.0.1")


def test_api_server_comes_back_on_its_port(victim: Desk) -> None:
    """A fault test may kill the API server and find everything where it was."""
    with support.fresh_namespace(victim) as namespace:
        victim.stop_api_server()
        assert victim.api.ask("/readyz").status == 0
        victim.start_api_server()
        before = _pids(victim.name)
        victim.restart_api_server()
        after = _pids(victim.name)
        assert victim.api.ask(f"/api/v1/namespaces/{namespace}").ok
    assert before["kube-apiserver"] != after["kube-apiserver"]
    assert before["etcd"] == after["etcd"]


def test_etcd_may_be_shared(cluster: Desk, doomed: str) -> None:
    """Another API server under its own prefix sees its own objects and leaves no key.

    What a test adds to its command line is there, also after a repair.
    """
    added = "--max-mutating-requests-inflight=7"
    guest = control_plane.up(doomed, etcd_url=cluster.etcd_url, extra_api_server_args=[added])
    guest.restart_api_server()
    line = Path(f"/proc/{_pids(doomed)['kube-apiserver']}/cmdline").read_bytes()
    assert line.split(b"\0")[-2] == added.encode()
    with support.fresh_namespace(cluster) as namespace:
        assert guest.api.ask(f"/api/v1/namespaces/{namespace}").status == 404
    assert set(_pids(doomed)) == {"kube-apiserver", "kube-controller-manager"}
    with pytest.raises(WindlassError, match="exists with another etcd"):
        control_plane.up(doomed, etcd_url="http://127.0.0.1:1")
    control_plane.down(doomed)
    assert cluster.api.ask("/readyz").ok
    fresh = control_plane.up(doomed, etcd_url=cluster.etcd_url)
    namespaces = json.loads(fresh.api.ask("/api/v1/namespaces").text)["items"]
    assert all(item["metadata"]["name"].startswith(("kube-", "default")) for item in namespaces)


def test_logs_show_every_component(victim: Desk) -> None:
    """Without a component there is a list with the last lines of each."""
    overview = commands.run("logs", "--name", victim.name, "--lines", "3").stdout
    assert all(f"==> {component}:" in overview for component in components.START_ORDER)
    one = commands.run("logs", "etcd", "--name", victim.name, "-n", "2").stdout
    assert 1 <= len(one.splitlines()) <= 2
    wrong = commands.run("logs", "nonsense", "--name", victim.name)
    assert wrong.returncode == 2
    assert "kube-apiserver" in wrong.stderr


def test_a_component_that_fails_is_quoted(doomed: str) -> None:
    """The error carries the component's own words, and nothing is left after down."""
    with pytest.raises(WindlassError, match="unknown flag"):
        control_plane.up(doomed, extra_api_server_args=["--no-such-flag"])
    control_plane.down(doomed)
    assert commands.remains(doomed) == []


def test_missing_cluster_is_explained() -> None:
    """Each command that needs a cluster says how to get one."""
    for arguments in (["env"], ["logs"]):
        done = commands.run(*arguments, "--name", support.name("absent"))
        assert (done.returncode, done.stdout) == (1, "")
        assert "windlass dev up --name" in done.stderr
    assert commands.run("status", "--name", support.name("absent")).returncode == 1


def test_leftovers_of_dead_test_runs_are_removed() -> None:
    """A killed run leaves its clusters to the next one, which leaves living runs alone."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    orphan, living = f"test-{dead.pid}-x", support.name("living")
    for name in (orphan, living):
        places.make_private(places.directory(name))
    support.remove_leftovers()
    assert commands.remains(orphan) == []
    assert commands.remains(living) == [str(places.directory(living))]
    control_plane.down(living)
