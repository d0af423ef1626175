"""Secret values must not appear anywhere outside the cluster's Secrets."""

from __future__ import annotations

import base64
import contextlib
import secrets
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.conftest import FLAGS, Mirrors
from tests.support.git.http_server import running_git_server
from tests.support.processes.operator import Operator, eventually, running_operator
from tests.support.reverser.api_users import admin_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.git_server.fault_injection import GitFault

pytestmark = pytest.mark.cluster

# Another run on this machine may show what it has: no two have the same.
_RUN = secrets.token_hex(4)
PASSWORD = f"canary/{_RUN}+git=password"
VALUE = f"canary-{_RUN}-of-a-mirrored-secret"


def _forms(text: str, *prefixes: str) -> set[str]:
    """A secret in plain, and encoded as in headers, URLs and Secrets."""
    plain = {text, *(prefix + text for prefix in prefixes)}
    encoded = {base64.b64encode(form.encode()).decode().rstrip("=") for form in plain}
    return {text, urllib.parse.quote(text, safe="")} | encoded


FORMS = _forms(PASSWORD, "git:") | _forms(VALUE)


def _leaks(text: str) -> set[str]:
    return {form for form in FORMS if form in text}


@pytest.fixture
def operator(fault_cluster: LocalCluster, tmp_path: Path) -> Iterator[Operator]:
    """An operator from a shell: what the kernel shows of a forked one is not its own."""
    with running_operator(
        fault_cluster, tmp_path / "operator", *FLAGS, authors=False, forked=False
    ) as started:
        yield started


@pytest.mark.scenario("A111")
def test_no_secret_appears_outside_the_cluster(
    mirrors: Mirrors, operator: Operator, fault_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Logs, status, events, metrics, processes during a push and Git objects do not contain it."""
    earlier = _stores(fault_cluster)
    with running_git_server(tmp_path, username="git", password=PASSWORD) as served:
        mirrored = mirrors(served)
        mirrored.admin.apply(
            mirrored.secret(username="git", password=PASSWORD),
            mirrored.repo_config(),
            mirrored.git_destination(),
            mirrored.watch_rule({"resources": ["secrets", "configmaps"]}),
            _mirrored_secret(mirrored),
        )
        path = f"v1/secrets/{mirrored.namespace}/mirrored.yaml"
        eventually(lambda: path in mirrored.files(), "the redacted Secret", seconds=40.0)
        assert "REDACTED(" in mirrored.files()[path]
        served.server.faults.set(GitFault("hang", service="receive-pack", advertisement=False))
        mirrored.user("alice").apply(mirrored.config_map("one", a="1"))
        eventually(lambda: b"push\0--porcelain" in _processes(), "a push under way", seconds=30.0)
        for _ in range(10):
            assert not _leaks(_processes().decode("utf-8", "replace"))
        mirrored.await_condition("gitdestination", "destination", "GitUnavailable", seconds=40.0)
        served.server.faults.clear()
        mirrored.admin.apply(mirrored.secret(username="git", password=f"{PASSWORD}-wrong"))
        mirrored.await_condition("gitrepoconfig", "repo", "ConnectionFailed", seconds=40.0)
        admin, kinds = (
            admin_user(mirrored),
            ("gitrepoconfig", "gitdestination", "watchrule", "event"),
        )
        printed = "".join(admin.request("GET", admin.path(kind)).text for kind in kinds)
        for text in (printed, operator.log.read_text(), operator.metrics()):
            assert not _leaks(text)
        # Stores of other tests may be damaged on purpose; git cannot read those to the end.
        own = _stores(fault_cluster) - earlier
        assert own, "no store was made for this repository"
        for repository in (mirrored.path, *own):
            assert not _leaks(_every_object(repository))
        for file in (
            path for path in (fault_cluster.directory / "stores").rglob("*") if path.is_file()
        ):
            # The operator works on: a lock or a loose object may be gone by now.
            with contextlib.suppress(FileNotFoundError):
                assert not _leaks(file.read_bytes().decode("latin-1"))


def _stores(fault_cluster: LocalCluster) -> set[Path]:
    """The operator's stores, one for each repository."""
    return {path for path in (fault_cluster.directory / "stores").glob("[!.]*") if path.is_dir()}


def _mirrored_secret(mirrored: MirroredNamespace) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mirrored", "namespace": mirrored.namespace},
        "stringData": {"key": VALUE},
    }


def _processes() -> bytes:
    """Command line and environment of every process but our own."""
    printed: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                printed.append((process / name).read_bytes())
    return b"\n".join(printed)


def _every_object(repository: Path) -> str:
    """The content of everything in a repository, reachable or not."""
    done = subprocess.run(
        ["git", "--git-dir", str(repository), "cat-file", "--batch-all-objects", "--batch"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return done.stdout.decode("latin-1")
