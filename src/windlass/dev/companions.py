"""Long-running windlass processes that belong to a desk: its git server, its operator.

They are known by naming the desk's directory on their command line, so none can be lost
track of, not even one whose starter was killed before it wrote anything down.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from windlass.dev import processes


def start(directory: Path, name: str, arguments: Sequence[str]) -> Path:
    """Start `windlass ARGUMENTS` detached; its output goes to the log that is returned."""
    if not any(str(directory) in argument for argument in arguments):
        raise ValueError(f"{name} must name {directory}, or it could not be found again")
    log = directory / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        subprocess.Popen(
            [str(program()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "WINDLASS_LOG_FORMAT": "json"},
        )
    return log


def program() -> Path:
    """Our own command, from the environment this very process runs in."""
    return Path(sys.executable).with_name("windlass")


def end(directory: Path) -> None:
    """End every companion of a desk."""
    interpreters = {Path(sys.executable).name, Path(os.path.realpath(sys.executable)).name}
    mine = os.getpid()
    found = [one for one in processes.find(directory, interpreters) if one.pid != mine]
    processes.end(found, directory)
