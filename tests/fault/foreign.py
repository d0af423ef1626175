"""A foreign writer that pushes to the same branch from an ordinary clone."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Self

from windlass_dev.git_server.bare_repositories import git_environment


class ForeignWriter:
    """Pushes file after file in a thread of its own, each on the newest tip."""

    def __init__(self, repository: Path, directory: Path) -> None:
        self.pushed: list[str] = []
        self._directory = directory / "foreign"
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._git("clone", "--quiet", str(repository), str(self._directory), clone=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the other writer ended"

    def _work(self) -> None:
        number = 0
        while not self._enough.is_set():
            number += 1
            name = f"foreign-{number}.txt"
            if self._push(name):
                self.pushed.append(name)

    def _push(self, name: str) -> bool:
        self._git("fetch", "--quiet", "origin")
        self._git("reset", "--quiet", "--hard", "origin/main")
        (self._directory / name).write_text("not yours\n")
        self._git("add", name)
        self._git("commit", "--quiet", "-m", name)
        return self._git("push", "--quiet", "origin", "HEAD:main", check=False)

    def _git(self, *arguments: str, check: bool = True, clone: bool = False) -> bool:
        person = ("-c", "user.name=Someone Else", "-c", "user.email=else@example.org")
        done = subprocess.run(
            ["git", *person, *arguments],
            cwd=None if clone else self._directory,
            env=git_environment(),
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0 or not check, done.stderr.decode()
        return done.returncode == 0
