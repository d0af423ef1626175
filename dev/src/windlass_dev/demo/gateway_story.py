"""Second story of the demo: a push appears on a gateway, which scans it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.demo.demo_cluster import DemoCluster, indent, wait_for
from windlass_dev.mock_gateway import gateway_pod
from windlass_dev.mock_gateway.gateway_pod import GatewayPod
from windlass_dev.node import windlass_container
from windlass_dev.progress import ProgressReporter

TITLE = "A push is synced to a gateway and scanned"

_REPOSITORY = "plant"
_SITE = "site-1"
_TOKEN = "ci:not-so-secret"  # noqa: S105 - the mock gateway's, on a local cluster
_REQUESTED_AT = "windlass.dev/requestedAt"
_VIEW = "services/site/projects/line/com.inductiveautomation.perspective/views/Overview"
_VIEW_ON_GATEWAY = (
    "/data/projects/line/com.inductiveautomation.perspective/views/Overview/view.json"
)
_OBJECTS = """
apiVersion: v1
kind: Namespace
metadata: {{name: site-1}}
---
apiVersion: v1
kind: Secret
metadata: {{name: plant-git, namespace: site-1}}
stringData: {{username: git, token: "{password}"}}
---
apiVersion: v1
kind: Secret
metadata: {{name: ignition-api, namespace: site-1}}
stringData: {{apiKey: "{token}"}}
---
apiVersion: sync.ignition.io/v1alpha1
kind: IgnitionSync
metadata: {{name: site, namespace: site-1}}
spec:
  git:
    repo: {url}
    ref: main
    auth: {{token: {{secretRef: {{name: plant-git, key: token}}}}}}
  polling: {{interval: 5s}}
  gateway: {{port: 8088, tls: false, apiKeySecretRef: {{name: ignition-api, key: apiKey}}}}
  normalize: {{systemName: true}}
