"""A fixed sequence of changes in a namespace, and the files that every run must end in.

Runs differ in their namespace only. `tree` takes that name out, so that the folders of
two runs can be compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.git.http_server import commit_files
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import api_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace

Tree = dict[str, str]

RESOURCES = {"resources": ["configmaps", "deployments", "services", "roles"]}
FOREIGN = {"README.md": "by hand\n", "clusters/test/kustomization.yaml": "resources: []\n"}


class ReferenceRun:
    """The sequence of changes, made step by step by one user."""

    def __init__(self, mirrored: MirroredNamespace) -> None:
        self.mirrored = mirrored
        self._alice = api_user(mirrored, "alice")
        commit_files(mirrored.path, FOREIGN)

    def configure(self) -> None:
        self.mirrored.configured(RESOURCES, wait=False)

    def run_steps(self, settled: Callable[[int], bool]) -> None:
        """All steps; each waits until `settled` says that its number is done with."""
        for number, step in enumerate((self._create, self._change, self._remove)):
            step()
            eventually(lambda: settled(number), f"step {number}", seconds=30.0)  # noqa: B023

    def is_in_git(self, number: int) -> bool:
        """Whether Git shows what step `number` did."""
        shown, tree = _SHOWN[number], self.tree()
        right = all(text in tree.get(path, "") for path, text in shown.items())
        return right and (number < len(_SHOWN) - 1 or tree.keys() == shown.keys())

    def tree(self) -> Tree:
        """The folder's files without the namespace's name."""
        name = self.mirrored.namespace
        return {
            path.replace(name, "NAMESPACE"): text.replace(name, "NAMESPACE")
            for path, text in self.mirrored.files().items()
        }

    def _create(self) -> None:
        one, two, three = (
            self.mirrored.config_map(name, a="1") for name in ("one", "two", "three")
        )
        self._alice.apply(one, two, three, self._service("80"), self._deployment(1), self._role())

    def _change(self) -> None:
        one = self.mirrored.config_map("one", a="2", text="line\nline\n")
        self._alice.apply(one, self._deployment(3), self.mirrored.config_map("four", a="4"))

    def _remove(self) -> None:
        for kind, name in (("configmap", "two"), ("service", "web")):
            self._alice.delete(kind, name)
        self._alice.apply(self.mirrored.config_map("three", a="3"))

    def _service(self, port: str) -> dict[str, Any]:
        spec = {"selector": {"app": "web"}, "ports": [{"port": int(port)}]}
        return self._object("v1", "Service", "web", {"spec": spec})

    def _role(self) -> dict[str, Any]:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
        return self._object("rbac.authorization.k8s.io/v1", "Role", "reader", {"rules": rules})

    def _deployment(self, replicas: int) -> dict[str, Any]:
        labels = {"app": "web"}
        containers = [{"name": "web", "image": "registry.invalid/web:1"}]
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        }
        return self._object("apps/v1", "Deployment", "web", {"spec": spec})

    def _object(self, version: str, kind: str, name: str, rest: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.mirrored.namespace}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


_MAPS = "v1/configmaps/NAMESPACE"
_DEPLOYMENT = "apps/v1/deployments/NAMESPACE/web.yaml"
_ROLE = "rbac.authorization.k8s.io/v1/roles/NAMESPACE/reader.yaml"
_SERVICE = "v1/services/NAMESPACE/web.yaml"

_SHOWN: tuple[dict[str, str], ...] = (
    {
        f"{_MAPS}/one.yaml": 'a: "1"',
        f"{_MAPS}/two.yaml": 'a: "1"',
        f"{_MAPS}/three.yaml": 'a: "1"',
        _SERVICE: "port: 80",
        _DEPLOYMENT: "replicas: 1",
        _ROLE: "verbs",
    },
    {
        f"{_MAPS}/one.yaml": 'a: "2"',
        f"{_MAPS}/four.yaml": 'a: "4"',
        _DEPLOYMENT: "replicas: 3",
    },
    {
        "kustomization.yaml": "resources: []",
        f"{_MAPS}/one.yaml": 'a: "2"',
        f"{_MAPS}/three.yaml": 'a: "3"',
        f"{_MAPS}/four.yaml": 'a: "4"',
        _DEPLOYMENT: "replicas: 3",
        _ROLE: "verbs",
    },
)
