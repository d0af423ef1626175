"""The bare repositories of the development git server.

They allow filters and fetches by object id, as the large forges do. Their hooks reject a
push when the active fault demands it, so the client meets the rejection of a real hook.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_CONFIG = (
    ("http.receivepack", "true"),
    ("uploadpack.allowFilter", "true"),
    ("uploadpack.allowAnySHA1InWant", "true"),
    ("receive.fsckObjects", "true"),
    ("core.logAllRefUpdates", "true"),
    ("gc.auto", "0"),
)
REJECT_VARIABLE = "WINDLASS_DEV_REJECT"
PROTECT_VARIABLE = "WINDLASS_DEV_PROTECT"
_PRE_RECEIVE = f"""#!/bin/sh
if [ -n "${REJECT_VARIABLE}" ]; then
  printf '%s\\n' "${REJECT_VARIABLE}" >&2
  exit 1
fi
"""
_UPDATE = f"""#!/bin/sh
if [ "$1" = "refs/heads/${PROTECT_VARIABLE}" ]; then
  echo "this is a protected branch: changes must be made through a merge request" >&2
  exit 1
fi
"""
_GIT_SECONDS = 30


class InvalidRepositoryName(ValueError):
    """The name is not allowed for a repository."""


class BareRepositories:
    """Bare repositories below `root`, by name without `.git`."""

    def __init__(self, root: Path, git: str = "git") -> None:
        self.root = root
        self._git = git

    def path(self, name: str) -> Path:
        """The directory of the repository `name`, existing or not."""
        bare_name = name.strip("/").removesuffix(".git")
        if not _NAME.fullmatch(bare_name) or ".." in bare_name:
            raise InvalidRepositoryName(
                "repository names consist of letters, digits and `._-`, with `/` between parts"
            )
        return self.root / f"{bare_name}.git"

    def create(self, name: str, *, branch: str = "main", object_format: str = "sha1") -> Path:
        """Create the repository `name` unless it exists; return its directory."""
        path = self.path(name)
        if (path / "HEAD").exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._run(
            "init", "--quiet", "--bare", f"--object-format={object_format}",
            f"--initial-branch={branch}", "--template=", str(path),
        )  # fmt: skip
        for key, value in _CONFIG:
            self._run("--git-dir", str(path), "config", key, value)
        (path / "hooks").mkdir(exist_ok=True)
        for hook, text in (("pre-receive", _PRE_RECEIVE), ("update", _UPDATE)):
            (path / "hooks" / hook).write_text(text)
            (path / "hooks" / hook).chmod(0o755)
        return path

    def _run(self, *args: str) -> None:
        subprocess.run(
            [self._git, *args],
            check=True,
            env=git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
        )


def git_environment() -> dict[str, str]:
    """The environment of every git of the server, without the user's configuration."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
