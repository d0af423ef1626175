"""Second story of the demo: a push appears on a gateway, which scans it."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.demo.demo_cluster import DemoCluster, indent, wait_for
from windlass_dev.mock_gateway import gateway_pod
from windlass_dev.mock_gateway.gateway_pod import GatewayPod
from windlass_dev.node import windlass_container

TITLE = "A push is synced to a gateway and scanned"

_REPOSITORY = "plant"
_SITE = "site-1"
_SYNC = f"/apis/sync.ignition.io/v1alpha1/namespaces/{_SITE}/ignitionsyncs/site"
_REQUESTED_AT = "windlass.dev/requestedAt"
_VIEW = "projects/line/com.inductiveautomation.perspective/views/Overview"


def prepare(demo: DemoCluster) -> None:
    """Create a gateway pod with its agent on a first commit; do not wait for it."""
    if not demo.has_node:
        return
    demo.kubectl("delete", "namespace", _SITE, "--ignore-not-found")
    demo.commit(_REPOSITORY, "Add the overview", _files("Line 1"))
    windlass_container.load_image(demo.cluster)
    demo.apply("gateway.yaml", repository=_REPOSITORY)
    demo.kubectl("apply", "-f", "-", stdin=json.dumps(_pod(demo)))


def play(demo: DemoCluster) -> None:
    """Play the story; raise `DemoFailed` where a promise is not observed."""
    if not demo.has_node:
        demo.echo(f"(skipped: a gateway runs in a pod, which requires a node: {demo.no_node})")
        return
    demo.echo("\n$ kubectl -n site-1 apply -f gateway.yaml   # sync branch main to the gateway")
    step = "waiting for the gateway pod and its agent, started during the first story"
    with demo.progress.step(step):
        pod = "pod/area-1"
        demo.kubectl("wait", "--for=condition=Ready", pod, "-n", _SITE, "--timeout=120s")
    _wait_for_commit(demo, demo.head(_REPOSITORY), "Line 1")
    demo.echo("  on disk before the gateway started, and reported:")
    _show_gateway(demo)
    second = demo.push(_REPOSITORY, "Rename the line", _files("Bottling"))
    _request_sync(demo)
    on_disk, reported = _wait_for_commit(demo, second, "Bottling")
    demo.echo(f"  on disk after {on_disk:.1f} s, scanned and reported after {reported:.1f} s:")
    _show_gateway(demo)


def _request_sync(demo: DemoCluster) -> None:
    """Request a sync by annotation, as a pipeline would after a push."""
    annotation = f"{_REQUESTED_AT}={datetime.now(UTC).isoformat(timespec='seconds')}"
    command = f"annotate ignitionsync site -n {_SITE} --overwrite {annotation}"
    demo.show_kubectl(command, comment="optional: do not wait for the next poll")


def _files(title: str) -> dict[str, str]:
    """The directory of the site in the repository: one project, one singleton resource."""
    resource = {"scope": "G", "version": 1, "files": ["view.json"], "attributes": {}}
    core = "config/resources/core"
    singleton = f"{core}/ignition/system-properties"
    documents: dict[str, Object] = {
        "projects/line/project.json": {"title": "line", "enabled": True},
        f"{_VIEW}/view.json": {"root": {"type": "ia.display.label", "props": {"text": title}}},
        f"{_VIEW}/resource.json": resource,
        f"{core}/config-mode.json": {"title": "core", "enabled": True},
        f"{singleton}/config.json": {"systemName": "template", "systemUID": "0"},
        f"{singleton}/resource.json": {**resource, "files": ["config.json"]},
    }
    return {
        f"services/site/{path}": json.dumps(document, indent=2) + "\n"
        for path, document in documents.items()
    }


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
    wait_for(lambda: _is_synced(demo, commit), f"status of commit {commit[:8]}")
    return on_disk, time.monotonic() - started


def _show_gateway(demo: DemoCluster) -> None:
    """Print file, scans and status; raise if the gateway read files that do not fit together."""
    demo.echo(indent(_read_view(demo)))
    scans, torn = _query_gateway(demo, "/posts"), len(_query_gateway(demo, "/torn"))
    demo.echo(f"  scans received by the gateway: {json.dumps(scans)}, torn reads: {torn}")
    demo.echo(indent(demo.kubectl("get", "ignitionsync", "-n", _SITE)))
    if torn:
        raise WindlassError("DemoFailed", f"the gateway counted torn reads: {torn}")


def _read_view(demo: DemoCluster) -> str:
    return _exec_in_gateway(demo, "cat", f"{gateway_pod.DATA_DIRECTORY}/{_VIEW}/view.json")


def _is_synced(demo: DemoCluster, commit: str) -> bool:
    status = demo.get(_SYNC).get("status") or {}
    ready = any(
        row["type"] == "Ready" and row["status"] == "True" for row in status.get("conditions") or []
    )
    return ready and status.get("lastSyncCommit") == commit


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
    return demo.kubectl("exec", "-n", _SITE, "area-1", *container, "--", *command, check=False)
