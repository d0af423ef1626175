"""Sockets in the network namespace of a pod: what they send is what the pod sends.

A socket stays in the network it was made in, whichever thread uses it later.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster import node as nodes
from tests.support.processes.operator import eventually
from tests.support.processes.polling import DEADLINE_SECONDS
from windlass_dev.cluster.local_cluster import LocalCluster

_CLONE_NEWNET = 0x40000000
_PATIENCE_SECONDS = 0.6


@dataclass(frozen=True)
class PodNetwork:
    """The network of one pod."""

    name: str
    address: str
    file: Path

    def reaches(self, address: str, port: int, protocol: str = "TCP") -> bool:
        """Whether a server at `address` responds."""
        if protocol == "UDP":
            return self._is_echoed(address, port)
        with self.socket(socket.SOCK_STREAM) as caller:
            caller.settimeout(_PATIENCE_SECONDS)
            try:
                caller.connect((address, port))
            except TimeoutError:
                return False
            return True

    def _is_echoed(self, address: str, port: int) -> bool:
        with self.socket(socket.SOCK_DGRAM) as caller:
            caller.settimeout(_PATIENCE_SECONDS)
            try:
                caller.sendto(b"anybody?", (address, port))
                return caller.recv(64) == b"anybody?"
            # The sender of a packet that our own filter dropped gets an error, or a timeout.
            except (TimeoutError, PermissionError):
                return False

    def socket(self, kind: socket.SocketKind) -> socket.socket:
        """A socket in this network."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            return pool.submit(_create_socket, self.file, kind).result()

    @contextlib.contextmanager
    def listening(self, *ports: int) -> Iterator[None]:
        """Accept connections to `ports`, which the kernel does by itself."""
        with contextlib.ExitStack() as stack:
            for port in ports:
                listener = stack.enter_context(self.socket(socket.SOCK_STREAM))
                listener.bind(("", port))
                listener.listen(512)
            yield

    @contextlib.contextmanager
    def echoing(self, port: int) -> Iterator[None]:
        """Send every datagram back."""
        with self.socket(socket.SOCK_DGRAM) as server:
            server.bind(("", port))
            thread = threading.Thread(target=_echo, args=(server,))
            thread.start()
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)
                thread.join(DEADLINE_SECONDS)


def run_pod(cluster: LocalCluster, namespace: str, name: str, **changes: Any) -> PodNetwork:
    """Run a pod that only waits, with labels or ports of its own; returns its network."""
    body = nodes.pod(name, changes.get("script", "sleep 3600"))
    body["metadata"]["labels"] = changes.get("labels", {})
    body["spec"]["containers"][0]["ports"] = changes.get("ports", [])
    path = f"/api/v1/namespaces/{namespace}/pods"
    response = cluster.api.request(path, method="POST", body=body)
    assert response.ok, response
    return network_of_pod(cluster, namespace, name)


def network_of_pod(cluster: LocalCluster, namespace: str, name: str) -> PodNetwork:
    """The network of a pod, once it runs."""

    def running_pod() -> dict[str, Any] | None:
        pod: dict[str, Any] = json.loads(
            cluster.api.request(f"/api/v1/namespaces/{namespace}/pods/{name}").text
        )
        runs = pod.get("status", {}).get("phase") == "Running"
        return pod if runs and pod["status"].get("podIP") else None

    pod = eventually(running_pod, f"pod {name} running", seconds=60)
    assert pod
    return PodNetwork(name, pod["status"]["podIP"], _file(pod["metadata"]["uid"]))


def pod_processes(uid: str, *, running: str = "") -> list[int]:
    """The processes of a pod; with `running` those of that program."""
    pids: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"pod{uid}" in (entry / "cgroup").read_text():
                program = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
                if not running or Path(program).name == running:
                    pids.append(int(entry.name))
    return pids


def _file(uid: str) -> Path:
    """The network of the process that lives as long as its pod."""
    waiting = eventually(lambda: pod_processes(uid, running="pause"), f"the sandbox of {uid}")
    return Path(f"/proc/{waiting[0]}/ns/net")


def _create_socket(file: Path, kind: socket.SocketKind) -> socket.socket:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        assert library.setns(descriptor, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(descriptor)
    return socket.socket(socket.AF_INET, kind)


def _echo(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            data, sender = server.recvfrom(64)
            if not data:
                return
            server.sendto(data, sender)
