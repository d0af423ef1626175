"""Forged AdmissionReviews, and connections that only use up descriptors.

The forger knows all that a review says, and the address of the webhook: whoever may read
ValidatingWebhookConfigurations knows that.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.support.processes.operator import eventually
from windlass.api.install.installation import Installation
from windlass.objects.names import GVR
from windlass_dev.cluster.local_cluster import LocalCluster

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def webhook_url(cluster: LocalCluster) -> str:
    """The URL that the API server calls, from the webhook configuration."""
    response = cluster.api.request(f"{_CONFIGURATIONS}/{Installation().webhook_configuration}")
    assert response.ok, response
    url: str = json.loads(response.text)["webhooks"][0]["clientConfig"]["url"]
    return url


def admission_review(
    user: str,
    gvr: GVR,
    old: dict[str, Any] | None,
    new: dict[str, Any] | None,
    *,
    namespace: str | None = None,
    subresource: str = "",
) -> bytes:
    """A review that says `user` turns `old` into `new`; without one of them, makes or deletes."""
    known = new or old
    assert known is not None, "a review has an object"
    operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
    request = {
        "uid": str(uuid.uuid4()),
        "operation": operation,
        "resource": {"group": gvr.group, "version": gvr.version, "resource": gvr.resource},
        "subResource": subresource,
        "namespace": known["metadata"].get("namespace", "") if namespace is None else namespace,
        "name": known["metadata"]["name"],
        "userInfo": {"username": user},
        "object": new,
        "oldObject": old,
    }
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps(envelope | {"request": request}).encode()


def post_review(url: str, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to a review that anybody on the network may send."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPSConnection(
        parts.hostname, parts.port, timeout=20, context=_unverified_context()
    )
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", parts.path or "/", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def submit_forged_review(
    cluster: LocalCluster, user: str, gvr: GVR, *objects: Any, **given: Any
) -> None:
    """Send the operator's webhook a forged review that names `user`."""
    status, answer = post_review(
        webhook_url(cluster), admission_review(user, gvr, *objects, **given)
    )
    assert (status, b'"allowed":true' in answer) == (200, True), (status, answer)


@contextmanager
def simultaneous_reviews(url: str, body: bytes, *, count: int) -> Iterator[None]:
    """`count` reviews that the webhook has received all at once; their answers are not read."""
    parts, context = urlsplit(url), _unverified_context()
    assert parts.hostname is not None
    assert parts.port is not None
    head = f"POST {parts.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            plain = socket.create_connection((parts.hostname, parts.port), timeout=20)
            connection = stack.enter_context(context.wrap_socket(plain))
            # Without a head the server closes it while the others are still opened.
            connection.sendall(head.encode())
            connections.append(connection)
        for connection in connections:
            connection.sendall(body[:-1])
        for connection in connections:
            connection.sendall(body[-1:])
        yield


@contextmanager
def open_connections(url: str, count: int) -> Iterator[None]:
    """`count` connections without a TLS handshake."""
    parts = urlsplit(url)
    with ExitStack() as stack:
        for _ in range(count):
            address = (parts.hostname, parts.port)
            stack.enter_context(socket.create_connection(address, timeout=10))  # type: ignore[arg-type]
        yield


@contextmanager
def idle_connections(url: str, count: int) -> Iterator[None]:
    """`count` connections that are idle after the TLS handshake.

    A busy server may close one before its handshake is done; another takes its place.
    """
    with ExitStack() as stack:
        for _ in range(count):
            opened = eventually(lambda: _open_idle_connection(url), "an idle connection")
            stack.enter_context(opened)
        yield


def _open_idle_connection(url: str) -> ssl.SSLSocket | None:
    """A connection after the TLS handshake; None if the server ended it before."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    try:
        plain = socket.create_connection((parts.hostname, parts.port), timeout=10)
        # It closes the plain one where the handshake fails.
        return _unverified_context().wrap_socket(plain)
    except OSError:
        return None


def _unverified_context() -> ssl.SSLContext:
    return ssl._create_unverified_context()  # noqa: S323 - a forger does not care
