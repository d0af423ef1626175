"""What the rows share: a directory, a control plane, a git server, an operator.

Each is made when a row first needs it and is gone when the testbed closes, also after
an interrupt. Rows leave no rule behind, so that no row works for another one.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from bench import samples
from bench.writer import Writer, write_all
from tests.support.cluster.control_plane import bind_cluster_admin
from tests.support.git.http_server import PASSWORD, RunningGitServer, running_git_server
from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster import cluster
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.progress import ProgressReporter

CLUSTER = "bench"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Testbed:
    """Everything that outlives a row; a context manager that takes it all away again."""

    def __init__(self, progress: ProgressReporter) -> None:
        self.progress = progress
        self._stack = contextlib.ExitStack()
        self._crowd = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def directory(self) -> Path:
        """A directory that is gone afterwards."""
        made = Path(tempfile.mkdtemp(prefix="windlass-bench-"))
        self._stack.callback(shutil.rmtree, made, ignore_errors=True)
        return made

    @cached_property
    def cluster(self) -> LocalCluster:
        """The control plane; one that a killed run left behind is replaced."""
        cluster.down(CLUSTER)
        self._stack.callback(cluster.down, CLUSTER)
        started = cluster.up(CLUSTER, progress=self.progress)
        bind_cluster_admin(started, "dev")
        return started

    @cached_property
    def git(self) -> RunningGitServer:
        """A smart-HTTP git server that requires a password."""
        root = self.directory / "git"
        root.mkdir()
        return self._stack.enter_context(
            running_git_server(root, username="git", password=PASSWORD)
        )

    @contextlib.contextmanager
    def operator(self, name: str) -> Iterator[Operator]:
        """A fresh operator; its webhook goes with it, so that later writes do not call it."""
        directory = self.directory / f"operator-{name}"
        directory.mkdir()
        running = Operator(self.cluster, directory)
        try:
            running.spawn()
            eventually(lambda: _proves_authors(running), f"an operator ({running.log})", seconds=90)
            yield running
        finally:
            running.kill()
            self.cluster.api.request(CONFIGURATIONS, method="DELETE")

    def namespace(self, name: str) -> str:
        """A namespace of that name, made if it is not there."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.cluster.api.request("/api/v1/namespaces", method="POST", body=body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        eventually(lambda: self.cluster.api.request(account).ok, f"namespace {name}")
        return name

    def crowd(self, count: int) -> str:
        """A namespace that holds at least `count` small ConfigMaps."""
        namespace = self.namespace("crowd")
        if self._crowd < count:
            with self.progress.step(f"creating {count - self._crowd} ConfigMaps"):
                self._create(namespace, range(self._crowd, count))
            self._crowd = count
        return namespace

    def _create(self, namespace: str, numbers: range) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps"

        def create(writer: Writer, number: int) -> None:
            made = samples.config_map(namespace, f"member-{number:05}", str(number))
            writer.create(path, made)

        write_all(self.cluster, numbers, create, writers=16)

    @contextlib.contextmanager
    def mirrored(self, namespace: str, repository: str) -> Iterator[MirroredNamespace]:
        """A repository and a destination in `namespace`; whatever rule is made goes afterwards."""
        joined = MirroredNamespace(self.cluster, self.git, namespace, repository)
        joined.admin.apply(joined.secret(), joined.repo_config(), joined.git_destination())
        try:
            yield joined
        finally:
            for kind in ("watchrules", "gitdestinations", "gitrepoconfigs"):
                joined.admin.try_kubectl("delete", kind, "--all", "--timeout=30s")

    def webhook(self) -> dict[str, Any]:
        """How the API server reaches the running webhook: `url` and `caBundle`."""
        found = json.loads(self.cluster.api.request(CONFIGURATIONS).text)["items"]
        client: dict[str, Any] = found[0]["webhooks"][0]["clientConfig"]
        return client


def _proves_authors(operator: Operator) -> bool:
    """Whether it leads and its webhook is called; before that no author is recorded."""
    try:
        return operator.metric("windlass_mirror_authors_provable") == 1.0
    except OSError:
        return False


def await_synced(joined: MirroredNamespace, *, seconds: float) -> None:
    """Until the rule is ready and its destination reports that all is written."""
    joined.await_condition("watchrule", "rule", "Ready", seconds=seconds)
    joined.await_condition(
        "gitdestination", "destination", "Synced", type_="Synced", seconds=seconds
    )


def await_files(joined: MirroredNamespace, count: int, *, seconds: float) -> None:
    """Until the branch on the server holds `count` files; reads it again only when it moved."""
    ref = joined.path / "refs" / "heads" / joined.branch
    seen = b""

    def complete() -> bool:
        nonlocal seen
        tip = ref.read_bytes() if ref.exists() else b""
        if tip == seen:
            return False
        seen = tip
        return joined.git("ls-tree", "-r", "--name-only", joined.branch).count(".yaml\n") >= count

    eventually(complete, f"{count} files on the server", seconds=seconds)
