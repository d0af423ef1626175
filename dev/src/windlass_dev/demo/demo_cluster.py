"""The cluster of the demo: a local cluster, a git server, the operator.

Bringing it up again uses what is running. It has a node where one can run; where not, the
stories print what they leave out.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import TypeVar

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.cluster import cluster, http_probe, ports, processes
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node import requirements
from windlass_dev.progress import ProgressReporter

T = TypeVar("T")

CLUSTER_NAME = "demo"
REPOSITORIES = ("infra", "plant", "shop")

_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A running cluster with git server and operator, and what the stories do with them."""

    cluster: LocalCluster
    git_port: int
    """The port of the git server."""
    probe_port: int
    """The port of the operator's health probes."""
    metrics_port: int
    """The port of the operator's metrics."""
    no_node: str
    """Why the cluster has no node; empty if it has one."""
    progress: ProgressReporter
    """Receives the waits of the stories."""
    echo: Callable[[str], None]
    """Prints the narration and what was observed."""

    @property
    def has_node(self) -> bool:
        """Whether pods can run."""
        return not self.no_node

    @property
    def password_file(self) -> Path:
        """The file with the password of the git server."""
        return self.cluster.directory / "git-password"

    def repository(self, name: str) -> Path:
        """The directory of a repository on this machine."""
        return self.cluster.directory / "git" / f"{name}.git"

    def url(self, name: str) -> str:
        """The URL at which the cluster reaches a repository."""
        return f"http://{self.cluster.host}:{self.git_port}/{name}.git"

    def kubectl(
        self, *arguments: str, person: str | None = None, stdin: str = "", check: bool = True
    ) -> str:
        """Run kubectl as `person`, or as administrator; return its output.

        Without `check`, the output of a command that fails is empty.
        """
        cluster = self.cluster
        kubeconfig = cluster.user_kubeconfig(person) if person else cluster.admin_kubeconfig
        result = subprocess.run(
            [str(cluster.kubectl), f"--kubeconfig={kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode == 0:
            return result.stdout + result.stderr
        if check:
            shown = " ".join(arguments)
            raise WindlassError("DemoFailed", f"kubectl {shown}: {result.stderr.strip()}")
        return ""

    def show_kubectl(self, command: str, *, person: str | None = None, comment: str = "") -> None:
        """Print a command of kubectl, run it, and print its output."""
        self.echo(f"$ kubectl {command}{f'   # {comment}' if comment else ''}")
        self.echo(self.kubectl(*shlex.split(command), person=person).strip())

    def apply(self, name: str, *, repository: str = "") -> None:
        """Apply a manifest that may refer to `repository` and its password."""
        password = self.password_file.read_text()
        text = read_manifest(name, url=self.url(repository), password=password)
        self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, path: str) -> Object:
        """The object at a path of the API server, empty if there is none; faster than kubectl."""
        response = self.cluster.api.request(path)
        document: Object = json.loads(response.text) if response.ok else {}
        return document

    def git_log(self, repository: str, *arguments: str) -> str:
        """The output of `git log` in a repository."""
        return _run_git(self.repository(repository), "log", *arguments)

    def head(self, repository: str) -> str:
        """The id of the newest commit on main; empty if there is none."""
        return self.git_log(repository, "-1", "--format=%H", "main").strip()

    def push(self, repository: str, message: str, files: Mapping[str, str]) -> str:
        """Add a commit as `commit` does, and print the push that it stands for."""
        commit = self.commit(repository, message, files)
        self.echo(f"\n$ git push   # {commit[:8]} {message}")
        return commit

    def commit(self, repository: str, message: str, files: Mapping[str, str]) -> str:
        """Add a commit that writes `files` to main; return its id."""
        directory = self.repository(repository)
        lines = [
            "commit refs/heads/main\n",
            "committer Carol <carol@example.org> now\n",
            f"data {len(message.encode())}\n{message}\n",
        ]
        if self.head(repository):
            lines.append("from refs/heads/main^0\n")
        for path, text in files.items():
            lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n")
        _run_git(directory, "fast-import", "--quiet", "--date-format=now", stdin="".join(lines))
        return self.head(repository)

    def metric(self, name: str) -> float:
        """The sum of the operator's metrics whose names begin with `name`."""
        text = http_probe.get(f"http://127.0.0.1:{self.metrics_port}", "/metrics").text
        rows = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


def bring_up(progress: ProgressReporter, echo: Callable[[str], None]) -> DemoCluster:
    """Bring up the cluster, the git server and the operator, as far as they do not run."""
    problem = requirements.unmet_requirement() or ""
    local_cluster = cluster.up(CLUSTER_NAME, progress=progress, node=not problem)
    git, probe, metrics = (
        ports.port_from_file(local_cluster.directory / f"{name}-port")
        for name in ("git", "probe", "metrics")
    )
    demo = DemoCluster(local_cluster, git, probe, metrics, problem, progress, echo)
    if problem:
        progress.report(f"running without a node: {problem}")
    with progress.step("installing windlass, starting the operator and a git server"):
        # Started together: both are slow to start, and neither needs the other for that.
        _start_git_server(demo)
        _start_operator(demo)
        wait_for(lambda: not ports.is_free(demo.git_port), "the git server")
        wait_for(lambda: _is_operator_ready(demo), "the operator")
    return demo


def remove_cluster(progress: ProgressReporter) -> None:
    """Remove the cluster of the demo with all its processes."""
    existed = cluster.down(CLUSTER_NAME, progress=progress)
    progress.report(f"cluster {CLUSTER_NAME!r} {'removed' if existed else 'not found'}")


def wait_for(poll: Callable[[], T], subject: str, *, seconds: float = _WAIT_SECONDS) -> T:
    """Call `poll` until its result is true, and return that; `DemoFailed` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (result := poll()):
        if time.monotonic() > deadline:
            raise WindlassError(
                "DemoFailed", f"timed out after {seconds:g} s waiting for {subject}"
            )
        time.sleep(0.02)
    return result


def _start_git_server(demo: DemoCluster) -> None:
    if not demo.password_file.exists():
        files.write_atomically(demo.password_file, secrets.token_hex(16).encode(), mode=0o600)
    if not ports.is_free(demo.git_port):
        return
    arguments = [
        "dev",
        "git",
        f"--root={demo.cluster.directory / 'git'}",
        f"--port={demo.git_port}",
        *(f"--create={name}" for name in REPOSITORIES),
        f"--password-file={demo.password_file}",
        *((f"--node={demo.cluster.name}",) if demo.has_node else ()),
    ]
    processes.start_background(demo.cluster.directory, "git", arguments)


def _start_operator(demo: DemoCluster) -> None:
    if _is_operator_ready(demo):
        return
    arguments = [
        "run",
        "--dev",
        f"--kubeconfig={demo.cluster.admin_kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{demo.probe_port}",
        f"--metrics-bind-address=127.0.0.1:{demo.metrics_port}",
        "--environments-poll-interval=1s",
    ]
    processes.start_background(demo.cluster.directory, "operator", arguments)


def _is_operator_ready(demo: DemoCluster) -> bool:
    return http_probe.get(f"http://127.0.0.1:{demo.probe_port}", "/readyz").ok


def _run_git(directory: Path, *arguments: str, stdin: str = "") -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["git", f"--git-dir={directory}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    return done.stdout


def read_manifest(name: str, **values: str) -> str:
    """The manifest `name` of the demo, with `$name` replaced by `values`."""
    text = (resources.files("windlass_dev.demo") / "manifests" / name).read_text()
    return Template(text).substitute(values)


def indent(text: str) -> str:
    """`text` indented: observed output, set off from the narration."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines())
