"""A repository that mirrors one namespace, and users that change objects there."""

from __future__ import annotations

import base64
import functools
import json
import os
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygit2
import pygit2.enums
import yaml

from tests.support.git import http_server
from tests.support.git.http_server import RunningGitServer
from tests.support.processes.operator import eventually
from windlass_dev.cluster.local_cluster import LocalCluster

GROUP = "configbutler.ai/v1alpha1"

_CLAIM = ".windlass-claim"
_TOPOLOGICAL = pygit2.enums.SortMode.TOPOLOGICAL


@dataclass(frozen=True)
class KubectlUser:
    """A user with a certificate and kubectl."""

    cluster: LocalCluster
    name: str
    namespace: str = "default"

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        done = self.try_kubectl(*arguments, stdin=stdin)
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def try_kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        path = self.cluster.directory / "people" / f"{self.name}.kubeconfig"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            groups = ("system:masters",) if self.name == "admin" else ("dev",)
            made = self.cluster.user_kubeconfig(self.name, groups)
            path.write_bytes(made.read_bytes())
        return subprocess.run(
            [str(self.cluster.kubectl), f"--kubeconfig={path}", f"-n{self.namespace}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={"HOME": os.environ.get("HOME", "/"), "PATH": os.environ["PATH"]},
        )

    def apply(self, *documents: dict[str, Any], server_side: bool = False) -> str:
        text = yaml.safe_dump_all(documents)
        flags = ("--server-side",) if server_side else ()
        return self.kubectl("apply", *flags, "-f", "-", stdin=text)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        obj: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return obj


@dataclass(frozen=True)
class Commit:
    """One commit as `git log` shows it."""

    sha: str
    author: str
    email: str
    subject: str
    body: str

    def trailer(self, name: str) -> str:
        prefix = f"X-ConfigButler-{name}: "
        rows = [line for line in self.body.splitlines() if line.startswith(prefix)]
        assert len(rows) == 1, f"trailer {name} occurs {len(rows)} times:\n{self.body}"
        return rows[0].removeprefix(prefix)


@dataclass
class MirroredNamespace:
    """One namespace, its repository on a real git server, and the objects that join them."""

    cluster: LocalCluster
    served: RunningGitServer
    namespace: str
    repository: str
    folder: str = "clusters/test"
    branch: str = "main"
    admin: KubectlUser = field(init=False)
    path: Path = field(init=False)
    _commits: dict[str, list[Commit]] = field(default_factory=dict, init=False)
    _files: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.admin = self.user("admin")
        self.path = self.served.create(self.repository)

    def user(self, name: str) -> KubectlUser:
        return KubectlUser(self.cluster, name, self.namespace)

    def configured(
        self,
        *items: dict[str, Any],
        destination: dict[str, Any] | None = None,
        repository: dict[str, Any] | None = None,
        wait: bool = True,
    ) -> None:
        """Apply a GitRepoConfig, a GitDestination and a WatchRule; wait until they work."""
        self.admin.apply(
            self.secret(),
            self.repo_config(repository),
            self.git_destination(destination),
            self.watch_rule(*items),
        )
        if wait:
            self.await_synced()

    def secret(self, **data: str) -> dict[str, Any]:
        from tests.support.git.http_server import PASSWORD

        values = data or {"username": "git", "password": PASSWORD}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "git-credentials", "namespace": self.namespace},
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in values.items()},
        }

    def repo_config(self, changes: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "apiVersion": GROUP,
            "kind": "GitRepoConfig",
            "metadata": {"name": "repo", "namespace": self.namespace},
            "spec": {
                "repoUrl": self.served.server.url(self.repository),
                "allowedBranches": [self.branch],
                "secretRef": {"name": "git-credentials"},
                **(changes or {}),
            },
        }

    def git_destination(self, changes: dict[str, Any] | None = None) -> dict[str, Any]:
        return {
            "apiVersion": GROUP,
            "kind": "GitDestination",
            "metadata": {"name": "destination", "namespace": self.namespace},
            "spec": {
                "repoRef": {"name": "repo"},
                "branch": self.branch,
                "baseFolder": self.folder,
                **(changes or {}),
            },
        }

    def watch_rule(self, *items: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": GROUP,
            "kind": "WatchRule",
            "metadata": {"name": "rule", "namespace": self.namespace},
            "spec": {
                "destinationRef": {"name": "destination"},
                "rules": list(items) or [{"resources": ["configmaps", "deployments", "secrets"]}],
            },
        }

    def condition(self, kind: str, name: str, type_: str = "Ready") -> dict[str, Any]:
        rows = self.admin.get(kind, name).get("status", {}).get("conditions", [])
        return next((row for row in rows if row["type"] == type_), {})

    def await_condition(
        self, kind: str, name: str, reason: str, *, type_: str = "Ready", seconds: float = 20.0
    ) -> dict[str, Any]:
        def matching_condition() -> dict[str, Any]:
            condition.clear()
            condition.update(self.condition(kind, name, type_))
            return condition if condition.get("reason") == reason else {}

        condition: dict[str, Any] = {}
        try:
            return eventually(
                matching_condition, f"{kind} {name} {type_}={reason}", seconds=seconds
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {condition}") from None

    def await_synced(self) -> None:
        self.await_condition("watchrule", "rule", "Ready")
        eventually(lambda: self._stream_states() == {"synced"}, "every stream synced")
        self.await_condition("gitdestination", "destination", "Synced", type_="Synced")

    def await_listed(self) -> None:
        """Wait until the remote was listed with the last push; older listings cause a fetch."""

        def is_listed() -> bool:
            rows = self.admin.get("gitrepoconfig", "repo").get("status", {}).get("branches", ())
            return self.tip() in [row.get("sha") for row in rows]

        eventually(is_listed, "a listing with the last push")

    def _stream_states(self) -> set[str]:
        rows = self.admin.get("watchrule", "rule").get("status", {}).get("resolved", ())
        return {row["state"] for row in rows}

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            env={"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"},
        )
        return done.stdout if done.returncode == 0 else ""

    def commits(self) -> list[Commit]:
        """Newest first."""
        tip = self.tip()
        if not tip:
            return []
        known = self._commits.get(tip)
        if known is None:
            walk = self._opened.walk(pygit2.Oid(hex=tip), _TOPOLOGICAL)
            known = [_commit(commit) for commit in walk]
            self._commits = {tip: known}
        return [*known]

    def tip(self) -> str:
        """The branch's newest commit, read without a child process because tests poll this."""
        reference = self._opened.references.get(f"refs/heads/{self.branch}")
        return "" if reference is None else str(reference.target)

    @functools.cached_property
    def _opened(self) -> pygit2.Repository:
        """The repository, opened once; every read sees what others wrote."""
        return pygit2.Repository(str(self.path))

    def subjects(self) -> list[str]:
        return [commit.subject for commit in self.commits()]

    def files(self) -> dict[str, str]:
        """The files of the folder but the claim: path below it, content."""
        tip = self.tip()
        if not tip:
            return {}
        known = self._files.get((tip, self.folder))
        if known is None:
            known = self._below_folder(tip)
            self._files = {(tip, self.folder): known}
        return {**known}

    def _below_folder(self, commit: str) -> dict[str, str]:
        tree = self._opened[commit].peel(pygit2.Tree)
        if self.folder not in tree:
            return {}
        folder = tree[self.folder]
        assert isinstance(folder, pygit2.Tree)
        contents = http_server.tree_contents(folder)
        return {path: text for path, text in contents if path.rpartition("/")[2] != _CLAIM}

    def file(self, path: str) -> str:
        return self.git("show", f"{self.branch}:{self.folder}/{path}")

    def await_commit(self, subject: str, *, seconds: float = 20.0) -> Commit:
        return eventually(
            lambda: next((commit for commit in self.commits() if commit.subject == subject), None),
            f"a commit {subject!r} (have {self.subjects()[:6]})",
            seconds=seconds,
        )

    def await_change(self, change: str, *, earlier: Collection[Commit] = ()) -> Commit:
        """The commit of one change, such as `[CREATE] v1/configmaps/one`, whoever its author is.

        Commits in `earlier` are of the same change as it was made before.
        """

        def later_commits() -> list[Commit]:
            known = {commit.sha for commit in earlier}
            later = [commit for commit in self.commits() if commit.sha not in known]
            return [commit for commit in later if commit.subject.startswith(f"{change} by user/")]

        try:
            return eventually(later_commits, f"a commit {change!r}")[-1]
        except AssertionError as error:
            raise AssertionError(f"{error}; have {self.subjects()[:6]}") from None

    def config_map(self, name: str, **data: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace},
            "data": data,
        }


def _commit(commit: pygit2.Commit) -> Commit:
    subject = commit.message.partition("\n\n")[0].replace("\n", " ").strip()
    author = commit.author
    return Commit(str(commit.id), author.name, author.email, subject, commit.message.strip("\n"))
