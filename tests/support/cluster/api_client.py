"""Plain HTTPS to a desk's API server over lines that are kept.

A handshake costs both ends more than most requests do. A person has one line per desk, for
the main thread alone: nobody would hang up for a thread that ends. Whoever ends a cluster
hangs up, because the next one may listen at the same place with other certificates.
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

from windlass_dev.cluster.local_cluster import LocalCluster

Line: TypeAlias = http.client.HTTPSConnection
Request: TypeAlias = tuple[str, str, bytes | None, dict[str, str]]

ADMIN = "admin"

_contexts: dict[tuple[LocalCluster, str], ssl.SSLContext] = {}
_lines: dict[tuple[LocalCluster, str], Line] = {}


@dataclass(frozen=True)
class ApiResponse:
    """What the API server answered."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found


def request(
    desk: LocalCluster,
    name: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    content_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> ApiResponse:
    """What the API server of `desk` answers the person `name`."""
    content = None if body is None else json.dumps(body).encode()
    request = (method, path, content, {"Content-Type": content_type, **(headers or {})})
    if threading.current_thread() is not threading.main_thread():
        with contextlib.closing(_opened(desk, name)) as line:
            return _reply(line, request)
    line = _line(desk, name)
    was_open = line.sock is not None
    try:
        return _reply(line, request)
    except (OSError, http.client.HTTPException):
        # A server that started anew has hung up on every line of before.
        if not was_open:
            raise
        return _reply(line, request)


def close_connections(name: str) -> None:
    """Let go of all lines to the cluster of this name."""
    for key in [key for key in _lines if key[0].name == name]:
        _lines.pop(key).close()
    for key in [key for key in _contexts if key[0].name == name]:
        del _contexts[key]


def _reply(line: Line, request: Request) -> ApiResponse:
    try:
        line.request(*request)
        answer = line.getresponse()
        return ApiResponse(answer.status, answer.read().decode())
    except BaseException:
        line.close()
        raise


def _line(desk: LocalCluster, name: str) -> Line:
    if (desk, name) not in _lines:
        _lines[desk, name] = _opened(desk, name)
    return _lines[desk, name]


def _opened(desk: LocalCluster, name: str) -> Line:
    host = urlsplit(desk.server).netloc
    return http.client.HTTPSConnection(host, timeout=20, context=_context(desk, name))


def _context(desk: LocalCluster, name: str) -> ssl.SSLContext:
    if (desk, name) not in _contexts:
        _contexts[desk, name] = _made(desk, name)
    return _contexts[desk, name]


def _made(desk: LocalCluster, name: str) -> ssl.SSLContext:
    pair = desk.issue_client_pair(name, ("system:masters",) if name == ADMIN else ("dev",))
    context = ssl.create_default_context(cafile=str(desk.directory / "pki" / "ca.crt"))
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "crt").write_bytes(pair.certificate)
        (Path(place) / "key").write_bytes(pair.key)
        context.load_cert_chain(Path(place) / "crt", Path(place) / "key")
    return context
