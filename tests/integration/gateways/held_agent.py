"""`windlass agent` that stands still at a named place until it is let go.

Run as a program. HELD_AT names the place, HELD_IN a directory: `reached` appears there when
the place is reached for the first time, `stopping` when the agent has heard that it shall
end, and writing to the pipe `go` lets it go on. HELD_SECONDS is how long an end may take.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from windlass.app import agent
from windlass.base import failpoint
from windlass.cli.main import main
from windlass.gateways.agent.loop import AgentLoop


def _held(reach: Callable[[str], None], place: str, directory: Path) -> Callable[[str], None]:
    def reached(name: str) -> None:
        reach(name)
        mark = directory / "reached"
        if name == place and not mark.exists():
            mark.touch()
            (directory / "go").read_bytes()

    return reached


def _report_stop(stop: Callable[[AgentLoop], None], directory: Path) -> Callable[[AgentLoop], None]:
    def stop_and_report(loop: AgentLoop) -> None:
        stop(loop)
        (directory / "stopping").touch()

    return stop_and_report


if __name__ == "__main__":
    where = Path(os.environ["HELD_IN"])
    failpoint.reach = _held(failpoint.reach, os.environ["HELD_AT"], where)
    AgentLoop.stop = _report_stop(AgentLoop.stop, where)  # type: ignore[method-assign]
    agent.SHUTDOWN_SECONDS = float(os.environ.get("HELD_SECONDS", agent.SHUTDOWN_SECONDS))
    main()
