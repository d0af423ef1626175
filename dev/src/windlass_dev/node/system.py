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
    """Run `command` with `text` as stdin; return stdout, or raise `NodeFailed` with its stderr."""
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
    """PATH of this process, followed by the system directories, which a user's PATH may lack."""
    inherited = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    return os.pathsep.join([*inherited, SYSTEM_PATH])


def _command_error(command: tuple[str, ...], output: str) -> WindlassError:
    # The `nsenter` prefix is long and says nothing about the failure; skip it.
    inner = command[command.index("--") + 1 :] if "--" in command else command
    shown = " ".join(inner[:4])
    return WindlassError("NodeFailed", f"`{shown}` failed: {redactor.clean(output.strip())[:600]}")


_MOUNTINFO = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount: its mount point, file system type, options of the file system."""

    point: Path
    kind: str
    options: frozenset[str]


def parse_mounts(table: str) -> list[Mount]:
    """The mounts of a `mountinfo` table, in the order of mounting."""
    return [_parse_mount(line) for line in table.splitlines()]


def list_mounts() -> list[Mount]:
    """The current mounts of this process's mount namespace."""
    return parse_mounts(_MOUNTINFO.read_text())


def filesystem_type(path: Path) -> str:
    """The type of the file system that `path` lies on."""
    enclosing = [
        mount for mount in list_mounts() if path == mount.point or mount.point in path.parents
    ]
    # The deepest mount point; of several mounts on one point, the latest hides the others.
    return max(reversed(enclosing), key=lambda mount: len(mount.point.parts)).kind


def unmount_below(directory: Path) -> None:
    """Unmount everything at and under `directory`, the latest first."""
    for mount in reversed(list_mounts()):
        if mount.point == directory or directory in mount.point.parents:
            run_command("umount", "--lazy", str(mount.point))


def _parse_mount(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ", 2)
    return Mount(Path(_unescape(before.split(" ")[4])), kind, frozenset(options.split(",")))


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
