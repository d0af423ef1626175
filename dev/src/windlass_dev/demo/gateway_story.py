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

TITLE = "A push appears on a gateway, which scans it"

_REPOSITORY = "plant"
_SITE = "site-1"
_TOKEN = "ci:not-so-secret"  # noqa: S105 - the mock gateway's, at the desk
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


def prepare(ground: DemoCluster) -> None:
    """Begin to start a gateway with its agent on a first commit."""
    if not ground.has_node:
        return
    ground.kubectl("delete", "namespace", _SITE, "--ignore-not-found")
    ground.commit(_REPOSITORY, "Show the line", _files("Line 1"))
    windlass_container.load_image(ground.cluster)
    ground.kubectl("apply", "-f", "-", stdin=_objects(ground))
    ground.kubectl("apply", "-f", "-", stdin=json.dumps(_pod(ground)))


def play(ground: DemoCluster, progress: ProgressReporter, tell: Callable[[str], None]) -> bool:
    """Tell the story; whether everything that was promised was seen."""
    if not ground.has_node:
        tell(f"(left out: a gateway needs a pod, and there is no node: {ground.no_node})")
        return True
    tell("\n$ kubectl -n site-1 apply -f ignitionsync.yaml   # beside the first story: follow main")
    with progress.step("waiting for the gateway and its agent, begun beside the first story"):
        pod = "pod/area-1"
        ground.kubectl("wait", "--for=condition=Ready", pod, "-n", _SITE, "--timeout=120s")
    try:
        first = ground.git_log(_REPOSITORY, "-1", "--format=%H", "main").strip()
        _wait_for_commit(ground, first, "Line 1")
        tell("  on its disk before the gateway started, and reported:")
        seen = _show_gateway(ground, tell)
        second = ground.commit(_REPOSITORY, "Name the line", _files("Bottling"))
        tell(f"\n$ git push   # {second[:8]} Name the line")
        _request_sync(ground, tell)
        on_disk, reported = _wait_for_commit(ground, second, "Bottling")
        tell(f"  on its disk {on_disk:.1f} s later, scanned and reported after {reported:.1f} s:")
        return seen and _show_gateway(ground, tell)
    except WindlassError as error:
        tell(f"  NOT SEEN: {error.message}")
        return False


def _request_sync(ground: DemoCluster, tell: Callable[[str], None]) -> None:
    """Have the remote looked at, as a pipeline would after a push."""
    asked = ("annotate", "ignitionsync", "site", "-n", _SITE, "--overwrite")
    mark = f"{_REQUESTED_AT}={datetime.now(UTC).isoformat(timespec='seconds')}"
    tell(f"$ kubectl {' '.join(asked)} {mark}   # else within 5 s")
    ground.kubectl(*asked, mark)


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


def _objects(ground: DemoCluster) -> str:
    password = ground.password_file.read_text()
    return _OBJECTS.format(url=ground.url(_REPOSITORY), password=password, token=_TOKEN)


def _pod(ground: DemoCluster) -> Object:
    return GatewayPod(
        name="area-1",
        namespace=_SITE,
        sync="site",
        service_path="services/site",
        api_key_secret="ignition-api",  # noqa: S106 - a name
        git_secret="plant-git",  # noqa: S106 - a name
        git_host=ground.cluster.host,
    ).manifest()


def _wait_for_commit(ground: DemoCluster, commit: str, title: str) -> tuple[float, float]:
    """Wait for a commit; how long it took to the disk, and to the report."""
    began = time.monotonic()
    wait_for(lambda: title in _read_view(ground), f"{title} on the gateway's disk", seconds=120.0)
    on_disk = time.monotonic() - began
    wait_for(lambda: _is_synced(ground, commit), f"{commit[:8]} synced", seconds=60.0)
    return on_disk, time.monotonic() - began


def _show_gateway(ground: DemoCluster, tell: Callable[[str], None]) -> bool:
    """Tell what disk, gateway and operator say; whether the gateway read whole files only."""
    tell(indent(_read_view(ground)))
    scans, torn = _query_gateway(ground, "/posts"), _count_torn_reads(ground)
    tell(f"  the gateway counts its scans: {json.dumps(scans)}, torn reads: {torn}")
    tell(indent(ground.kubectl("get", "ignitionsync", "-n", _SITE)))
    return not torn


def _read_view(ground: DemoCluster) -> str:
    return _exec_in_gateway(ground, "cat", _VIEW_ON_GATEWAY)


def _is_synced(ground: DemoCluster, commit: str) -> bool:
    found = ground.get(f"/apis/sync.ignition.io/v1alpha1/namespaces/{_SITE}/ignitionsyncs/site")
    status = found.get("status") or {}
    ready = any(
        row["type"] == "Ready" and row["status"] == "True" for row in status.get("conditions") or []
    )
    return ready and status.get("lastSyncCommit") == commit


def _count_torn_reads(ground: DemoCluster) -> int:
    """How often the gateway saw files that do not belong together."""
    return len(_query_gateway(ground, "/torn"))


def _query_gateway(ground: DemoCluster, path: str) -> Object:
    """What the gateway says of itself; silence is no answer."""
    url = f"http://127.0.0.1:{gateway_pod.CONTROL_PORT}{path}"
    script = f"import urllib.request as u;print(u.urlopen({url!r}).read().decode())"
    python = str(Path(sys.prefix) / "bin" / "python")
    said = wait_for(
        lambda: _exec_in_gateway(ground, python, "-c", script), f"the gateway's word on {path}"
    )
    found: Object = json.loads(said)
    return found


def _exec_in_gateway(ground: DemoCluster, *command: str) -> str:
    """What a command says inside the gateway's container, nothing if it fails."""
    container = ("-c", gateway_pod.GATEWAY_CONTAINER)
    try:
        return ground.kubectl("exec", "-n", _SITE, "area-1", *container, "--", *command)
    except WindlassError:
        return ""
