"""Runs the environments controller in one child after the other, each armed to die somewhere.

Each line on stdin is what WINDLASS_FAILPOINTS is set to. The answer is the child's pid, and
once it has ended its exit code. Everything is imported once, so a child starts at once.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from prometheus_client import CollectorRegistry

from tests.support.git.http_server import git_settings
from windlass.base import failpoint
from windlass.base.clock import SystemClock
from windlass.environments.controller import EnvironmentsController, EnvironmentsSettings
from windlass.environments.owned_objects import OperatorAccount
from windlass.kube.connection import Connection
from windlass.sources.git_service import GitService
from windlass.telemetry.environments import EnvironmentMetrics


async def _control(kubeconfig: Path, directory: Path) -> None:
    settings = EnvironmentsSettings(
        work_directory=directory / "work",
        operator=OperatorAccount("windlass-operator"),
        poll_seconds=0.5,
    )
    async with Connection.open(kubeconfig=kubeconfig) as connection:
        metrics = EnvironmentMetrics(CollectorRegistry())
        clock = SystemClock()
        service = GitService(git_settings(directory), clock=clock)
        await EnvironmentsController(
            connection, settings, service, clock=clock, metrics=metrics
        ).run()


def _live(kubeconfig: Path, directory: Path, armed: str) -> NoReturn:
    os.dup2(2, 1)  # what it logs is no answer
    os.environ["WINDLASS_FAILPOINTS"] = armed
    importlib.reload(failpoint)
    try:
        asyncio.run(_control(kubeconfig, directory))
    finally:
        os._exit(1)


def main(kubeconfig: Path, directory: Path) -> None:
    """Serve until stdin ends, or whoever started us does."""
    owner = os.getppid()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(kubeconfig, directory, line.strip())
        _answer(child)
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if os.getppid() != owner:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        _answer(os.waitstatus_to_exitcode(ended[1]))


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
