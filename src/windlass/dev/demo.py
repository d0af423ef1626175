"""The demo: two people change a cluster, and their commits appear in Git.

Everything that is printed was observed: commits are read back from the git server, with
their author and diff. What was promised and not seen in time makes the demo fail.
Everything is left running to look around; running it again uses what is there.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from windlass.base import atomic
from windlass.base.errors import WindlassError
from windlass.dev import cluster, companions, ports
from windlass.dev.demo_story import FIRST_COMMIT, NAMESPACE, OBJECTS, STEPS, Step
from windlass.dev.desk import Desk
from windlass.dev.progress import Progress

T = TypeVar("T")

NAME = "demo"
_REPOSITORY = "infra"
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of a demo are."""

    desk: Desk
    git_port: int
    probe_port: int
    metrics_port: int

    @property
    def repository(self) -> Path:
        return self.desk.directory / "git" / f"{_REPOSITORY}.git"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.git_port}/{_REPOSITORY}.git"

    @property
    def password_file(self) -> Path:
        return self.desk.directory / "git-password"


def run(progress: Progress, tell: Callable[[str], None]) -> bool:
    """Bring everything up, play the story, tell what was seen; whether all of it was."""
    found = _brought_up(progress)
    with progress.step("waiting until authors can be proven"):
        _await(lambda: _metric(found, "windlass_mirror_authors_provable") == 1.0, "the operator")
    with progress.step("telling windlass what to mirror, and where to"):
        _kubectl(found.desk, None, "apply", "-f", "-", stdin=_objects(found))
        first = _await(lambda: _oldest(found, FIRST_COMMIT), "the first commit")
    tell(f"\n{first}\n")
    with progress.step("clearing away what an earlier run left"):
        _kubectl(found.desk, None, "delete", "namespace", NAMESPACE, "--ignore-not-found")
    seen = [_play(found, step, tell) for step in STEPS]
    tell(_farewell(found))
    return all(seen)


def down(progress: Progress) -> None:
    """End everything the demo left running."""
    cluster.down(NAME, progress=progress)


def _brought_up(progress: Progress) -> Places:
    made = cluster.up(NAME, progress=progress)
    found = Places(made, *(_port(made, name) for name in ("git", "probe", "metrics")))
    if not found.password_file.exists():
        atomic.write_bytes(found.password_file, secrets.token_hex(16).encode(), mode=0o600)
    if not _answers(found.git_port):
        with progress.step("starting a git server"):
            companions.start(made.directory, "git", _git_arguments(found))
            _await(lambda: _answers(found.git_port), "the git server")
    if not _is_ready(found):
        with progress.step("installing windlass and starting its operator"):
            companions.start(made.directory, "operator", _operator_arguments(found))
            _await(lambda: _is_ready(found), "the operator")
    for person in ("alice", "bob"):
        _kubectl(made, None, "apply", "-f", "-", stdin=_admin_binding(person))
    return found


def _git_arguments(found: Places) -> list[str]:
    return [
        "dev",
        "git",
        f"--root={found.desk.directory / 'git'}",
        f"--port={found.git_port}",
        f"--create={_REPOSITORY}",
        f"--password-file={found.password_file}",
    ]


def _operator_arguments(found: Places) -> list[str]:
    return [
        "run",
        "--dev",
        f"--kubeconfig={found.desk.admin_kubeconfig}",
        f"--health-probe-bind-address=127.0.0.1:{found.probe_port}",
        f"--metrics-bind-address=127.0.0.1:{found.metrics_port}",
    ]


def _port(made: Desk, name: str) -> int:
    """A port of the demo's own, chosen once."""
    return ports.kept(made.directory / f"{name}-port")


def _objects(found: Places) -> str:
    password = found.password_file.read_text()
    return OBJECTS.format(url=found.url, password=password)


def _admin_binding(person: str) -> str:
    return (
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,"
        f" metadata: {{name: demo-{person}}},"
        " roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},"
        f" subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {person}}}]}}"
    )


def _play(found: Places, step: Step, tell: Callable[[str], None]) -> bool:
    """One person does one thing; the commit that follows is told."""
    before = _log(found, "--format=%H", "-1").strip()
    tell(f"\n$ # {step.person}: {step.meaning}\n$ {step.command}")
    began = time.monotonic()
    output = _kubectl(found.desk, step.person, *step.arguments)
    tell(output.strip())
    try:
        commit = _await(lambda: _after(found, before, step), f"a commit by {step.person}")
    except WindlassError as error:
        tell(f"  NOT SEEN: {error.message}")
        return False
    tell(f"  seen in Git {time.monotonic() - began:.2f} s after the command began:")
    tell(
        _indented(
            _log(found, "-1", "-p", "--format=commit %h%nAuthor: %an <%ae>%n%n    %s", commit)
        )
    )
    return True


def _after(found: Places, before: str, step: Step) -> str:
    """The newest commit since `before`, if it is by the person of the step."""
    rows = _log(found, "--format=%H %an", f"{before}..main").split("\n")
    mine = [row.partition(" ")[0] for row in rows if row.endswith(f" {step.person}")]
    return mine[0] if mine else ""


def _oldest(found: Places, subject: str) -> str:
    """The commit that everything began with."""
    root = _log(found, "--max-parents=0", "--format=%H", "main").strip()
    if not root:
        return ""
    text = _log(
        found, "-1", "--format=commit %h%nAuthor: %an <%ae>%n%n    %s%n", "--shortstat", root
    )
    return text if subject in text else ""


def _log(found: Places, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["git", f"--git-dir={found.repository}", "log", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    return done.stdout


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def _kubectl(
    made: Desk, person: str | None, *arguments: str, stdin: str = "", check: bool = True
) -> str:
    kubeconfig = made.user_kubeconfig(person) if person else made.admin_kubeconfig
    done = subprocess.run(
        [str(made.kubectl), f"--kubeconfig={kubeconfig}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode != 0:
        raise WindlassError("DemoFailed", f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout + done.stderr


def _answers(port: int) -> bool:
    return not ports.is_free(port)


def _is_ready(found: Places) -> bool:
    return _fetched(found.probe_port, "/readyz") is not None


def _metric(found: Places, name: str) -> float:
    text = _fetched(found.metrics_port, "/metrics") or ""
    rows = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


def _fetched(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            text: bytes = answer.read()
            return text.decode()
    except (urllib.error.URLError, OSError):
        return None


def _await(look: Callable[[], T], what: str) -> T:
    """The first true answer of `look`, which is asked again and again for a while."""
    end = time.monotonic() + _SECONDS
    while not (found := look()):
        if time.monotonic() > end:
            raise WindlassError("DemoFailed", f"{what} was not seen in {_SECONDS:g} s")
        time.sleep(0.02)
    return found


def _farewell(found: Places) -> str:
    name = found.desk.name
    return f"""
Everything is still running. To look around:

  eval "$(.venv/bin/windlass dev env --name {name} --user alice)"
  kubectl get grc,gdest,cwrule -A          # what is mirrored, and where to
  git --git-dir={found.repository} log -p main
  tail {found.desk.directory}/logs/operator.log

To stop and remove all of it: make demo-down
"""
