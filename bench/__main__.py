"""`python -m bench`: measure the rows and print one table.

Progress goes to stderr, the result to stdout. A missed goal is shown in the table and does
not fail the run; a row that cannot be measured does, after the others have run.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from bench import (
    admission,
    agent_memory,
    emitter,
    environments,
    fresh,
    many_files,
    memory,
    one_file,
    push,
    racing,
    request,
    startup,
    sync,
    watch,
)
from bench.figure import Figure, print_json, print_table
from bench.testbed import Testbed
from windlass.telemetry import logs
from windlass_dev import progress

# In the order in which they run: what wants a quiet machine first, and the crowd of
# objects grows from row to row.
ROWS: dict[str, Callable[[Testbed], Iterator[Figure]]] = {
    "emitter": emitter.measure,
    "one-file": one_file.measure,
    "many-files": many_files.measure,
    "racing": racing.measure,
    "sync": sync.measure,
    "agent-memory": agent_memory.measure,
    "startup": startup.measure,
    "watch": watch.measure,
    "request": request.measure,
    "environments": environments.measure,
    "push": push.measure,
    "fresh": fresh.measure,
    "admission": admission.measure,
    "memory": memory.measure,
}


def main() -> int:
    """Measure the rows that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=list(ROWS), help="a row to measure; may be repeated"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    logs.configure("text", "error")
    began = time.monotonic()
    with Testbed(progress.reporter_for(sys.stderr)) as testbed:
        try:
            figures, failed = _measure_rows(testbed, arguments.only or list(ROWS))
        except KeyboardInterrupt:
            testbed.progress.report("interrupted; cleaning up")
            return 130
    if arguments.output == "json":
        print_json(figures, time.monotonic() - began)
    else:
        print_table(figures)
    return 1 if failed else 0


def _measure_rows(testbed: Testbed, names: Sequence[str]) -> tuple[list[Figure], bool]:
    figures: list[Figure] = []
    failed = False
    for name in [row for row in ROWS if row in names]:
        try:
            figures.extend(ROWS[name](testbed))
        except Exception:
            # One row that breaks must not cost the figures of the others.
            traceback.print_exc()
            failed = True
    return figures, failed


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
