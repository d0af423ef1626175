"""What is mounted, as this process sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from windlass.dev.node import system

_TABLE = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount: where, of which type, with which options of its file system."""

    point: Path
    kind: str
    options: frozenset[str]


def parse(table: str) -> list[Mount]:
    """The mounts of a `mountinfo` table, in the order in which they were made."""
    return [_mount(line) for line in table.splitlines()]


def read() -> list[Mount]:
    """The mounts of now."""
    return parse(_TABLE.read_text())


def filesystem(path: Path) -> str:
    """The type of the file system that `path` lies on."""
    above = [one for one in read() if path == one.point or one.point in path.parents]
    return max(reversed(above), key=lambda one: len(one.point.parts)).kind


def unmount_below(directory: Path) -> None:
    """Unmount everything at and under `directory`, the latest first."""
    for one in reversed(read()):
        if one.point == directory or directory in one.point.parents:
            system.run("umount", "--lazy", str(one.point))


def _mount(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ", 2)
    return Mount(Path(_plain(before.split(" ")[4])), kind, frozenset(options.split(",")))


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
