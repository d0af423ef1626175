"""Third story of the demo: a branch becomes a running, isolated copy of a project."""

from __future__ import annotations

import time

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.cluster import cluster_state
from windlass_dev.demo.demo_cluster import DemoCluster, indent, read_manifest, wait_for
from windlass_dev.node import containerd, oci_archive
from windlass_dev.programs import debian_packages
from windlass_dev.progress import SilentReporter

TITLE = "A branch becomes a running, isolated environment"

_REPOSITORY = "shop"
_TEAM = "team-a"
_IMAGE = "windlass.dev/shell:1"
_ACCOUNT = f"/api/v1/namespaces/{_TEAM}/serviceaccounts/default"
_ENVIRONMENT = f"/apis/catalyst.catalyst.dev/v1alpha1/namespaces/{_TEAM}/environments/preview"


def prepare(demo: DemoCluster) -> None:
    """Create a team's namespace, its repository and image, and a pod outside the environment."""
    # Fails where an earlier run created it.
    demo.kubectl("create", "namespace", _TEAM, check=False)
    demo.kubectl("delete", "environment", "preview", "-n", _TEAM, "--ignore-not-found")
    demo.commit(_REPOSITORY, "Add the shop page", _manifests(demo, 1))
    if demo.has_node:
        _load_image(demo)
        wait_for(lambda: demo.get(_ACCOUNT), "the default ServiceAccount of the team's namespace")
        demo.apply("environment-stranger.yaml")


def play(demo: DemoCluster) -> None:
    """Play the story; raise `DemoFailed` where a promise is not observed."""
    if not demo.has_node:
        demo.echo(f"(no node, so there is a ConfigMap but no Deployment: {demo.no_node})")
    first = demo.head(_REPOSITORY)
    demo.apply("environment.yaml", repository=_REPOSITORY)
    demo.echo("\n$ kubectl -n team-a apply -f environment.yaml   # a preview of branch main")
    _show_ready(demo, first, 1)
    second = demo.push(_REPOSITORY, "Update the shop page", _manifests(demo, 2))
    _show_isolation(demo, _show_ready(demo, second, 2))


def _manifests(demo: DemoCluster, version: int) -> dict[str, str]:
    names = ("shop-page.yaml", "shop-workload.yaml") if demo.has_node else ("shop-page.yaml",)
    text = "".join(read_manifest(name, version=str(version)) for name in names)
    return {"deploy/shop.yaml": text}


def _show_ready(demo: DemoCluster, commit: str, version: int) -> str:
    """Wait until `commit` is served; print steps and page; return the namespace."""
    started = time.monotonic()
    status = wait_for(
        lambda: _serving_status(demo, commit), f"commit {commit[:8]} to be ready", seconds=120.0
    )
    namespace = str(status["namespace"])
    demo.echo(f"  ready after {time.monotonic() - started:.1f} s, in namespace {namespace}:")
    rows = [f"{row['name']:10} {row.get('message', '')}" for row in status["steps"]]
    demo.echo(indent("\n".join(rows)))
    if demo.has_node:
        demo.echo("  page served inside the environment:")
        page = f"version {version}"
        # For a second after a rollout kube-proxy still routes to the old pod.
        text = wait_for(lambda: _fetch_page(demo, namespace, "deploy/web", page), f"page {page}")
        demo.echo(indent(text))
    return namespace


def _serving_status(demo: DemoCluster, commit: str) -> Object:
    """The status of the Environment, empty until it is ready with `commit`."""
    status: Object = demo.get(_ENVIRONMENT).get("status") or {}
    commits = (status.get("serving") or {}).get("commits") or {}
    return status if status.get("phase") == "Ready" and commits.get("app") == commit else {}


def _fetch_page(demo: DemoCluster, namespace: str, pod: str, expected: str) -> str:
    """The page of the Environment as fetched in a pod; empty if it does not contain `expected`."""
    address = _service_address(demo)
    script = f"printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 2 {address} 80"
    command = ("busybox", "sh", "-c", script)
    output = demo.kubectl("exec", "-n", namespace, pod, "--", *command, check=False)
    return "\n".join(line for line in output.splitlines() if expected in line)


def _service_address(demo: DemoCluster) -> str:
    namespace = demo.get(_ENVIRONMENT)["status"]["namespace"]
    return str(demo.get(f"/api/v1/namespaces/{namespace}/services/web")["spec"]["clusterIP"])


def _show_isolation(demo: DemoCluster, namespace: str) -> None:
    """Show that a pod outside the environment cannot connect."""
    names = demo.kubectl("get", "networkpolicies", "-n", namespace, "-o", "name").split()
    demo.echo(f"  {len(names)} NetworkPolicies isolate it")
    if not names:
        raise WindlassError("DemoFailed", "the environment has no NetworkPolicies")
    if not demo.has_node:
        return
    demo.kubectl("wait", "--for=condition=Ready", "pod/stranger", "-n", _TEAM, "--timeout=60s")
    command = f"kubectl -n {_TEAM} exec stranger -- nc -w 2 {_service_address(demo)} 80"
    demo.echo(f"\n$ {command}   # another namespace")
    if _fetch_page(demo, _TEAM, "stranger", "Welcome"):
        raise WindlassError("DemoFailed", "a pod in another namespace can connect")
    demo.echo("  connection blocked by NetworkPolicy")


def _load_image(demo: DemoCluster) -> None:
    """Import an image with a shell and a web server, both from one static busybox."""
    unpacked = debian_packages.provide_packages("busybox", ["busybox-static"], SilentReporter())
    candidates = (unpacked / "bin/busybox", unpacked / "usr/bin/busybox")
    program = next(path for path in candidates if path.exists()).read_bytes()
    layer = oci_archive.build_layer({"bin/busybox": (0o755, program)}, compress=False)
    image = oci_archive.ContainerImage(
        [layer], environment={"PATH": "/bin"}, architecture=containerd.image_architecture()
    )
    file = demo.cluster.directory / "node" / "shell.tar"
    files.write_atomically(file, oci_archive.build_archive(image, _IMAGE))
    state = cluster_state.load_state(demo.cluster.directory)
    assert state is not None, "a LocalCluster is read from a state"
    containerd.import_images(state, demo.cluster.directory, file)
