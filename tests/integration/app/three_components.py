"""A role of three components that print what happens to them; run as a program.

The first argument is the port of its probes, the second what is special: nothing, `hold` (the
second component waits at its stop until somebody writes to its standard input), `fail` (the task of
the second one fails), `wait` (the second one never finishes its start).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from windlass.app.role import Endpoints, Role, run_in_background
from windlass.base.errors import WindlassError
from windlass.telemetry import logs


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _work(fails: bool) -> None:
    if fails:
        raise WindlassError("Broken", "the second one failed")
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _component(name: str, special: str) -> AsyncIterator[asyncio.Task[None]]:
    _print_line(f"starts {name}")
    if special == "wait":
        await asyncio.Event().wait()
    async with run_in_background(name, lambda: _work(special == "fail")) as task:
        try:
            yield task
        finally:
            _print_line(f"stops {name}")
            if special == "hold":
                await asyncio.to_thread(sys.stdin.readline)
            _print_line(f"stopped {name}")


async def _main(port: int, special: str) -> None:
    served = Endpoints(("127.0.0.1", port), ("127.0.0.1", 0), ready={"all": lambda: None})
    components = [
        _component("first", ""),
        _component("second", special),
        _component("third", ""),
    ]
    try:
        await Role("test", served, components).run()
    except WindlassError as error:
        _print_line(error.reason)
        sys.exit(1)


if __name__ == "__main__":
    logs.configure(format="json", level="info")
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2]))
