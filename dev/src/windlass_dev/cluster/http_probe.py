"""HTTP requests to the servers of a local cluster, by the standard library alone.

This is not a Kubernetes client: it serves the readiness checks, before a client could
connect, and the few requests that starting a cluster takes. A server that does not answer
is a response with status 0, never an exception.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_HEALTH_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
"""For requests that are not repeated: a server on a busy machine is slow, not gone."""


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """The status of a response, 0 if there was none, and its body or the error."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class ApiProbe:
    """Sends requests to the API server as the cluster's administrator."""

    def __init__(self, server: str, pki: Path) -> None:
        self._server = server
        self._context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._context.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def request(self, path: str, *, method: str = "GET", body: Any = None) -> ProbeResponse:
        """Send one request; `body` is encoded as JSON."""
        return _request(self._server, path, method, body, self._context, seconds=_ANSWER_SECONDS)


def get(url: str, path: str) -> ProbeResponse:
    """The response of the server at `url`, without TLS and without a proxy."""
    return _request(url, path, "GET", None, None)


def etcd_is_healthy(url: str) -> bool:
    """Whether the etcd at `url` can serve."""
    return '"true"' in get(url, "/health").text


def node_is_ready(api: ApiProbe, name: str, since: str) -> bool:
    """Whether the node `name` was reported Ready at the time `since` or later, if that is given."""
    ready = _ready_condition(api.request(f"/api/v1/nodes/{name}"))
    if ready.get("status") != "True" or not since:
        return ready.get("status") == "True"
    reported_at = datetime.fromisoformat(ready["lastHeartbeatTime"])
    return reported_at >= datetime.fromisoformat(since)


def node_problem(api: ApiProbe, name: str) -> str:
    """The message of the Ready condition of the node `name`."""
    response = api.request(f"/api/v1/nodes/{name}")
    if not response.ok:
        return "the node is not registered"
    return str(
        _ready_condition(response).get("message", "the node has not reported a Ready condition")
    )


def _ready_condition(response: ProbeResponse) -> dict[str, Any]:
    conditions = json.loads(response.text)["status"].get("conditions", []) if response.ok else []
    return next((row for row in conditions if row["type"] == "Ready"), {})


def delete_etcd_prefix(url: str, prefix: str) -> None:
    """Delete all keys under `prefix`; an etcd that does not answer is ignored."""
    first = prefix.rstrip("/").encode() + b"/"
    # The range ends before the first key that is no longer under the prefix.
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
