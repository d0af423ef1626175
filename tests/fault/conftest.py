"""A control plane of its own for faults: here operators die, and the API server too.

One operator at a time holds the lease of a cluster. Tests that share one ask for
`operator`, which lives as long as their file; the others start and end their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.fault.candidate import Candidate, operator_kubeconfig
from tests.support.cluster import control_plane as clusters
from tests.support.git.http_server import PASSWORD, RunningGitServer, running_git_server
from tests.support.processes.operator import Operator, running_operator
from tests.support.reverser.api_users import ApiMirroredNamespace, admin_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

FLAGS = (
    "--capabilities=reverser",
    "--remote-check-interval=1s",
    "--git-push-timeout=2s",
    "--git-fetch-timeout=10s",
    "--log-level=debug",
)

Mirrors = Callable[..., MirroredNamespace]


@pytest.fixture(scope="session")
def fault_cluster() -> Iterator[LocalCluster]:
    """The control plane that the tests of this folder share and may damage."""
    with clusters.running("fault") as started:
        clusters.bind_cluster_admin(started, "dev")
        yield started


@pytest.fixture(scope="session")
def git_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGitServer]:
    """A git server that requires a password."""
    root = tmp_path_factory.mktemp("git-host")
    with running_git_server(root, username="git", password=PASSWORD) as served:
        yield served


@pytest.fixture(scope="module")
def operator(
    fault_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator of one file's tests; it must be alive when they are done."""
    with running_operator(
        fault_cluster, tmp_path_factory.mktemp("operator"), *FLAGS, authors=False
    ) as started:
        yield started
        assert Path(f"/proc/{started.pid}/cmdline").read_bytes(), "the operator is alive"


@pytest.fixture
def idle_operator(fault_cluster: LocalCluster, tmp_path: Path) -> Iterator[Operator]:
    """An operator that the test starts, ends and starts again."""
    started = Operator(fault_cluster, tmp_path, *FLAGS, authors=False)
    yield started
    started.kill()


@pytest.fixture
def candidates(fault_cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Candidate]]:
    """More replicas of the operator, each with ports and stores of its own."""
    replicas: list[Candidate] = []

    def make(*flags: str, kubeconfig: Path | None = None, command: Sequence[str] = ()) -> Candidate:
        directory = tmp_path / f"candidate-{len(replicas)}"
        directory.mkdir()
        chosen = kubeconfig or operator_kubeconfig(fault_cluster)
        replicas.append(
            Candidate(fault_cluster, directory, chosen, *FLAGS, *flags, command=command)
        )
        return replicas[-1]

    yield make
    for replica in replicas:
        replica.kill()


@pytest.fixture
def mirrors(fault_cluster: LocalCluster, git_host: RunningGitServer) -> Iterator[Mirrors]:
    """Namespaces with a repository each; our objects in them are deleted afterwards."""
    with contextlib.ExitStack() as stack:

        def make(served: RunningGitServer = git_host, **options: str) -> MirroredNamespace:
            namespace = stack.enter_context(clusters.fresh_namespace(fault_cluster))
            started = ApiMirroredNamespace(
                fault_cluster, served, namespace, f"{namespace}.git", **options
            )
            stack.callback(_delete_mirror, started)
            return started

        yield make


@pytest.fixture
def mirrored(mirrors: Mirrors) -> MirroredNamespace:
    """One namespace with a repository; nothing is configured yet."""
    return mirrors()


def _delete_mirror(mirrored: MirroredNamespace) -> None:
    """Delete our objects at once, so that the next operator does not find them."""
    admin = admin_user(mirrored)
    for kind in ("watchrule", "gitdestination", "gitrepoconfig"):
        admin.request("DELETE", admin.path(kind))
