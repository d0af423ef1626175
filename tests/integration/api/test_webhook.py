"""The webhook configuration on a real API server: which requests it sends, which it keeps."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from windlass.api import webhook

pytestmark = pytest.mark.cluster


class Listener:
    """Allows everything and remembers what it was asked."""

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

    def seen(self, namespace: str) -> set[tuple[str, str, str, str]]:
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
def listener(kubectl: Any, namespace: str, tmp_path: Path) -> Iterator[Listener]:
    """A listener that the API server already calls."""
    opened = Listener(tmp_path)
    install = f"{namespace}-i"
    assert kubectl("create", "namespace", install).returncode == 0
    document = webhook.document(f"w-{namespace}", install, opened.ca, opened.url)
    name = document["metadata"]["name"]
    try:
        done = kubectl("apply", "-f", "-", stdin=json.dumps(document))
        assert done.returncode == 0, done.stderr
        _until_called(opened, kubectl, namespace)
        yield opened
    finally:
        kubectl("delete", "validatingwebhookconfiguration", name)
        kubectl("delete", "namespace", install, "--wait=false")
        opened.close()


def _until_called(listener: Listener, kubectl: Any, namespace: str) -> None:
    deadline = time.monotonic() + 30
    while not listener.seen(namespace):
        assert time.monotonic() < deadline, "the API server never called the webhook"
        kubectl("annotate", "--overwrite", "serviceaccount/default", "-n", namespace, "x/y=1")
        kubectl("annotate", "serviceaccount/default", "-n", namespace, "x/y-")
        kubectl("create", "configmap", "probe", "-n", namespace)
        kubectl("delete", "configmap", "probe", "-n", namespace)


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


def test_writes_of_people_are_sent_and_noise_is_not(
    listener: Listener, kubectl: Any, namespace: str
) -> None:
    """Creation, change, scaling and deletion arrive; status, dry runs, leases and nodes do not."""
    here = ("-n", namespace)

    def must(*args: str, stdin: str = "") -> None:
        done = kubectl(*args, stdin=stdin)
        assert done.returncode == 0, done.stderr

    must("create", *here, "-f", "-", stdin=json.dumps(DEPLOYMENT))
    must("scale", *here, "deployment/web", "--replicas=1")
    ready = json.dumps({"status": {"collisionCount": 7}})
    must("patch", *here, "deployment", "web", "--subresource=status", "--type=merge", "-p", ready)
    must("create", *here, "configmap", "dry", "--dry-run=server")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "beat"},
        "spec": {},
    }
    must("create", *here, "-f", "-", stdin=json.dumps(lease))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "noise"},
        "involvedObject": {"kind": "Deployment", "name": "web", "namespace": namespace},
    }
    must("create", *here, "-f", "-", stdin=json.dumps(event))
    node = ("--as=system:node:n1", "--as-group=system:nodes", "--as-group=system:masters")
    must("create", *here, "configmap", "by-node", *node)
    must("create", "configmap", "inside", "-n", f"{namespace}-i")
    must("create", *here, "configmap", "last")
    must("delete", *here, "configmap", "last")

    seen = listener.seen(namespace)
    assert ("CREATE", "deployments", "", "web") in seen
    assert ("UPDATE", "deployments", "scale", "web") in seen
    assert ("CREATE", "configmaps", "", "last") in seen
    assert ("DELETE", "configmaps", "", "last") in seen
    names = {name for _, _, _, name in seen}
    assert names.isdisjoint({"dry", "beat", "noise", "by-node"})
    assert all(subresource in {"", "scale"} for _, _, subresource, _ in seen)
    assert listener.seen(f"{namespace}-i") == set()
    assert listener.paths == {webhook.PATH}


def test_the_service_form_is_valid(kubectl: Any, namespace: str) -> None:
    """The configuration for a cluster, without certificate yet, is accepted as it is shipped."""
    document = webhook.document(f"w-{namespace}", namespace, b"", None)
    leader = webhook.service(f"w-{namespace}", namespace)
    for shipped in (document, leader):
        done = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(shipped))
        assert done.returncode == 0, done.stderr
