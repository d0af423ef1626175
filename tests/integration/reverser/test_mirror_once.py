"""`windlass mirror --once` against a real cluster, with the rights of its user."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.kube.watch_proxy import WatchProxy
from tests.support.processes import windlass_command
from tests.support.processes.operator import eventually
from tests.support.reverser.api_users import ApiUser
from windlass.api.install import webhook
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.scenario("A105")]


@dataclass
class Dumper:
    """Runs the command on one namespace."""

    cluster: LocalCluster
    namespace: str
    directory: Path
    home: Path
    admin: ApiUser = field(init=False)

    def __post_init__(self) -> None:
        self.admin = ApiUser(self.cluster, "admin", self.namespace)

    def run(self, *flags: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self.dump(
            f"--namespace={self.namespace}",
            "--include=configmaps",
            "--include=secrets",
            *flags,
            kubeconfig=kubeconfig,
        )

    def dump(self, *flags: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command with these flags alone."""
        arguments = [
            "mirror",
            "--once",
            f"--to={self.directory}",
            f"--kubeconfig={kubeconfig or self.cluster.admin_kubeconfig}",
            *flags,
        ]
        return windlass_command.run(arguments, {"HOME": str(self.home), "PATH": os.environ["PATH"]})

    def config_map(self, name: str, **data: str) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        self.admin.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )

    def files(self) -> dict[str, str]:
        paths = (path for path in self.directory.rglob("*") if path.is_file())
        return {path.relative_to(self.directory).as_posix(): path.read_text() for path in paths}


@pytest.fixture
def dumper(cluster: LocalCluster, namespace: str, tmp_path: Path) -> Dumper:
    """A directory to dump into, and a home of its own for the salt."""
    (tmp_path / "home").mkdir()
    return Dumper(cluster, namespace, tmp_path / "dump", tmp_path / "home")


def _changed(done: subprocess.CompletedProcess[str]) -> tuple[list[str], list[str], list[str]]:
    result = json.loads(done.stdout)
    return result["created"], result["updated"], result["removed"]


def test_a_second_run_changes_nothing_and_a_dry_run_writes_nothing(dumper: Dumper) -> None:
    """Equal bytes stay untouched; after one edit a dry run exits 2 and leaves the files."""
    dumper.config_map("one", a="1")
    metadata = {"name": "door", "namespace": dumper.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    dumper.admin.apply({**secret, "data": {"key": "Y2FuYXJ5LTQ0MDI="}})
    first = dumper.run("--output=json")
    assert first.returncode == 0, first.stderr
    one, door = (f"v1/{plural}/{dumper.namespace}" for plural in ("configmaps", "secrets"))
    assert _changed(first) == ([f"{one}/one.yaml", f"{door}/door.yaml"], [], [])
    files = dumper.files()
    assert "REDACTED(hmac:" in files[f"{door}/door.yaml"]
    assert "Y2FuYXJ5" not in "".join(files.values())
    times = _write_times(dumper)
    second = dumper.run("--output=json")
    assert (second.returncode, _changed(second)) == (0, ([], [], []))
    assert _write_times(dumper) == times
    dumper.config_map("one", a="2")
    dry = dumper.run("--dry-run", "--output=json")
    assert (dry.returncode, _changed(dry)) == (2, ([], [f"{one}/one.yaml"], []))
    assert _write_times(dumper) == times
    salt = dumper.home / ".config" / "windlass" / "mirror-salt"
    assert salt.stat().st_mode & 0o777 == 0o600


def _write_times(dumper: Dumper) -> dict[str, int]:
    return {path: (dumper.directory / path).stat().st_mtime_ns for path in dumper.files()}


def test_pruning_removes_only_managed_files(dumper: Dumper) -> None:
    """Without the option files stay; with it only managed files of gone objects go."""
    dumper.config_map("one", a="1")
    dumper.config_map("two", a="1")
    assert dumper.run().returncode == 0
    folder = dumper.directory / "v1" / "configmaps" / dumper.namespace
    foreign = {
        folder / "notes.yaml": "kind: ConfigMap\n",
        folder / "README.md": "ours? no\n",
        dumper.directory / "kustomization.yaml": "resources: []\n",
    }
    for path, text in foreign.items():
        path.write_text(text)
    dumper.admin.delete("configmap", "two")
    assert dumper.run().returncode == 0
    assert (folder / "two.yaml").exists()
    pruned = dumper.run("--prune", "--output=json")
    assert _changed(pruned) == ([], [], [f"v1/configmaps/{dumper.namespace}/two.yaml"])
    assert not (folder / "two.yaml").exists()
    assert (folder / "one.yaml").exists()
    assert {path: path.read_text() for path in foreign} == foreign


def test_a_linked_directory_is_not_followed(dumper: Dumper, tmp_path: Path) -> None:
    """Nothing is written or removed behind a link inside the directory."""
    dumper.config_map("one", a="1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    dumper.directory.mkdir()
    (dumper.directory / "v1").symlink_to(outside)
    done = dumper.run("--prune")
    assert done.returncode == 1
    assert "v1" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in outside.iterdir()] == ["kept"]


async def test_no_kind_of_ours_is_needed(dumper: Dumper, tmp_path: Path) -> None:
    """A dump asks nothing of our API group, so a cluster without the CRDs will do."""
    dumper.config_map("one", a="1")
    async with WatchProxy(dumper.cluster.admin_kubeconfig) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")
        done = await asyncio.to_thread(dumper.run, kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr
        asked = [seen.path for seen in proxy.seen]
    assert f"/api/v1/namespaces/{dumper.namespace}/configmaps" in asked
    assert not any("configbutler.ai" in path for path in asked)
    assert f"v1/configmaps/{dumper.namespace}/one.yaml" in dumper.files()


def test_unreadable_types_are_reported_and_the_rest_is_written(dumper: Dumper) -> None:
    """A reader without Secrets gets exit 1, a line that says so, and all other types."""
    dumper.config_map("one", a="1")
    reader = f"reader-{dumper.namespace}"
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reader}
    view = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    dumper.admin.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader", "namespace": dumper.namespace},
            "roleRef": view,
            "subjects": [subject],
        }
    )
    where = {"namespace": dumper.namespace, "verb": "list", "resource": "configmaps"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": reader, "resourceAttributes": where},
    }
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    eventually(
        lambda: dumper.admin.request("POST", reviews, review).object["status"]["allowed"],
        "the rights of the reader",
    )
    kubeconfig = dumper.cluster.user_kubeconfig(reader)
    done = dumper.run(kubeconfig=kubeconfig)
    assert done.returncode == 1
    lines = [line for line in done.stdout.splitlines() if "cannot read" in line]
    assert len(lines) == 1
    assert "secrets" in lines[0]
    assert "forbidden" in lines[0].lower()
    assert f"v1/configmaps/{dumper.namespace}/one.yaml" in dumper.files()