"""


def prepare(demo: DemoCluster) -> None:
    """Create a gateway pod with its agent on a first commit; do not wait for it."""
    if not demo.has_node:
        return
    demo.kubectl("delete", "namespace", _SITE, "--ignore-not-found")
    demo.commit(_REPOSITORY, "Add the overview", _files("Line 1"))
    windlass_container.load_image(demo.cluster)
    demo.kubectl("apply", "-f", "-", stdin=_objects(demo))
    demo.kubectl("apply", "-f", "-", stdin=json.dumps(_pod(demo)))


def play(demo: DemoCluster, progress: ProgressReporter, echo: Callable[[str], None]) -> bool:
    """Play the story; return whether everything it promises was observed."""
    if not demo.has_node:
        echo(f"(skipped: a gateway runs in a pod, which requires a node: {demo.no_node})")
        return True
    echo("\n$ kubectl -n site-1 apply -f ignitionsync.yaml   # sync branch main to the gateway")
    with progress.step("waiting for the gateway pod and its agent, started during the first story"):
        pod = "pod/area-1"
        demo.kubectl("wait", "--for=condition=Ready", pod, "-n", _SITE, "--timeout=120s")
    try:
        first = demo.git_log(_REPOSITORY, "-1", "--format=%H", "main").strip()
        _wait_for_commit(demo, first, "Line 1")
        echo("  on disk before the gateway started, and reported:")
        first_shown = _show_gateway(demo, echo)
        second = demo.commit(_REPOSITORY, "Rename the line", _files("Bottling"))
        echo(f"\n$ git push   # {second[:8]} Rename the line")
        _request_sync(demo, echo)
        on_disk, reported = _wait_for_commit(demo, second, "Bottling")
        echo(f"  on disk after {on_disk:.1f} s, scanned and reported after {reported:.1f} s:")
        return first_shown and _show_gateway(demo, echo)
    except WindlassError as error:
        echo(f"  NOT OBSERVED: {error.message}")
        return False


def _request_sync(demo: DemoCluster, echo: Callable[[str], None]) -> None:
    """Request a sync by annotation, as a pipeline would after a push."""
    command = ("annotate", "ignitionsync", "site", "-n", _SITE, "--overwrite")
    annotation = f"{_REQUESTED_AT}={datetime.now(UTC).isoformat(timespec='seconds')}"
    echo(f"$ kubectl {' '.join(command)} {annotation}   # optional: do not wait for the next poll")
    demo.kubectl(*command, annotation)


def _files(title: str) -> dict[str, str]:
    view = json.dumps({"root": {"type": "ia.display.label", "props": {"text": title}}}, indent=2)
    resource = {"scope": "G", "version": 1, "files": ["view.json"], "attributes": {}}
    properties = {"systemName": "template", "systemUID": "0"}
    core = "services/site/config/resources/core"
    singleton = f"{core}/ignition/system-properties"
    return {
        "services/site/projects/line/project.json": _json({"title": "line", "enabled": True}),
        f"{_VIEW}/view.json": view + "\n",
        f"{_VIEW}/resource.json": _json(resource),
        f"{core}/config-mode.json": _json({"title": "core", "enabled": True}),
        f"{singleton}/config.json": _json(properties),
        f"{singleton}/resource.json": _json({**resource, "files": ["config.json"]}),
    }


def _json(value: Object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _objects(demo: DemoCluster) -> str:
    password = demo.password_file.read_text()
    return _OBJECTS.format(url=demo.url(_REPOSITORY), password=password, token=_TOKEN)


def _pod(demo: DemoCluster) -> Object:
    return GatewayPod(
        name="area-1",
        namespace=_SITE,
        sync="site",
        service_path="services/site",
        api_key_secret="ignition-api",  # noqa: S106 - a name
        git_secret="plant-git",  # noqa: S106 - a name
        git_host=demo.cluster.host,
    ).manifest()


def _wait_for_commit(demo: DemoCluster, commit: str, title: str) -> tuple[float, float]:
    """Wait for a commit; return the seconds until it was on disk, and until it was reported."""
    started = time.monotonic()
    wait_for(lambda: title in _read_view(demo), f"{title!r} on the gateway's disk", seconds=120.0)
    on_disk = time.monotonic() - started
    wait_for(lambda: _is_synced(demo, commit), f"status of commit {commit[:8]}", seconds=60.0)
    return on_disk, time.monotonic() - started


def _show_gateway(demo: DemoCluster, echo: Callable[[str], None]) -> bool:
    """Print file, scans and status; return whether the gateway had no torn reads."""
    echo(indent(_read_view(demo)))
    scans, torn = _query_gateway(demo, "/posts"), _count_torn_reads(demo)
    echo(f"  scans received by the gateway: {json.dumps(scans)}, torn reads: {torn}")
    echo(indent(demo.kubectl("get", "ignitionsync", "-n", _SITE)))
    return not torn


def _read_view(demo: DemoCluster) -> str:
    return _exec_in_gateway(demo, "cat", _VIEW_ON_GATEWAY)


def _is_synced(demo: DemoCluster, commit: str) -> bool:
    ignition_sync = demo.get(
        f"/apis/sync.ignition.io/v1alpha1/namespaces/{_SITE}/ignitionsyncs/site"
    )
    status = ignition_sync.get("status") or {}
    ready = any(
        row["type"] == "Ready" and row["status"] == "True" for row in status.get("conditions") or []
    )
    return ready and status.get("lastSyncCommit") == commit


def _count_torn_reads(demo: DemoCluster) -> int:
    """The number of torn reads of the gateway."""
    return len(_query_gateway(demo, "/torn"))


def _query_gateway(demo: DemoCluster, path: str) -> Object:
    """The document at `path` of the gateway's control port; retried while there is no response."""
    url = f"http://127.0.0.1:{gateway_pod.CONTROL_PORT}{path}"
    script = f"import urllib.request as u;print(u.urlopen({url!r}).read().decode())"
    python = str(Path(sys.prefix) / "bin" / "python")
    output = wait_for(
        lambda: _exec_in_gateway(demo, python, "-c", script), f"a response of the gateway to {path}"
    )
    answer: Object = json.loads(output)
    return answer


def _exec_in_gateway(demo: DemoCluster, *command: str) -> str:
    """The output of a command in the gateway's container; empty if it fails."""
    container = ("-c", gateway_pod.GATEWAY_CONTAINER)
    try:
        return demo.kubectl("exec", "-n", _SITE, "area-1", *container, "--", *command)
    except WindlassError:
        return ""
