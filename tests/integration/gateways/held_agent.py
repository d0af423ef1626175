"""`windlass agent` that is held at a failpoint until a test releases it.

Run as a program. HELD_AT names the failpoint, HELD_IN a directory: `reached` appears there
when the failpoint is reached for the first time, `stopping` when the agent was asked to stop,
and writing to the pipe `go` releases it. HELD_SECONDS is how long a shutdown may take.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from windlass.app import agent
from windlass.base import failpoint
from windlass.cli.main import main
from windlass.gateways.agent.loop import AgentLoop


def _hold_at(
    reach: Callable[[str], None], failpoint_name: str, directory: Path
) -> Callable[[str], None]:
    def reached(name: str) -> None:
        reach(name)
        marker = directory / "reached"
        if name == failpoint_name and not marker.exists():
            marker.touch()
            (directory / "go").read_bytes()

    return reached


def _report_stop(stop: Callable[[AgentLoop], None], directory: Path) -> Callable[[AgentLoop], None]:
    def stop_and_report(loop: AgentLoop) -> None:
        stop(loop)
        (directory / "stopping").touch()

    return stop_and_report


if __name__ == "__main__":
    held_in = Path(os.environ["HELD_IN"])
    failpoint.reach = _hold_at(failpoint.reach, os.environ["HELD_AT"], held_in)
    AgentLoop.stop = _report_stop(AgentLoop.stop, held_in)  # type: ignore[method-assign]
    agent.SHUTDOWN_SECONDS = float(os.environ.get("HELD_SECONDS", agent.SHUTDOWN_SECONDS))
    main()