def test_the_secret_path_of_a_webhook_is_not_dumped(dumper: Dumper) -> None:
    """The webhook configuration of any release is shown, without the path that proves a caller."""
    name, secret = f"{dumper.namespace}-windlass", "0123456789abcdef0123456789abcdef"
    made = webhook.webhook_configuration(dumper.namespace, dumper.namespace, b"", None)
    made["metadata"]["name"] = name
    made["webhooks"][0]["rules"][0]["apiGroups"] = ["windlass.invalid"]
    made["webhooks"][0]["clientConfig"]["service"]["path"] = webhook.PATH_PREFIX + secret
    types = "admissionregistration.k8s.io/validatingwebhookconfigurations"
    dumper.admin.apply(made)
    try:
        done = dumper.dump(f"--include={types}")
    finally:
        path = dumper.admin.path("validatingwebhookconfiguration", name)
        dumper.admin.request("DELETE", path)
    assert done.returncode == 0, done.stderr
    files = dumper.files()
    [dumped] = [content for path, content in files.items() if path.endswith(f"/{name}.yaml")]
    assert f"namespace: {dumper.namespace}" in dumped
    assert not [path for path, content in files.items() if webhook.PATH_PREFIX in content]


def test_sensitive_types_are_dumped_as_digests(dumper: Dumper) -> None:
    """Types that the operator redacts by its settings are redacted by the same flags."""
    metadata = {
        "name": "door",
        "namespace": dumper.namespace,
        "annotations": {"example.org/team": "blue", "example.com/copy": "canary-7071"},
    }
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    dumper.admin.apply({**config_map, "data": {"password": "canary-7070"}})
    flags = ("--sensitive-resource=core/configmaps", "--sensitive-annotation-allow=example.org/")
    done = dumper.run(*flags)
    assert done.returncode == 0, done.stderr
    dumped = dumper.files()[f"v1/configmaps/{dumper.namespace}/door.yaml"]
    assert "canary" not in dumped
    assert "password: REDACTED(hmac:" in dumped
    assert "example.org/team: blue" in dumped
    wrong = dumper.run("--sensitive-resource=Config/Maps!")
    assert wrong.returncode == 1
    assert "--sensitive-resource: Config/Maps! is not a plural resource" in wrong.stderr


def test_a_bare_plural_redacts_its_type_in_every_group(dumper: Dumper) -> None:
    """An administrator who leaves out the group is not left with plain text."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "door", "namespace": dumper.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "canary-7072"}}},
    }
    dumper.admin.apply(budget)
    plural = "poddisruptionbudgets"
    done = dumper.run(f"--include=policy/{plural}", f"--sensitive-resource={plural}")
    assert done.returncode == 0, done.stderr
    path = f"policy/v1/{plural}/{dumper.namespace}/door.yaml"
    assert "canary" not in dumper.files()[path]
