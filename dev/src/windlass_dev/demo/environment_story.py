"""Third story of the demo: a branch becomes a running, isolated copy of a project."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.cluster import cluster_state
from windlass_dev.demo.demo_cluster import DemoCluster, indent, wait_for
from windlass_dev.node import containerd, oci_archive
from windlass_dev.programs import debian_packages
from windlass_dev.progress import ProgressReporter, SilentReporter

TITLE = "A branch becomes a running, fenced environment"

_REPOSITORY = "shop"
_TEAM = "team-a"
_IMAGE = "windlass.dev/shell:1"
_ACCOUNT = f"/api/v1/namespaces/{_TEAM}/serviceaccounts/default"
_ENVIRONMENT = f"/apis/catalyst.catalyst.dev/v1alpha1/namespaces/{_TEAM}/environments/preview"
_PAGE_TEXT = "Welcome to the shop, version {version}"
_OBJECTS = """
apiVersion: v1
kind: Secret
metadata: {{name: shop-git, namespace: team-a}}
stringData: {{username: git, password: "{password}"}}
---
apiVersion: catalyst.catalyst.dev/v1alpha1
kind: Project
metadata: {{name: shop, namespace: team-a}}
spec:
  sources: [{{name: app, repositoryUrl: "{url}", branch: main, secretRef: {{name: shop-git}}}}]
  templates: {{default: {{type: manifest, path: deploy}}}}
---
apiVersion: catalyst.catalyst.dev/v1alpha1
kind: Environment
metadata: {{name: preview, namespace: team-a}}
spec:
  projectRef: {{name: shop}}
  type: preview
  sources: [{{name: app}}]
"""
_PAGE_CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: page}}
data: {{index.html: "{page}"}}
"""
_WORKLOAD = """
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}, annotations: {{version: "{version}"}}}}
    spec:
      securityContext: {{runAsUser: 1000}}
      containers:
        - name: web
          image: windlass.dev/shell:1
          imagePullPolicy: Never
          command: [busybox, httpd, -f, -p, "8080", -h, /page]
          ports: [{{containerPort: 8080}}]
          readinessProbe: {{tcpSocket: {{port: 8080}}, periodSeconds: 1}}
          volumeMounts: [{{name: page, mountPath: /page}}]
      volumes: [{{name: page, configMap: {{name: page}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
"""


def prepare(ground: DemoCluster) -> None:
    """A team, its repository, something to run, and a stranger who will try to get in."""
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _TEAM}}
    ground.kubectl("apply", "-f", "-", stdin=json.dumps(team))
    ground.kubectl("delete", "environment", "preview", "-n", _TEAM, "--ignore-not-found")
    ground.commit(_REPOSITORY, "Open the shop", _manifests(ground, 1))
    if ground.has_node:
        _load_image(ground)
        wait_for(lambda: ground.get(_ACCOUNT), "the team's default account")
        ground.kubectl("apply", "-f", "-", stdin=json.dumps(_stranger_pod()))


def play(ground: DemoCluster, progress: ProgressReporter, tell: Callable[[str], None]) -> bool:
    """Tell the story; whether everything that was promised was seen."""
    del progress
    if not ground.has_node:
        tell(f"(without a node nothing can run; what would run is applied: {ground.no_node})")
    first = ground.git_log(_REPOSITORY, "-1", "--format=%H", "main").strip()
    ground.kubectl("apply", "-f", "-", stdin=_objects(ground))
    tell("\n$ kubectl -n team-a apply -f environment.yaml   # a copy of branch main, please")
    try:
        seen = _show_ready(ground, first, 1, tell)
        second = ground.commit(_REPOSITORY, "Say it again, nicer", _manifests(ground, 2))
        tell(f"\n$ git push   # {second[:8]} Say it again, nicer")
        return all((seen, _show_ready(ground, second, 2, tell), _show_isolation(ground, tell)))
    except WindlassError as error:
        tell(f"  NOT SEEN: {error.message}")
        return False


def _manifests(ground: DemoCluster, version: int) -> dict[str, str]:
    text = _PAGE_CONFIG_MAP.format(page=_PAGE_TEXT.format(version=version))
    if ground.has_node:
        text += _WORKLOAD.format(version=version)
    return {"deploy/shop.yaml": text}


