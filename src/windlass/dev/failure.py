"""Why a cluster did not come up: which component, in its own words, and what to do.

Pure. A long line is cut, never the last one left out: that is where the reason stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor

LINES = 200
"""How far back a log is read."""

_LAST = 8
_EARLIER = 4
_LONGEST_LINE = 400
# The kinds of our programs: klog, logrus, JSON, and Go or Python at their end.
_BAD = re.compile(
    r'^[EF]\d{4} |level=(error|fatal)|failed to load|"level": ?"(error|fatal)"|panic:'
)
_ADVICE = (
    (
        r"(inotify|fsnotify|watcher).*too many open files",
        "the kernel's limit of inotify instances is used up: "
        "`sysctl fs.inotify.max_user_instances=1024` as root, or end other clusters",
    ),
    (r"too many open files", "raise the limit of open files (`ulimit -n 65536`) and try again"),
    (r"no space left on device|disk quota", "the disk is full: free some of it and try again"),
    (
        r"cannot allocate memory|resource temporarily unavailable",
        "memory or process numbers are used up: end other programs and try again",
    ),
    (r"address already in use", "another program has its port: end that one and try again"),
    (
        r"operation not permitted|permission denied|read-only file system",
        "this machine forbids it, as containers often do: give it more rights, "
        "or do without --node",
    ),
)


@dataclass(frozen=True, slots=True)
class Words:
    """What a component wrote, the newest last, and where all of it is."""

    component: str
    log: Path
    lines: Sequence[str]


def told(problem: str, cluster: str, said: Sequence[Words]) -> WindlassError:
    """The error for `problem`; the component it is about speaks first."""
    lines = [f"{problem}.", *map(_quoted, said), f"What to do: {advice(cluster, said)}."]
    return WindlassError("ComponentFailed", "\n".join(lines))


def advice(cluster: str, said: Sequence[Words]) -> str:
    """What a person can do about it."""
    text = "\n".join(line for one in said for line in telling(one.lines))
    for pattern, words in _ADVICE:
        if re.search(pattern, text, re.IGNORECASE):
            return words
    again = f"`windlass dev down --name {cluster}`, then `up`, starts afresh"
    return f"{again}; if that fails too, its log says more"


def telling(lines: Sequence[str]) -> list[str]:
    """The last lines, and before them the latest that speak of errors."""
    earlier = [line for line in lines[:-_LAST] if _BAD.search(line)]
    return [line[:_LONGEST_LINE] for line in [*earlier[-_EARLIER:], *lines[-_LAST:]]]


def _quoted(one: Words) -> str:
    lines = telling(one.lines) or ["(nothing)"]
    quoted = [f"    {redactor.clean(line)}" for line in lines]
    return "\n".join([f"{one.component} said ({one.log}):", *quoted])
