"""Runs the system programs that change network, mounts, namespaces; reads the mount table."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import WindlassError
from windlass.base.redaction import process as redactor

SYSTEM_PATH = os.pathsep.join(("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"))

_SECONDS = 30.0


def run_command(*command: str, text: str = "") -> str:
    """What `command` printed, given `text` to read; a failure is told with its words."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env={"PATH": search_path(), "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise _command_error(command, str(fault)) from fault
    if done.returncode != 0:
        raise _command_error(command, done.stderr or done.stdout)
    return done.stdout


def search_path() -> str:
    """Where programs are looked for: root's places too, whatever the caller's PATH lacks."""
    given = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    return os.pathsep.join([*given, SYSTEM_PATH])


def _command_error(command: tuple[str, ...], said: str) -> WindlassError:
    # What enters a namespace says so at length; what it does there stands behind.
    own = command[command.index("--") + 1 :] if "--" in command else command
    shown = " ".join(own[:4])
    return WindlassError("NodeFailed", f"`{shown}` failed: {redactor.clean(said.strip())[:600]}")


_MOUNTINFO = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount: where, of which type, with which options of its file system."""

    point: Path
    kind: str
    options: frozenset[str]


def parse_mounts(table: str) -> list[Mount]:
    """The mounts of a `mountinfo` table, in the order in which they were made."""
    return [_parse_mount(line) for line in table.splitlines()]


def list_mounts() -> list[Mount]:
    """The mounts of now."""
    return parse_mounts(_MOUNTINFO.read_text())


def filesystem_type(path: Path) -> str:
    """The type of the file system that `path` lies on."""
    above = [one for one in list_mounts() if path == one.point or one.point in path.parents]
    return max(reversed(above), key=lambda one: len(one.point.parts)).kind


def unmount_below(directory: Path) -> None:
    """Unmount everything at and under `directory`, the latest first."""
    for one in reversed(list_mounts()):
        if one.point == directory or directory in one.point.parents:
            run_command("umount", "--lazy", str(one.point))


def _parse_mount(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ", 2)
    return Mount(Path(_unescape(before.split(" ")[4])), kind, frozenset(options.split(",")))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
