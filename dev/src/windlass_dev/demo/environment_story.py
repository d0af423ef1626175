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

TITLE = "A branch becomes a running, isolated environment"

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


def prepare(demo: DemoCluster) -> None:
    """Create a team's namespace, its repository and image, and a pod outside the environment."""
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _TEAM}}
    demo.kubectl("apply", "-f", "-", stdin=json.dumps(team))
    demo.kubectl("delete", "environment", "preview", "-n", _TEAM, "--ignore-not-found")
    demo.commit(_REPOSITORY, "Add the shop page", _manifests(demo, 1))
    if demo.has_node:
        _load_image(demo)
        wait_for(lambda: demo.get(_ACCOUNT), "the default ServiceAccount of the team's namespace")
        demo.kubectl("apply", "-f", "-", stdin=json.dumps(_stranger_pod()))


def play(demo: DemoCluster, progress: ProgressReporter, echo: Callable[[str], None]) -> bool:
    """Play the story; return whether everything it promises was observed."""
    del progress
    if not demo.has_node:
        echo(f"(no node, so the demo applies a ConfigMap instead of a Deployment: {demo.no_node})")
    first = demo.git_log(_REPOSITORY, "-1", "--format=%H", "main").strip()
    demo.kubectl("apply", "-f", "-", stdin=_objects(demo))
    echo("\n$ kubectl -n team-a apply -f environment.yaml   # a preview of branch main")
    try:
        first_ready = _show_ready(demo, first, 1, echo)
        second = demo.commit(_REPOSITORY, "Update the shop page", _manifests(demo, 2))
        echo(f"\n$ git push   # {second[:8]} Update the shop page")
        return all((first_ready, _show_ready(demo, second, 2, echo), _show_isolation(demo, echo)))
    except WindlassError as error:
        echo(f"  NOT OBSERVED: {error.message}")
        return False


def _manifests(demo: DemoCluster, version: int) -> dict[str, str]:
    text = _PAGE_CONFIG_MAP.format(page=_PAGE_TEXT.format(version=version))
    if demo.has_node:
        text += _WORKLOAD.format(version=version)
    return {"deploy/shop.yaml": text}


def _objects(demo: DemoCluster) -> str:
    password = demo.password_file.read_text()
    return _OBJECTS.format(url=demo.url(_REPOSITORY), password=password)


def _show_ready(demo: DemoCluster, commit: str, version: int, echo: Callable[[str], None]) -> bool:
    """Wait until the Environment serves `commit`; print its steps and its page."""
    started = time.monotonic()
    environment = wait_for(
        lambda: _find_serving(demo, commit), f"commit {commit[:8]} to be ready", seconds=120.0
    )
    assert environment is not None, "wait_for returns a true result"
    namespace = environment["status"]["namespace"]
    echo(f"  ready after {time.monotonic() - started:.1f} s, in namespace {namespace}:")
    rows = environment["status"]["steps"]
    echo(indent("\n".join(f"{row['name']:10} {row.get('message', '')}" for row in rows)))
    if not demo.has_node:
        return True
    echo("  page served inside the environment:")
    echo(indent(_wait_for_page(demo, namespace, _PAGE_TEXT.format(version=version))))
    return True


def _find_serving(demo: DemoCluster, commit: str) -> Object | None:
    environment = demo.get(_ENVIRONMENT)
    status = environment.get("status") or {}
    commits = (status.get("serving") or {}).get("commits") or {}
    return environment if status.get("phase") == "Ready" and commits.get("app") == commit else None


def _wait_for_page(demo: DemoCluster, namespace: str, expected: str) -> str:
    """The page of the Service as fetched inside the environment, once it is `expected`.

    For a second after a rollout kube-proxy still routes to the old pod.
    """
    address = _service_address(demo, namespace)

    def fetch() -> str:
        page = _fetch_page(demo, namespace, "deploy/web", address)
        return page if expected in page else ""

    return wait_for(fetch, f"the page {expected!r}")


def _fetch_page(demo: DemoCluster, namespace: str, pod: str, address: str) -> str:
    script = f"printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 2 {address} 80"
    output = demo.kubectl(
        "exec", "-n", namespace, pod, "--", "busybox", "sh", "-c", script, check=False
    )
    return "\n".join(line for line in output.splitlines() if "Welcome" in line)


def _service_address(demo: DemoCluster, namespace: str) -> str:
    return demo.kubectl(
        "get", "service", "web", "-n", namespace, "-o", "jsonpath={.spec.clusterIP}"
    )


def _show_isolation(demo: DemoCluster, echo: Callable[[str], None]) -> bool:
    """Show that a pod outside the environment cannot connect."""
    namespace = demo.get(_ENVIRONMENT)["status"]["namespace"]
    names = demo.kubectl("get", "networkpolicies", "-n", namespace, "-o", "name").split()
    echo(f"  {len(names)} NetworkPolicies isolate it")
    if not demo.has_node:
        return bool(names)
    demo.kubectl("wait", "--for=condition=Ready", "pod/stranger", "-n", _TEAM, "--timeout=60s")
    address = _service_address(demo, namespace)
    echo(f"\n$ kubectl -n team-a exec stranger -- nc -w 2 {address} 80   # another namespace")
    page = _fetch_page(demo, _TEAM, "stranger", address)
    echo("  CONNECTED: not isolated" if page else "  connection blocked by NetworkPolicy")
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
