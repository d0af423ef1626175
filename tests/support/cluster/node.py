"""Clusters with a node, an image for their pods, and traces that a node must not leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import api_client
from tests.support.cluster import control_plane as support
from tests.support.cluster import dev_command as commands
from tests.support.processes.operator import eventually
from windlass.base.errors import WindlassError
from windlass_dev import directories
from windlass_dev.cluster import cluster, cluster_state
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node import (
    allocation,
    cgroups,
    containerd,
    kernel_namespaces,
    machine,
    oci_archive,
    system,
)
from windlass_dev.node.allocation import slot_number
from windlass_dev.programs import debian_packages, provider
from windlass_dev.progress import LineReporter

IMAGE = "windlass.dev/test:1"

_VOLATILE = ("random", "ns_last_pid", "pty", "pid_max", "stat_refresh")
_NODE_DIRECTORIES = tuple(
    map(
        Path,
        (
            "/run/netns",
            "/var/log/pods",
            "/run/xtables.lock",
            "/etc/cni",
            "/usr/libexec/kubernetes",
            "/opt/containerd",
        ),
    )
)
"""Default directories of a kubelet and a containerd that are not configured otherwise."""
_HOST = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "net")}  # noqa: PTH116


def prepare() -> None:
    """Provide the programs before any test's timeout starts."""
    stream = sys.__stderr__
    assert stream is not None
    progress = LineReporter(stream)
    provider.provide_programs(None, progress, node=True)
    debian_packages.provide_packages("busybox", ["busybox-static"], progress)


@contextlib.contextmanager
def running(suffix: str) -> Iterator[LocalCluster]:
    """A cluster with a node and an image, removed afterwards whatever happened to it."""
    chosen = support.name(suffix)
    try:
        yield _start_cluster(chosen)
    finally:
        api_client.close_connections(chosen)
        cluster.down(chosen)


def _start_cluster(chosen: str) -> LocalCluster:
    """The cluster with the image; a failure to start is reported without a traceback."""
    problem = ""
    try:
        local_cluster = cluster.up(chosen, node=True)
    except WindlassError as fault:
        problem = str(fault)
    if problem:
        pytest.fail(f"the cluster with a node did not come up: {problem}", pytrace=False)
    load_image(local_cluster)
    return local_cluster


def load_image(local_cluster: LocalCluster, *, kubectl: bool = True) -> None:
    """Give a node a shell, a web server and, large as it is, kubectl, for pods to run."""
    found = debian_packages.find_unpacked("busybox")
    assert found is not None, "prepare() unpacked it"
    shell = next(
        path for path in (found / "bin/busybox", found / "usr/bin/busybox") if path.exists()
    )
    names = subprocess.run([shell, "--list"], capture_output=True, text=True, check=True).stdout
    programs = {"busybox": shell} | ({"kubectl": local_cluster.kubectl} if kubectl else {})
    layer = oci_archive.build_layer(
        {f"bin/{name}": (0o755, program.read_bytes()) for name, program in programs.items()},
        links={f"bin/{name}": "busybox" for name in names.split() if name != "busybox"},
        directories={"tmp": 0o1777},
        compress=False,
    )
    image = oci_archive.ContainerImage(
        [layer],
        command=["sh"],
        environment={"PATH": "/bin"},
        architecture=containerd.image_architecture(),
    )
    file = local_cluster.directory / "test-image.tar"
    file.write_bytes(oci_archive.build_archive(image, IMAGE))
    now = cluster_state.load_state(local_cluster.directory)
    assert now is not None
    assert containerd.import_images(now, local_cluster.directory, file) == [IMAGE]
    file.unlink()


def kubectl(local_cluster: LocalCluster, *arguments: str) -> str:
    """The output of kubectl, as administrator."""
    done = try_kubectl(local_cluster, *arguments)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def try_kubectl(local_cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The result of a kubectl call that may fail."""
    return subprocess.run(
        [local_cluster.kubectl, "--kubeconfig", local_cluster.admin_kubeconfig, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
    )


def pod(name: str, script: str) -> dict[str, Any]:
    """A pod that runs `script`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}],
        },
    }


def run_pod(local_cluster: LocalCluster, namespace: str, name: str, script: str) -> None:
    """Create a pod and wait until it runs."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = local_cluster.api.request(path, method="POST", body=pod(name, script))
    assert made.ok, made
    api = local_cluster.api

    def phase() -> str:
        found: str = json.loads(api.request(f"{path}/{name}").text)["status"].get("phase", "")
        return found

    eventually(lambda: phase() == "Running", f"pod {name} running", seconds=60)


def exec_in_pod(local_cluster: LocalCluster, namespace: str, name: str, script: str) -> str:
    """The output of `script` in a pod."""
    return kubectl(local_cluster, "exec", "-n", namespace, name, "--", "sh", "-c", script)


def fetch_command(address: str, port: int, path: str = "/") -> str:
    """A shell line that prints the response of a web server; busybox's own client crashes."""
    return f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} {port}"