def _objects(ground: DemoCluster) -> str:
    password = ground.password_file.read_text()
    return _OBJECTS.format(url=ground.url(_REPOSITORY), password=password)


def _show_ready(
    ground: DemoCluster, commit: str, version: int, tell: Callable[[str], None]
) -> bool:
    """Wait until the Environment serves a commit, and tell what it and its page say."""
    began = time.monotonic()
    found = wait_for(
        lambda: _find_serving(ground, commit), f"commit {commit[:8]} ready", seconds=120.0
    )
    assert found is not None, "only what was seen ends the wait"
    place = found["status"]["namespace"]
    tell(f"  ready {time.monotonic() - began:.1f} s later, in namespace {place}:")
    rows = found["status"]["steps"]
    tell(indent("\n".join(f"{row['name']:10} {row.get('message', '')}" for row in rows)))
    if not ground.has_node:
        return True
    tell("  the page, asked for inside the environment:")
    tell(indent(_wait_for_page(ground, place, _PAGE_TEXT.format(version=version))))
    return True


def _find_serving(ground: DemoCluster, commit: str) -> Object | None:
    found = ground.get(_ENVIRONMENT)
    status = found.get("status") or {}
    commits = (status.get("serving") or {}).get("commits") or {}
    return found if status.get("phase") == "Ready" and commits.get("app") == commit else None


def _wait_for_page(ground: DemoCluster, place: str, wanted: str) -> str:
    """What the Service answers to a pod of the same environment, once it is `wanted`.

    For a second after a rollout the packet filter still leads to the pod before.
    """
    address = _service_address(ground, place)

    def fetch() -> str:
        page = _fetch_page(ground, place, "deploy/web", address)
        return page if wanted in page else ""

    return wait_for(fetch, f"the page {wanted!r}")


def _fetch_page(ground: DemoCluster, place: str, pod: str, address: str) -> str:
    script = f"printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 2 {address} 80"
    said = ground.kubectl(
        "exec", "-n", place, pod, "--", "busybox", "sh", "-c", script, check=False
    )
    return "\n".join(line for line in said.splitlines() if "Welcome" in line)


def _service_address(ground: DemoCluster, place: str) -> str:
    return ground.kubectl("get", "service", "web", "-n", place, "-o", "jsonpath={.spec.clusterIP}")


def _show_isolation(ground: DemoCluster, tell: Callable[[str], None]) -> bool:
    """Show that a stranger cannot connect."""
    place = ground.get(_ENVIRONMENT)["status"]["namespace"]
    names = ground.kubectl("get", "networkpolicies", "-n", place, "-o", "name").split()
    tell(f"  {len(names)} network policies hold it in")
    if not ground.has_node:
        return bool(names)
    ground.kubectl("wait", "--for=condition=Ready", "pod/stranger", "-n", _TEAM, "--timeout=60s")
    address = _service_address(ground, place)
    tell(f"\n$ kubectl -n team-a exec stranger -- nc -w 2 {address} 80   # somebody else's pod")
    page = _fetch_page(ground, _TEAM, "stranger", address)
    tell("  IT GOT IN" if page else "  no connection: the fence holds")
    return not page


def _stranger_pod() -> Object:
    container = {
        "name": "shell",
        "image": _IMAGE,
        "imagePullPolicy": "Never",
        "command": ["busybox", "sleep", "1d"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": _TEAM},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


def _load_image(ground: DemoCluster) -> None:
    """An image with a shell and a web server in one small program."""
    found = debian_packages.provide_packages("busybox", ["busybox-static"], SilentReporter())
    places = (found / "bin/busybox", found / "usr/bin/busybox")
    program = next(path for path in places if path.exists()).read_bytes()
    layer = oci_archive.build_layer({"bin/busybox": (0o755, program)}, compress=False)
    image = oci_archive.ContainerImage(
        [layer], environment={"PATH": "/bin"}, architecture=containerd.image_architecture()
    )
    file = ground.cluster.directory / "node" / "shell.tar"
    files.write_atomically(file, oci_archive.build_archive(image, _IMAGE))
    now = cluster_state.load_state(ground.cluster.directory)
    assert now is not None, "a desk has a state"
    containerd.import_images(now, ground.cluster.directory, file)
