"""Webhooks beside the operator's own: hosted in a thread, registered for a while.

What they may touch is narrowed by match conditions, so that no other test is disturbed.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.processes.server_loop import server_loop
from windlass.api.install import webhook
from windlass.objects.names import Object
from windlass.web import admission
from windlass.web.admission import AdmissionRequest
from windlass.web.certificates import Authority
from windlass.web.server import Server
from windlass.web.tls import Tls
from windlass_dev.cluster.local_cluster import LocalCluster

REFUSED = "refused by the other webhook"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@dataclass(frozen=True)
class RunningWebhook:
    """A listening webhook and the authority that signed its certificate."""

    url: str
    authority: bytes


class RejectingApp:
    """Refuses admission requests if `refuses` returns true, and allows all others."""

    def __init__(self, refuses: Callable[[AdmissionRequest], bool]) -> None:
        self.asked = 0
        self.refused = 0
        self._refuses = refuses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = admission.parse(await _body(receive))
        answer = admission.allow(request.uid)
        if self._refuses(request):
            answer = _refusal(request.uid)
            self.refused += 1
        self.asked += 1
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class EveryTenth:
    """Picks one call in ten of each type; which ones depends on the type's name alone."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    def __call__(self, request: AdmissionRequest) -> bool:
        kind = f"{request.gvr.group}/{request.gvr.resource}"
        self._calls[kind] += 1
        return (self._calls[kind] + zlib.crc32(kind.encode())) % 10 == 0


def webhook_identity() -> tuple[bytes, Tls]:
    """A fresh authority's certificate, and a server's TLS side signed by it."""
    now = datetime.now(UTC)
    authority = Authority.create("a webhook under test", now, 1)
    leaf = authority.issue((), ("127.0.0.1",), now, 1)
    return authority.cert_pem, Tls(leaf.cert_pem, leaf.key_pem)


@contextlib.contextmanager
def running_webhook(app: ASGIApp) -> Iterator[RunningWebhook]:
    """`app` behind TLS on loopback, in a thread of its own."""
    authority, tls = webhook_identity()
    server = Server(app, tls=tls)
    with server_loop() as running:
        running.run(server.start())
        try:
            yield RunningWebhook(f"https://127.0.0.1:{server.port}", authority)
        finally:
            running.run(server.stop())


@contextlib.contextmanager
def registered_webhook(
    cluster: LocalCluster,
    name: str,
    running: RunningWebhook,
    *conditions: str,
    dry_runs: bool = False,
) -> Iterator[None]:
    """Register `running` like the operator's webhook, but only where `conditions` hold.

    The deadline is longer than the operator's: these tests are about who, not how fast.
    `dry_runs` has it asked about those as well.
    """
    document = webhook.webhook_configuration(name, "nowhere", running.authority, running.url)
    hook = document["webhooks"][0]
    hook["timeoutSeconds"] = 10
    if dry_runs:
        hook["matchConditions"] = []
    hook["matchConditions"] += [
        {"name": f"ours-{number}", "expression": text} for number, text in enumerate(conditions)
    ]
    response = cluster.api.request(_CONFIGURATIONS, method="POST", body=document)
    assert response.ok, response
    try:
        yield
    finally:
        cluster.api.request(f"{_CONFIGURATIONS}/{document['metadata']['name']}", method="DELETE")


def _refusal(uid: str) -> bytes:
    status: Object = {"code": 403, "message": REFUSED}
    response = {"uid": uid, "allowed": False, "status": status}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return json.dumps(review).encode()


async def _body(receive: Receive) -> bytes:
    chunks, more = [], True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)
