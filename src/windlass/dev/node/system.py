"""Runs the small programs of the system that change its network, mounts, namespaces."""

from __future__ import annotations

import os
import subprocess

from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor

SEARCH = os.pathsep.join(("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"))

_SECONDS = 30.0


def run(*command: str, text: str = "") -> str:
    """What `command` printed, given `text` to read; a failure is told with its words."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env={"PATH": path(), "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise _failed(command, str(fault)) from fault
    if done.returncode != 0:
        raise _failed(command, done.stderr or done.stdout)
    return done.stdout


def path() -> str:
    """Where programs are looked for: root's places too, whatever the caller's PATH lacks."""
    given = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    return os.pathsep.join([*given, SEARCH])


def _failed(command: tuple[str, ...], said: str) -> WindlassError:
    # What enters a namespace says so at length; what it does there stands behind.
    own = command[command.index("--") + 1 :] if "--" in command else command
    shown = " ".join(own[:4])
    return WindlassError("NodeFailed", f"`{shown}` failed: {redactor.clean(said.strip())[:600]}")
