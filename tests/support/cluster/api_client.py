"""Plain HTTPS to the API server of a local cluster over connections that are kept.

A handshake costs both ends more than most requests do. A user has one connection per cluster, for
the main thread alone: the connection of a thread that ends would stay open. Stopping a cluster
closes them, because the next one may listen on the same port with other certificates.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from tests.support.processes.polling import DEADLINE_SECONDS
from windlass_dev.cluster.local_cluster import LocalCluster

Connection: TypeAlias = http.client.HTTPSConnection
Request: TypeAlias = tuple[str, str, bytes | None, dict[str, str]]

ADMIN = "admin"

_contexts: dict[tuple[LocalCluster, str], ssl.SSLContext] = {}
_connections: dict[tuple[LocalCluster, str], Connection] = {}


@dataclass(frozen=True)
class ApiResponse:
    """A response of the API server."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def object(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.text)
        return parsed


def request(
    cluster: LocalCluster,
    name: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    content_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> ApiResponse:
    """The response of the API server of `cluster` to the user `name`."""
    content = None if body is None else json.dumps(body).encode()
    request = (method, path, content, {"Content-Type": content_type, **(headers or {})})
    if threading.current_thread() is not threading.main_thread():
        with contextlib.closing(_open_connection(cluster, name)) as connection:
            return _reply(connection, request)
    connection = _connection(cluster, name)
    was_open = connection.sock is not None
    try:
        return _reply(connection, request)
    except (OSError, http.client.HTTPException):
        # A restarted server has closed every earlier connection.
        if not was_open:
            raise
        return _reply(connection, request)


def close_connections(name: str) -> None:
    """Close all connections to the cluster of this name."""
    for key in [key for key in _connections if key[0].name == name]:
        _connections.pop(key).close()
    for key in [key for key in _contexts if key[0].name == name]:
        del _contexts[key]


def _reply(connection: Connection, request: Request) -> ApiResponse:
    try:
        connection.request(*request)
        response = connection.getresponse()
        return ApiResponse(response.status, response.read().decode())
    except BaseException:
        connection.close()
        raise


def _connection(cluster: LocalCluster, name: str) -> Connection:
    if (cluster, name) not in _connections:
        _connections[cluster, name] = _open_connection(cluster, name)
    return _connections[cluster, name]


def _open_connection(cluster: LocalCluster, name: str) -> Connection:
    host = urlsplit(cluster.server).netloc
    return http.client.HTTPSConnection(
        host, timeout=DEADLINE_SECONDS, context=_context(cluster, name)
    )


def _context(cluster: LocalCluster, name: str) -> ssl.SSLContext:
    if (cluster, name) not in _contexts:
        _contexts[cluster, name] = _create_context(cluster, name)
    return _contexts[cluster, name]


def _create_context(cluster: LocalCluster, name: str) -> ssl.SSLContext:
    pair = cluster.issue_client_pair(name, ("system:masters",) if name == ADMIN else ("dev",))
    context = ssl.create_default_context(cafile=str(cluster.directory / "pki" / "ca.crt"))
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "crt").write_bytes(pair.certificate)
        (Path(directory) / "key").write_bytes(pair.key)
        context.load_cert_chain(Path(directory) / "crt", Path(directory) / "key")
    return context
