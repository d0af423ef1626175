"""What every story of the demo stands on: a cluster, a git server, the operator.

Bringing it up again uses what is there. A node comes with it where one can run; where not,
the stories say what they leave out.
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

from windlass.base import atomic
from windlass.base.errors import WindlassError
from windlass.dev import cluster, companions, ports
from windlass.dev.desk import Desk
from windlass.dev.node import precondition
from windlass.dev.progress import Progress
from windlass.objects.json import Object

T = TypeVar("T")

NAME = "demo"
REPOSITORIES = ("infra", "plant", "shop")

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ground:
    """A running cluster with everything around it; `no_node` says why it has no node."""

    desk: Desk
    git_port: int
    probe_port: int
    metrics_port: int
    no_node: str

    @property
    def has_node(self) -> bool:
        return not self.no_node

    @property
    def password_file(self) -> Path:
        return self.desk.directory / "git-password"

    def repository(self, name: str) -> Path:
        """Where a repository lies on this machine."""
        return self.desk.directory / "git" / f"{name}.git"

    def url(self, name: str) -> str:
        """Where the cluster reaches a repository."""
        return f"http://{self.desk.host}:{self.git_port}/{name}.git"

    def kubectl(
        self, *arguments: str, person: str | None = None, stdin: str = "", check: bool = True
    ) -> str:
        """What kubectl says, to a person or to the administrator."""
        desk = self.desk
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

    def found(self, path: str) -> Object:
        """What the API server has at a path, empty if there is nothing; no program is run."""
        answer = self.desk.api.ask(path)
        read: Object = json.loads(answer.text) if answer.ok else {}
        return read

    def log(self, repository: str, *arguments: str) -> str:
        """What `git log` says of a repository."""
        return _git(self.repository(repository), "log", *arguments)

    def commit(self, repository: str, message: str, files: Mapping[str, str]) -> str:
        """Push a commit that writes some files on main; its id."""
        directory = self.repository(repository)
        lines = [
            "commit refs/heads/main\n",
            "committer Carol <carol@example.org> now\n",
            f"data {len(message.encode())}\n{message}\n",
        ]
        if _git(directory, "rev-parse", "--verify", "--quiet", "refs/heads/main").strip():
            lines.append("from refs/heads/main^0\n")
        for path, text in files.items():
            lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n")
        _git(directory, "fast-import", "--quiet", "--date-format=now", stdin="".join(lines))
        return _git(directory, "rev-parse", "refs/heads/main").strip()

    def metric(self, name: str) -> float:
        """The sum of a metric of the operator."""
        text = _fetched(self.metrics_port, "/metrics") or ""
        rows = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


def brought_up(progress: Progress) -> Ground:
    """Everything running, for the first time or still."""
    problem = precondition.why_not() or ""
    desk = cluster.up(NAME, progress=progress, node=not problem)
    git, probe, metrics = (
        ports.kept(desk.directory / f"{name}-port") for name in ("git", "probe", "metrics")
    )
    ground = Ground(desk, git, probe, metrics, problem)
    if problem:
        progress.say(f"without a node: {problem}")
    with progress.step("installing windlass, starting its operator and a git server"):
        # Both take their time to start, and neither needs the other for that.
        _serve_git(ground)
        _operate(ground)
        awaited(lambda: not ports.is_free(ground.git_port), "the git server")
        awaited(lambda: _is_ready(ground), "the operator")
    return ground


def down(progress: Progress) -> None:
    """End everything the demo left running."""
    cluster.down(NAME, progress=progress)


def awaited(look: Callable[[], T], what: str, *, seconds: float = _SECONDS) -> T:
    """The first true answer of `look`, which is asked again and again for a while."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise WindlassError("DemoFailed", f"{what} was not seen in {seconds:g} s")
        time.sleep(0.02)
    return found


def _serve_git(ground: Ground) -> None:
    if not ground.password_file.exists():
        atomic.write_bytes(ground.password_file, secrets.token_hex(16).encode(), mode=0o600)
    if not ports.is_free(ground.git_port):
        return
    arguments = [
        "dev",
        "git",
        f"--root={ground.desk.directory / 'git'}",
        f"--port={ground.git_port}",
        *(f"--create={name}" for name in REPOSITORIES),
        f"--password-file={ground.password_file}",
        *((f"--node={ground.desk.name}",) if ground.has_node else ()),
    ]
    companions.start(ground.desk.directory, "git", arguments)


def _operate(ground: Ground) -> None:
    if _is_ready(ground):
        return
    arguments = [
        "run",
        "--dev",
        f"--kubeconfig={ground.desk.admin_kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{ground.probe_port}",
        f"--metrics-bind-address=127.0.0.1:{ground.metrics_port}",
        "--environments-poll-interval=1s",
    ]
    companions.start(ground.desk.directory, "operator", arguments)


def _is_ready(ground: Ground) -> bool:
    return _fetched(ground.probe_port, "/readyz") is not None


def _git(directory: Path, *arguments: str, stdin: str = "") -> str:
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


def _fetched(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            text: bytes = answer.read()
            return text.decode()
    except (urllib.error.URLError, OSError):
        return None
