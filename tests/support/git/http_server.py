"""Real git servers on loopback for tests: smart HTTP in a thread, ssh where sshd is installed."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pygit2

from tests.support.processes.polling import DEADLINE_SECONDS
from tests.support.processes.server_loop import server_loop
from windlass.git.credentials import Credentials
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings
from windlass_dev.git_server.bare_repositories import git_environment
from windlass_dev.git_server.smart_http import GitServer, GitServerSettings

LOOPBACK = frozenset({"127.0.0.1", "localhost"})
PASSWORD = "correct-horse-battery"
TOKEN = "tok_3141592653589793"


@dataclass
class RunningGitServer:
    """A running server with helpers for its repositories."""

    server: GitServer

    def remote(self, name: str) -> Remote:
        return Remote.parse(self.server.url(name))

    def create(self, name: str, files: Mapping[str, str] | None = None) -> Path:
        path = self.server.create(name)
        if files is not None:
            commit_files(path, files)
        return path

    @property
    def credentials(self) -> Credentials:
        return Credentials(username="git", password=PASSWORD)


@contextlib.contextmanager
def running_git_server(root: Path, **settings: object) -> Iterator[RunningGitServer]:
    """A server in a thread of its own, so that tests may block."""
    chosen = dataclasses.replace(GitServerSettings(root=root), **settings)  # type: ignore[arg-type]
    server = GitServer(chosen)
    with server_loop() as running:
        running.run(server.start())
        try:
            yield RunningGitServer(server)
        finally:
            running.run(server.stop())


def git_settings(tmp_path: Path, **changes: object) -> GitSettings:
    """Settings that reach the test servers, with a run directory that tests can read."""
    base = GitSettings(run_directory=tmp_path / "run", insecure_hosts=LOOPBACK)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def git(repository: Path, *args: str, stdin: bytes = b"") -> str:
    """Plain git on a bare repository, as a foreign writer would use it."""
    person = {"NAME": "Someone Else", "EMAIL": "else@example.org", "DATE": "1700000000 +0000"}
    people = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in person.items()
    }
    done = subprocess.run(
        ["git", "--git-dir", str(repository), *args],
        env=git_environment() | people,
        input=stdin,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def commit_files(
    repository: Path, files: Mapping[str, str | None], *, branch: str = "main", orphan: bool = False
) -> str:
    """A foreign commit, straight into the server's repository."""
    lines = [
        f"commit refs/heads/{branch}\n",
        "committer Someone Else <else@example.org> 1700000000 +0000\n",
        "data 5\nother\n",
    ]
    tip = branch_tips(repository).get(branch)
    if tip and not orphan:
        lines.append(f"from {tip}\n")
    elif orphan:
        lines.append("deleteall\n")
    for path, text in files.items():
        if text is None:
            lines.append(f"D {path}\n")
        else:
            lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n")
    if orphan and tip:
        git(repository, "update-ref", "-d", f"refs/heads/{branch}")
    git(repository, "fast-import", "--quiet", "--force", stdin="".join(lines).encode())
    return branch_tips(repository)[branch]


def branch_tips(repository: Path) -> dict[str, str]:
    """Branches and their commits, read without a child process because tests poll this."""
    try:
        references = pygit2.Repository(str(repository)).references
    except pygit2.GitError:
        # libgit2 reads no repository with long ids.
        form = "--format=%(refname) %(objectname)"
        rows = [line.split() for line in git(repository, "for-each-ref", form).splitlines()]
    else:
        rows = [[reference.name, str(reference.target)] for reference in references.iterator()]
    heads = "refs/heads/"
    return {ref.removeprefix(heads): commit for ref, commit in rows if ref.startswith(heads)}


def files_at(repository: Path, branch: str = "main") -> dict[str, str]:
    """Every file of a branch with its content."""
    opened = pygit2.Repository(str(repository))
    tree = opened.references[f"refs/heads/{branch}"].peel(pygit2.Tree)
    return dict(tree_contents(tree))


def tree_contents(tree: pygit2.Tree, above: str = "") -> Iterator[tuple[str, str]]:
    """Every file below a tree with its content, a link with its target."""
    for entry in tree:
        if isinstance(entry, pygit2.Tree):
            yield from tree_contents(entry, f"{above}{entry.name}/")
        elif isinstance(entry, pygit2.Blob):
            yield f"{above}{entry.name}", entry.data.decode("utf-8", "replace")


def wait_until(condition: object, seconds: float = DEADLINE_SECONDS) -> None:
    """Until `condition()` holds."""
    deadline = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        threading.Event().wait(0.01)


def command_lines_and_environments() -> str:
    """Command line and environment of every process of the machine."""
    shown: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                shown.append((process / name).read_bytes())
    return b"\n".join(shown).decode("utf-8", "replace")
