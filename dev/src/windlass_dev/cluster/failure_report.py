"""The error for a cluster that did not come up: component, its log lines, remedy.

Raised by `launch` and `cluster`. A long line is cut; the last one is never left out,
because it contains the cause most often. Lines are redacted.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor

LOG_LINES = 200
"""How many lines at the end of a log are read."""

_LAST_LINES = 8
_EARLIER_ERRORS = 4
_LONGEST_LINE = 400
# The log formats of our programs: klog, logrus, JSON, and a panic or traceback at the end.
_ERROR_LINE = re.compile(
    r'^[EF]\d{4} |level=(error|fatal)|failed to load|"level": ?"(error|fatal)"|panic:'
)
_ADVICE = (
    (
        r"(inotify|fsnotify|watcher).*too many open files",
        "the inotify instances of this user are used up: run "
        "`sysctl fs.inotify.max_user_instances=1024` as root, or stop other clusters",
    ),
    (r"too many open files", "raise the limit of open files (`ulimit -n 65536`) and try again"),
    (r"no space left on device|disk quota", "the disk is full: free some space and try again"),
    (
        r"cannot allocate memory|resource temporarily unavailable",
        "memory or process ids are used up: stop other programs and try again",
    ),
    (r"address already in use", "another program uses its port: stop that program and try again"),
    (
        r"operation not permitted|permission denied|read-only file system",
        "this machine does not permit it, as is common in containers: grant more privileges, "
        "or run without --node",
    ),
)


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of a component's log, the newest last, and the path of the whole log."""

    component: str
    log: Path
    lines: Sequence[str]


def component_failed(problem: str, cluster: str, tails: Sequence[LogTail]) -> WindlassError:
    """The error for `problem`, with `tails` quoted; the failed component's comes first."""
    lines = [f"{problem}.", *map(_quote, tails), f"Remedy: {advice(cluster, tails)}."]
    return WindlassError("ComponentFailed", "\n".join(lines))


def advice(cluster: str, tails: Sequence[LogTail]) -> str:
    """The remedy for the first known problem in `tails`, else how to start afresh."""
    text = "\n".join(line for tail in tails for line in relevant_lines(tail.lines))
    for pattern, remedy in _ADVICE:
        if re.search(pattern, text, re.IGNORECASE):
            return remedy
    fallback = f"recreate it with `windlass dev down --name {cluster}`, then `up`"
    return f"{fallback}; if that fails, see the log"


def relevant_lines(lines: Sequence[str]) -> list[str]:
    """The last lines, preceded by the latest earlier ones that report errors."""
    earlier = [line for line in lines[:-_LAST_LINES] if _ERROR_LINE.search(line)]
    return [line[:_LONGEST_LINE] for line in [*earlier[-_EARLIER_ERRORS:], *lines[-_LAST_LINES:]]]


def _quote(tail: LogTail) -> str:
    lines = relevant_lines(tail.lines) or ["(empty)"]
    quoted = [f"    {redactor.clean(line)}" for line in lines]
    return "\n".join([f"{tail.component} log ({tail.log}):", *quoted])
