"""HTTP requests to the servers of a local cluster, with nothing but the standard library.

It is not a Kubernetes client: it serves the time before one can connect, and the
few requests that starting a cluster takes.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_HEALTH_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
"""For requests that nobody repeats: a server on a busy machine is slow, not gone."""


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """A status, 0 when nobody answered, and the text that came with it."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class ApiProbe:
    """Asks the API server as the cluster's administrator."""

    def __init__(self, server: str, pki: Path) -> None:
        self._server = server
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def request(self, path: str, *, method: str = "GET", body: Any = None) -> ProbeResponse:
        return _request(self._server, path, method, body, self._context, seconds=_ANSWER_SECONDS)


def etcd_is_healthy(url: str) -> bool:
    """Whether the etcd at `url` can serve."""
    return '"true"' in _request(url, "/health", "GET", None, None).text


def server_is_healthy(url: str) -> bool:
    """Whether the server at `url` says that it is well."""
    return _request(url, "/healthz", "GET", None, None).ok


def node_is_ready(api: ApiProbe, name: str) -> bool:
    """Whether pods may run on the node `name`."""
    return _ready_condition(api.request(f"/api/v1/nodes/{name}")).get("status") == "True"


def node_problem(api: ApiProbe, name: str) -> str:
    """What the node `name` says about why it is not ready."""
    answer = api.request(f"/api/v1/nodes/{name}")
    if not answer.ok:
        return "its node has not been registered"
    return str(_ready_condition(answer).get("message", "its node says nothing of itself yet"))


def _ready_condition(answer: ProbeResponse) -> dict[str, Any]:
    conditions = json.loads(answer.text)["status"].get("conditions", []) if answer.ok else []
    return next((row for row in conditions if row["type"] == "Ready"), {})


def delete_etcd_prefix(url: str, prefix: str) -> None:
    """Delete all keys under `prefix`; an etcd that is gone has nothing left to forget."""
    first = prefix.rstrip("/").encode() + b"/"
    end = first[:-1] + bytes([first[-1] + 1])
    body = {"key": _encode_base64(first), "range_end": _encode_base64(end)}
    _request(url, "/v3/kv/deleterange", "POST", body, None, seconds=_ANSWER_SECONDS)


def _request(
    url: str,
    path: str,
    method: str,
    body: Any,
    context: ssl.SSLContext | None,
    *,
    seconds: float = _HEALTH_SECONDS,
) -> ProbeResponse:
    host = urlsplit(url).netloc
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection(host, timeout=seconds)
    else:
        connection = http.client.HTTPSConnection(host, timeout=seconds, context=context)
    content = None if body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return ProbeResponse(response.status, response.read().decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException) as fault:
        return ProbeResponse(0, str(fault))
    finally:
        connection.close()


def _encode_base64(text: bytes) -> str:
    return base64.b64encode(text).decode("ascii")
