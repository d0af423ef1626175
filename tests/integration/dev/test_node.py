"""Clusters that run pods, and that they leave nothing on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import control_plane as support
from tests.support.cluster import dev_command as commands
from tests.support.cluster import node as nodes
from tests.support.cluster.stub_program import write_script
from tests.support.processes.operator import eventually, running_operator
from windlass.base.errors import WindlassError
from windlass_dev import directories
from windlass_dev.cluster import cluster as control_plane
from windlass_dev.cluster import cluster_state, components, kubeconfig, launch, status
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node import cgroups, containerd, kernel_namespaces

pytestmark = [pytest.mark.cluster, pytest.mark.node]


@pytest.fixture
def node_namespace(node_cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own on the shared node."""
    with support.fresh_namespace(node_cluster, pods=True) as name:
        eventually(lambda: _account(node_cluster, name), "the default account")
        yield name


@pytest.fixture
def doomed(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a cluster that the test starts and removes itself."""
    name = support.name(f"n{abs(hash(request.node.name)) % 10**6}")
    yield name
    control_plane.down(name)


@pytest.fixture
def decoy() -> Iterator[subprocess.Popen[bytes]]:
    """A foreign container: its name and its cgroup look like ours, but are not."""
    homes = [one / "kubepods" / f"decoy-{os.getpid()}" for one in cgroups.hierarchies()]
    script = "exec -a containerd-shim-runc-v2 sleep 600"
    process = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    home = next(home for home in homes if home.parts[-3] in ("memory", "cgroup", "unified"))
    fresh = not home.parent.exists()
    home.mkdir(parents=True)
    (home / "cgroup.procs").write_text(str(process.pid))
    yield process
    process.kill()
    process.wait()
    home.rmdir()
    if fresh:
        with contextlib.suppress(OSError):
            home.parent.rmdir()


def _account(local: LocalCluster, namespace: str) -> bool:
    return local.api.request(f"/api/v1/namespaces/{namespace}/serviceaccounts/default").ok


def _deployment() -> dict[str, Any]:
    data = [{"name": "data", "mountPath": "/data"}]
    side = "echo side runs; echo written > /data/index.html; while true; do sleep 1; done"
    main = "echo main runs; exec httpd -f -p 8080 -h /data"
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "initContainers": [
                {
                    "name": "side",
                    "image": nodes.IMAGE,
                    "restartPolicy": "Always",
                    "command": ["sh", "-c", side],
                    "volumeMounts": data,
                }
            ],
            "containers": [
                {
                    "name": "main",
                    "image": nodes.IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", main],
                    "readinessProbe": {
                        "httpGet": {"path": "/index.html", "port": 8080},
                        "periodSeconds": 1,
                    },
                    "volumeMounts": data,
                }
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }


def _service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def test_status_and_logs_list_every_component(node_cluster: LocalCluster) -> None:
    """Components of a node are listed like all others."""
    output = commands.run("status", "--name", node_cluster.name, "-o", "json")
    (reported,) = json.loads(output.stdout)["clusters"]
    assert reported["ready"]
    rows = {row["name"]: row for row in reported["components"]}
    assert set(rows) == set(components.all_components())
    assert {row["state"] for row in rows.values()} == {"running"}
    table = commands.run("status", "--name", node_cluster.name)
    assert "containerd" in table.stdout
    logs = commands.run("logs", "kubelet", "--name", node_cluster.name)
    assert "kubelet" in logs.stdout


def test_a_deployment_runs_and_is_reached(node_cluster: LocalCluster, node_namespace: str) -> None:
    """Sidecar, probe, shared volume, exec, logs, and its service from pod and machine."""
    local = node_cluster
    for path, body in (
        (f"/apis/apps/v1/namespaces/{node_namespace}/deployments", _deployment()),
        (f"/api/v1/namespaces/{node_namespace}/services", _service()),
    ):
        assert local.api.request(path, method="POST", body=body).ok
    eventually(lambda: _ready_replicas(local, node_namespace) == 2, "both copies ready", seconds=60)
    pods = f"/api/v1/namespaces/{node_namespace}/pods"
    (first, _) = json.loads(local.api.request(pods).text)["items"]
    for container in ("main", "side"):
        log = f"{pods}/{first['metadata']['name']}/log?container={container}"
        # containerd copies what is printed on its own time, the probe does not wait for it.
        text = eventually(partial(_log, local, log), f"the log of {container}")
        assert text == f"{container} runs\n"
    exec_ = ("exec", "-n", node_namespace, "deploy/web", "-c", "main", "--", "sh", "-c")
    assert nodes.kubectl(local, *exec_, "cat /data/index.html") == "written\n"
    service = json.loads(
        local.api.request(f"/api/v1/namespaces/{node_namespace}/services/web").text
    )
    address = service["spec"]["clusterIP"]
    calls = "; ".join([nodes.fetch_command(address, 80)] * 4)
    # kube-proxy learns of ready pods a moment after their Deployment.
    eventually(
        lambda: nodes.try_kubectl(local, *exec_, calls).stdout.count("written\n") == 4,
        "the Service answers every call",
    )
    with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
        assert answer.read() == b"written\n"


def _log(local: LocalCluster, path: str) -> str:
    answer = local.api.request(path)
    return answer.text if answer.ok else ""


def _ready_replicas(local: LocalCluster, node_namespace: str) -> int:
    reported = local.api.request(f"/apis/apps/v1/namespaces/{node_namespace}/deployments/web").text
    return int(json.loads(reported).get("status", {}).get("readyReplicas", 0))


def test_a_pod_reaches_the_api_server(node_cluster: LocalCluster, node_namespace: str) -> None:
    """By the service's address, with the token that was mounted for it."""
    local = node_cluster
    nodes.run_pod(local, node_namespace, "caller", "sleep 600")
    output = nodes.exec_in_pod(
        local,
        node_namespace,
        "caller",
        "kubectl auth whoami -o jsonpath={.status.userInfo.username}",
    )
    assert output == f"system:serviceaccount:{node_namespace}:default"


def test_a_pod_reaches_the_machine_and_nothing_needs_loopback(
    node_cluster: LocalCluster, node_namespace: str, tmp_path: Path
) -> None:
    """Servers at this end of the link are reachable for pods: `windlass dev git` too."""
    local = node_cluster
    mark = kubeconfig.read_extension(local.admin_kubeconfig)
    assert mark is not None
    assert mark.webhook_host == local.host
    nodes.run_pod(local, node_namespace, "caller", "sleep 600")
    arguments = ["git", "--root", str(tmp_path), "--create", "shop", "--node", local.name]
    script = "from windlass.cli.main import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", script, "dev", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        urls = [server.stdout.readline().strip() for _ in range(2)]
        assert urls[0].startswith("http://127.0.0.1:")
        port = int(urls[0].split(":")[2].split("/")[0])
        assert urls[1] == f"http://{local.host}:{port}/shop.git"
        path = "/shop.git/info/refs?service=git-upload-pack"
        # The shell's own client half-closes, which the git server takes for an end.
        call = f"kubectl --server=http://{local.host}:{port} get --raw '{path}'"
        output = nodes.exec_in_pod(local, node_namespace, "caller", call)
        assert "# service=git-upload-pack" in output
    finally:
        server.kill()
        server.communicate()


def test_the_operator_is_called_by_a_cluster_with_a_node(
    node_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Its certificate names this end of the link: admission reaches it, authors are provable."""
    with running_operator(node_cluster, tmp_path):
        now = cluster_state.load_state(node_cluster.directory)
        assert now is not None
        assert components.host_address(now) == node_cluster.host != "127.0.0.1"


def test_an_archive_is_loaded_by_command(node_cluster: LocalCluster, tmp_path: Path) -> None:
    """Other files are refused with containerd's message; a cluster without node has none."""
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"no tar at all")
    output = commands.run("load", str(broken), "--name", node_cluster.name)
    assert output.returncode == 1
    assert "containerd could not import" in output.stderr
    now = cluster_state.load_state(node_cluster.directory)
    assert now is not None
    with pytest.raises(WindlassError, match=r"image archive .*absent.tar not found"):
        containerd.import_images(now, node_cluster.directory, tmp_path / "absent.tar")


@pytest.mark.parametrize("component", [components.KUBELET, components.CONTAINERD])
def test_up_restarts_a_component_while_pods_run(
    node_cluster: LocalCluster, node_namespace: str, component: str
) -> None:
    """Only the dead component is started again, and pods keep running."""
    local = node_cluster
    nodes.run_pod(local, node_namespace, "bystander", "sleep 600")
    before = _pids(local.name)
    commands.kill(before[component])
    seen = status.cluster_status(local.name)
    assert control_plane.up(local.name) == local
    after = _pids(local.name)
    assert {name for name in before if before[name] != after[name]} == {component}
    assert seen is not None
    assert not seen.ready
    # A new kubelet listens before it has heard of its pods.
    call = ("exec", "-n", node_namespace, "bystander", "--", "echo", "alive")
    eventually(lambda: nodes.try_kubectl(local, *call).stdout == "alive\n", "exec after the repair")
    reported = json.loads(
        local.api.request(f"/api/v1/namespaces/{node_namespace}/pods/bystander").text
    )
    assert reported["status"]["containerStatuses"][0]["restartCount"] == 0


def test_two_side_by_side_and_the_end_of_one(
    node_cluster: LocalCluster, node_namespace: str, doomed: str, decoy: subprocess.Popen[bytes]
) -> None:
    """They share no address; one's end leaves nothing and the other's pods do not notice.

    A kubelet that nobody recorded, because its `up` was killed, ends with the rest.
    """
    first = node_cluster
    nodes.run_pod(first, node_namespace, "bystander", "httpd -f -p 8080")
    before = nodes.find_traces(directories.cluster_directory(doomed))
    up = commands.run("up", "--node", "--name", doomed)
    assert up.returncode == 0, up.stderr
    second = _lived(doomed, before)
    assert second.host != first.host
    assert second.server != first.server
    recorded = _pids(doomed)
    commands.kill(recorded[components.KUBELET])
    half = f"dev.spawn.{components.KUBELET}.after=kill"
    killed = commands.run("up", "--name", doomed, WINDLASS_FAILPOINTS=half)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    stray = _only_process(components.KUBELET, second.directory)
    assert stray not in recorded.values()
    _end(doomed, before)
    assert decoy.poll() is None
    assert nodes.exec_in_pod(first, node_namespace, "bystander", "echo alive") == "alive\n"
    reported = status.cluster_status(first.name)
    assert reported is not None
    assert reported.ready


def _lived(name: str, before: nodes.NodeTraces) -> LocalCluster:
    """A cluster that is up and ran a pod, with traces on the machine."""
    local = _loaded(name)
    nodes.run_pod(local, "default", "victim", "sleep 600")
    during = nodes.find_traces(local.directory).more_than(before)
    assert {"processes", "mounts", "links", "namespaces", "cgroups", "files"} <= set(during)
    return local


def _end(name: str, before: nodes.NodeTraces) -> None:
    """Remove a cluster, twice; no trace is left afterwards."""
    for expected in (f"cluster {name!r} removed", f"cluster {name!r} not found"):
        down = commands.run("down", "--name", name)
        assert down.returncode == 0, down.stderr
        assert expected in down.stderr
        assert nodes.find_traces(directories.cluster_directory(name)).more_than(before) == {}


@pytest.mark.parametrize(
    "failpoint_name",
    [
        "dev.node.record.after",
        "dev.node.machine.after",
        "dev.node.namespaces.after",
        "dev.node.network.after",
        "dev.node.cgroups.after",
        "dev.spawn.containerd.after",
    ],
)
def test_down_after_up_was_killed(doomed: str, failpoint_name: str) -> None:
    """Wherever it was killed, everything it created is found and removed."""
    directory = directories.cluster_directory(doomed)
    before = nodes.find_traces(directory)
    up = commands.run(
        "up", "--node", "--name", doomed, WINDLASS_FAILPOINTS=f"{failpoint_name}=kill"
    )
    assert up.returncode == -signal.SIGKILL, up.stderr
    assert commands.run("down", "--name", doomed).returncode == 0
    assert nodes.find_traces(directory).more_than(before) == {}


@pytest.mark.parametrize(
    "failpoint_name",
    ["dev.node.ended.after", "dev.node.released.after", "dev.node.undo.after", "dev.remove.before"],
)
def test_down_after_down_was_killed(doomed: str, failpoint_name: str) -> None:
    """The second attempt finishes the first one."""
    directory = directories.cluster_directory(doomed)
    before = nodes.find_traces(directory)
    # A half-made cluster is enough to take down, and quicker to make.
    half = "dev.spawn.containerd.after=kill"
    commands.run("up", "--node", "--name", doomed, WINDLASS_FAILPOINTS=half)
    down = commands.run("down", "--name", doomed, WINDLASS_FAILPOINTS=f"{failpoint_name}=kill")
    shared = failpoint_name == "dev.node.undo.after" and down.returncode == 0
    assert shared or down.returncode == -signal.SIGKILL
    assert commands.run("down", "--name", doomed).returncode == 0
    assert nodes.find_traces(directory).more_than(before) == {}


def test_up_continues_where_up_was_killed(
    doomed: str, tmp_path: Path, decoy: subprocess.Popen[bytes]
) -> None:
    """Half a ground is not built upon, a part nobody recorded is ended, slow ones are not.

    On a busy machine a part may still be entering the cluster's namespaces when the next one
    is started. After SIGKILL of everything no process, mount, link, namespace, cgroup, setting
    or file is left.
    """
    directory = directories.cluster_directory(doomed)
    before = nodes.find_traces(directory)
    write_script(tmp_path / "nsenter", f'sleep 0.2; exec {shutil.which("nsenter")} "$@"')
    busy = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for half in ("dev.node.network.after", f"dev.spawn.{components.POLICIES}.after"):
        killed = commands.run(
            "up", "--node", "--name", doomed, WINDLASS_FAILPOINTS=f"{half}=kill", PATH=busy
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    _only_process(components.POLICIES, directory)
    again = commands.run("up", "--name", doomed, PATH=busy)
    assert again.returncode == 0, again.stderr
    reported = status.cluster_status(doomed)
    assert reported is not None
    assert reported.ready
    assert len(reported.components) == len(components.all_components())
    enforcer = _only_process(components.POLICIES, directory)
    assert enforcer == _pids(doomed)[components.POLICIES]
    _lived(doomed, before)
    nodes.kill_all([*_pids(doomed).values(), *kernel_namespaces.member_pids(directory)])
    _end(doomed, before)
    assert decoy.poll() is None


def _loaded(name: str) -> LocalCluster:
    from windlass_dev.cluster import local_cluster

    reported = local_cluster.get_cluster(name)
    nodes.load_image(reported, kubectl=False)
    eventually(lambda: _account(reported, "default"), "the default account")
    return reported


def _only_process(component: str, directory: Path) -> int:
    """The pid of the one process of a component.

    A child that it starts, iptables for example, looks like itself until it executes its program.
    """

    def found() -> list[int]:
        pids = [one.pid for one in launch.component_processes(component, directory)]
        return pids if len(pids) == 1 else []

    (pid,) = eventually(found, f"one process of {component}")
    return pid


def _pids(name: str) -> dict[str, int]:
    now = cluster_state.load_state(directories.cluster_directory(name))
    assert now is not None
    return {component: process.pid for component, process in now.processes.items()}
