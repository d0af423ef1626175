"""The webhook configuration on a real API server: which requests it sends, and which not."""

from __future__ import annotations

import functools
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.integration.api.server import Server
from tests.support.processes.operator import eventually
from windlass.api.install import webhook
from windlass.api.install.installation import Installation

pytestmark = pytest.mark.cluster

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Listener:
    """Allows everything and records the requests."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.ca = authority.cert_pem.bytes()
        self.paths: set[str] = set()
        self.requests: list[dict[str, Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    def received(self, namespace: str) -> set[tuple[str, str, str, str]]:
        return {
            (
                request["operation"],
                request["resource"]["resource"],
                request.get("subResource", ""),
                request["name"],
            )
            for request in list(self.requests)
            if request.get("namespace") == namespace
        }

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(listener: Listener) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            listener.paths.add(self.path.partition("?")[0])
            listener.requests.append(review["request"])
            answer = {"uid": review["request"]["uid"], "allowed": True}
            body = json.dumps({k: review[k] for k in ("apiVersion", "kind")} | {"response": answer})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    return Handler


@pytest.fixture
def listener(server: Server, namespace: str, tmp_path: Path) -> Iterator[Listener]:
    """A listener that the API server already calls."""
    opened = Listener(tmp_path)
    install = f"{namespace}-i"
    document = webhook.webhook_configuration(f"w-{namespace}", install, opened.ca, opened.url)
    document["webhooks"][0]["timeoutSeconds"] = 30  # which requests are sent, not how fast
    name = document["metadata"]["name"]
    try:
        for created in (server.create(_named("Namespace", install)), server.create(document)):
            assert created.accepted, created.message
        called = functools.partial(_is_called, opened, server, namespace)
        eventually(called, "a call of the webhook")
        yield opened
    finally:
        server.delete(f"{HOOKS}/{name}")
        opened.close()


def _is_called(listener: Listener, server: Server, namespace: str) -> bool:
    server.create(_named("ConfigMap", "probe"), namespace)
    server.delete(f"/api/v1/namespaces/{namespace}/configmaps/probe")
    return bool(listener.received(namespace))


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "example.com/c"}]},
        },
    },
}


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod"},
    "spec": {"containers": [{"name": "c", "image": "example.com/c"}]},
}
DEBUGGER = {"name": "d", "image": "example.com/d", "targetContainerName": "c"}


def test_subresources_are_sent_where_they_change_what_is_mirrored(
    listener: Listener, server: Server, namespace: str
) -> None:
    """Each field of the metadata that a status carries counts; a status alone is not sent."""
    pod, created = f"/api/v1/namespaces/{namespace}/pods/pod", f"/api/v1/namespaces/{namespace}"
    eventually(lambda: server.create(POD, namespace).status in {201, 409}, "a pod")
    owner = server.create(_named("ConfigMap", "owner"), namespace).body["metadata"]
    service = {"spec": {"ports": [{"port": 80}]}} | _named("Service", "service")
    assert server.create(service, namespace).accepted
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    changes = [
        (pod, {"status": {"phase": "Running"}}, False),
        (pod, {"metadata": {"annotations": {"example.org/a": "1"}}}, True),
        # More than most objects have: a condition that costs too much leaves its request out.
        (
            pod,
            {"metadata": {"annotations": {f"example.org/{n}": "1" * 50 for n in range(2500)}}},
            True,
        ),
        (pod, {"metadata": {"labels": {"a": "1"}}}, True),
        (pod, {"metadata": {"finalizers": ["example.org/f"]}}, True),
        (f"{created}/services/service", {"metadata": {"ownerReferences": [owned]}}, True),
        (pod, {"status": {"phase": "Pending"}}, False),
    ]
    for path, change, is_sent in changes:
        before = len(listener.requests)
        changed = server.merge(f"{path}/status", change)
        assert changed.accepted, changed.message
        requests = [one for one in listener.requests[before:] if one.get("namespace") == namespace]
        through = [one.get("subResource") for one in requests]
        assert ("status" in through) is is_sent, change
    debugged = server.merge(
        f"{pod}/ephemeralcontainers", {"spec": {"ephemeralContainers": [DEBUGGER]}}
    )
    assert debugged.accepted, debugged.message
    assert ("UPDATE", "pods", "ephemeralcontainers", "pod") in listener.received(namespace)
    before = len(listener.requests)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "pod"}}
    evicted = server.post(f"{pod}/eviction", eviction)
    assert evicted.accepted, evicted.message
    assert not [one for one in listener.requests[before:] if one.get("name") == "pod"]


def test_writes_of_people_are_sent_and_noise_is_not(
    listener: Listener, server: Server, kubectl: Any, namespace: str
) -> None:
    """Creation, change, scaling and deletion arrive; status, dry runs, leases and nodes do not."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}
    event = _named("Event", "noise") | {
        "involvedObject": {"kind": "Deployment", "name": "web", "namespace": namespace}
    }
    web = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    for done in (
        server.create(DEPLOYMENT, namespace),
        server.merge(f"{web}/scale", {"spec": {"replicas": 1}}),
        server.merge(f"{web}/status", {"status": {"collisionCount": 7}}),
        server.create(_named("ConfigMap", "dry"), namespace, dry=True),
        server.create(lease | {"metadata": {"name": "beat"}}, namespace),
        server.create(event, namespace),
        server.create(_named("ConfigMap", "inside"), f"{namespace}-i"),
        server.create(_named("ConfigMap", "last"), namespace),
        server.delete(f"/api/v1/namespaces/{namespace}/configmaps/last"),
    ):
        assert done.accepted, done.message
    # kubectl, because plain requests here play a user without groups.
    node = ("--as=system:node:n1", "--as-group=system:nodes", "--as-group=system:masters")
    by_node = kubectl("create", "-n", namespace, "configmap", "by-node", *node)
    assert by_node.returncode == 0, by_node.stderr

    received = listener.received(namespace)
    assert ("CREATE", "deployments", "", "web") in received
    assert ("UPDATE", "deployments", "scale", "web") in received
    assert ("CREATE", "configmaps", "", "last") in received
    assert ("DELETE", "configmaps", "", "last") in received
    names = {name for _, _, _, name in received}
    assert names.isdisjoint({"dry", "beat", "noise", "by-node"})
    through = {(operation, resource) for operation, resource, sub, _ in received if sub == "status"}
    # The controller notes the revision of a Deployment in an annotation, through its status.
    assert through <= {("UPDATE", "deployments")}
    assert listener.received(f"{namespace}-i") == set()
    assert listener.paths == {"/"}


def test_the_service_form_is_valid(server: Server, dry: str) -> None:
    """The configuration for a cluster, without certificate yet, is accepted as shipped.

    With what the API server adds to it, it still covers what is declared.
    """
    document = webhook.webhook_configuration(f"w-{dry}", dry, b"", None)
    leader = webhook.leader_service(f"w-{dry}", dry)
    for shipped in (document, leader):
        done = server.create(shipped, dry=True)
        assert done.accepted, done.message
    (hook,) = server.create(document, dry=True).body["webhooks"]
    assert hook.keys() > document["webhooks"][0].keys()
    assert webhook.covers_declared(hook, Installation(f"w-{dry}", dry), ())