@dataclass(frozen=True)
class NodeTraces:
    """Traces of a node on the machine."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    namespaces: frozenset[int]
    cgroups: frozenset[str]
    files: frozenset[str]
    shared: frozenset[str] | None
    """Files and settings that all nodes share; None while there are other nodes."""

    def more_than(self, before: NodeTraces) -> dict[str, frozenset[Any]]:
        """Traces that exist now and did not before, as far as both times could be read."""
        pairs = {
            field.name: (getattr(self, field.name), getattr(before, field.name))
            for field in fields(self)
        }
        found = {name: now - then for name, (now, then) in pairs.items() if None not in (now, then)}
        return {name: new for name, new in found.items() if new}


def find_traces(directory: Path) -> NodeTraces:
    """Traces of the cluster in `directory`, or of no particular cluster.

    Other clusters come and go beside it, also those of other test runs: what carries their
    mark is left out, and so is what nodes share while there is another one.
    """
    isolated = list(_isolated_processes())
    others = _members_of_others(directory)
    apart = [entry for entry in isolated if entry[0] not in others and commands.is_alive(entry[0])]
    named = {f"{pid}" for pid in commands.find_pids(directory)}
    return NodeTraces(
        processes=frozenset({str(pid) for pid, _ in apart} | named),
        mounts=frozenset(_mounts(directory)),
        links=frozenset(_links(directory)),
        namespaces=frozenset(number for _, numbers in apart for number in numbers),
        cgroups=frozenset(_cgroups(directory)),
        files=frozenset(_files(directory, *_NODE_DIRECTORIES)),
        shared=None if _other_nodes(directory) else frozenset(_shared()),
    )


def _isolated_processes() -> Iterator[tuple[int, list[int]]]:
    """Live processes in other namespaces than this one, with those namespaces."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            found = [(entry / "ns" / kind).stat().st_ino for kind in _HOST]
            if found[1] != _HOST["net"]:
                yield int(entry.name), found


def _members_of_others(directory: Path) -> set[int]:
    others = [directories.cluster_directory(name) for name in directories.cluster_names()]
    return {
        pid
        for other in others
        if other != directory
        for pid in (*kernel_namespaces.member_pids(other), *cgroups.member_pids(other))
    }


def _other_nodes(directory: Path) -> bool:
    return any(
        directories.cluster_directory(name) != directory
        and machine.is_registered(directories.cluster_directory(name))
        for name in directories.cluster_names()
    )


def _mounts(directory: Path) -> Iterator[str]:
    """Mounts that are not another cluster's, nor in the temporary files of another test."""
    of_others = (directory.parent, Path(tempfile.gettempdir()), Path("/dev/shm"))
    for mount in system.list_mounts():
        is_of_others = any(place in mount.point.parents for place in of_others)
        if mount.point.is_relative_to(directory) or not is_of_others:
            yield str(mount.point)


def _links(directory: Path) -> Iterator[str]:
    ours = allocation.hardware_address(directory)
    for entry in Path("/sys/class/net").iterdir():
        with contextlib.suppress(OSError):
            if slot_number(entry.name) is None or (entry / "address").read_text().strip() == ours:
                yield entry.name


def _cgroups(directory: Path) -> Iterator[str]:
    """Cgroups of containers that are not another cluster's, nor another test's decoy."""
    ours = allocation.cgroup_name(directory)
    words = ("kubepods", "k8s.io", "containerd")
    for hierarchy in cgroups.hierarchies():
        for path, below, _ in os.walk(hierarchy):
            below[:] = [name for name in below if name == ours or not _is_of_others(name)]
            if ours in path or any(word in path for word in words):
                yield path


def _is_of_others(cgroup: str) -> bool:
    return cgroup.startswith("windlass-") or "decoy" in cgroup


def _files(*roots: Path) -> Iterator[str]:
    for root in roots:
        if root.exists():
            yield str(root)
            for path, folders, files in os.walk(root):
                yield from (f"{path}/{name}" for name in (*folders, *files))


def _shared() -> Iterator[str]:
    run = (Path("/run/windlass"), Path("/run/windlass.lock"))
    yield from _files(*run, *kernel_namespaces.MOUNT_POINTS)
    root = Path("/proc/sys")
    names = ["net/ipv4/ip_forward", "net/netfilter/nf_conntrack_max"]
    names += [*machine.SET_BY_KUBELET, *machine.MINIMUM_LIMITS]
    for path in [*(root / name for name in names), *root.glob("kernel/*"), *root.glob("vm/*")]:
        if path.is_file() and not any(word in str(path) for word in _VOLATILE):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                yield f"{path}: {path.read_text()}"


def kill_all(pids: Sequence[int]) -> None:
    """SIGKILL all of `pids`."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    for pid in pids:
        commands.wait_for_exit(pid)
