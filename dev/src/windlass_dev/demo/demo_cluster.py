"""What every story of the demo runs on: a cluster, a git server, the operator.

Bringing it up again uses what is there. A node comes with it where one can run; where not,
the stories print what they leave out.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from windlass.base import files
from windlass.base.errors import WindlassError
from windlass.objects.names import Object
from windlass_dev.cluster import cluster, ports, processes
from windlass_dev.cluster.local_cluster import LocalCluster
from windlass_dev.node import requirements
from windlass_dev.progress import ProgressReporter

T = TypeVar("T")

CLUSTER_NAME = "demo"
REPOSITORIES = ("infra", "plant", "shop")

_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A running cluster with everything around it; `no_node` says why it has no node."""

    cluster: LocalCluster
    git_port: int
    probe_port: int
    metrics_port: int
    no_node: str

    @property
    def has_node(self) -> bool:
        return not self.no_node

    @property
    def password_file(self) -> Path:
        return self.cluster.directory / "git-password"

    def repository(self, name: str) -> Path:
        """Where a repository lies on this machine."""
        return self.cluster.directory / "git" / f"{name}.git"

    def url(self, name: str) -> str:
        """Where the cluster reaches a repository."""
        return f"http://{self.cluster.host}:{self.git_port}/{name}.git"

    def kubectl(
        self, *arguments: str, person: str | None = None, stdin: str = "", check: bool = True
    ) -> str:
        """What kubectl says, to a person or to the administrator."""
        desk = self.cluster
        kubeconfig = desk.user_kubeconfig(person) if person else desk.admin_kubeconfig
        done = subprocess.run(
            [str(desk.kubectl), f"--kubeconfig={kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            shown = " ".join(arguments)
            raise WindlassError("DemoFailed", f"kubectl {shown}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def get(self, path: str) -> Object:
        """What the API server has at a path, empty if there is nothing; no program is run."""
        answer = self.cluster.api.request(path)
        read: Object = json.loads(answer.text) if answer.ok else {}
        return read

    def git_log(self, repository: str, *arguments: str) -> str:
        """What `git log` says of a repository."""
        return _run_git(self.repository(repository), "log", *arguments)

    def commit(self, repository: str, message: str, files: Mapping[str, str]) -> str:
        """Push a commit that writes some files on main; its id."""
        directory = self.repository(repository)
        lines = [
            "commit refs/heads/main\n",
            "committer Carol <carol@example.org> now\n",
            f"data {len(message.encode())}\n{message}\n",
        ]
        if _run_git(directory, "rev-parse", "--verify", "--quiet", "refs/heads/main").strip():
            lines.append("from refs/heads/main^0\n")
        for path, text in files.items():
            lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n")
        _run_git(directory, "fast-import", "--quiet", "--date-format=now", stdin="".join(lines))
        return _run_git(directory, "rev-parse", "refs/heads/main").strip()

    def metric(self, name: str) -> float:
        """The sum of a metric of the operator."""
        text = _http_get(self.metrics_port, "/metrics") or ""
        rows = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


def bring_up(progress: ProgressReporter) -> DemoCluster:
    """Everything running, for the first time or still."""
    problem = requirements.unmet_requirement() or ""
    desk = cluster.up(CLUSTER_NAME, progress=progress, node=not problem)
    git, probe, metrics = (
        ports.port_from_file(desk.directory / f"{name}-port")
        for name in ("git", "probe", "metrics")
    )
    ground = DemoCluster(desk, git, probe, metrics, problem)
    if problem:
        progress.report(f"without a node: {problem}")
    with progress.step("installing windlass, starting its operator and a git server"):
        # Both take their time to start, and neither needs the other for that.
        _start_git_server(ground)
        _start_operator(ground)
        wait_for(lambda: not ports.is_free(ground.git_port), "the git server")
        wait_for(lambda: _is_operator_ready(ground), "the operator")
    return ground


def remove_cluster(progress: ProgressReporter) -> None:
    """End everything the demo left running."""
    cluster.down(CLUSTER_NAME, progress=progress)


def wait_for(look: Callable[[], T], what: str, *, seconds: float = _WAIT_SECONDS) -> T:
    """The first true answer of `look`, which is asked again and again for a while."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise WindlassError("DemoFailed", f"{what} was not seen in {seconds:g} s")
        time.sleep(0.02)
    return found


def _start_git_server(ground: DemoCluster) -> None:
    if not ground.password_file.exists():
        files.write_atomically(ground.password_file, secrets.token_hex(16).encode(), mode=0o600)
    if not ports.is_free(ground.git_port):
        return
    arguments = [
        "dev",
        "git",
        f"--root={ground.cluster.directory / 'git'}",
        f"--port={ground.git_port}",
        *(f"--create={name}" for name in REPOSITORIES),
        f"--password-file={ground.password_file}",
        *((f"--node={ground.cluster.name}",) if ground.has_node else ()),
    ]
    processes.start_background(ground.cluster.directory, "git", arguments)


def _start_operator(ground: DemoCluster) -> None:
    if _is_operator_ready(ground):
        return
    arguments = [
        "run",
        "--dev",
        f"--kubeconfig={ground.cluster.admin_kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{ground.probe_port}",
        f"--metrics-bind-address=127.0.0.1:{ground.metrics_port}",
        "--environments-poll-interval=1s",
    ]
    processes.start_background(ground.cluster.directory, "operator", arguments)


def _is_operator_ready(ground: DemoCluster) -> bool:
    return _http_get(ground.probe_port, "/readyz") is not None


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


def _http_get(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            text: bytes = answer.read()
            return text.decode()
    except (urllib.error.URLError, OSError):
        return None


def indent(text: str) -> str:
    """Something that was observed, set off from what is told."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def story_heading(number: int, title: str) -> str:
    """The beginning of a story."""
    line = f"{number}  {title}"
    return f"\n{line}\n{'─' * len(line)}"
