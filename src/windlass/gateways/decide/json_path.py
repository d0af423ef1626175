"""Paths into a JSON value: `.a.b[0].c`, `["a.b"]` for odd names, a final `[-]` to append.

A path is a tuple: text steps into an object, a number into an array. `.-` and `[-]` are the
same step, which means the place behind the last element in an array, or a member of that
name in an object.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

APPEND = "-"
LONGEST = 1024

_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]"\x00-\x1f]++)"""
    r"""|\[(?P<index>0|[1-9][0-9]{0,8})\]"""
    r"""|\[(?P<append>-)\]"""
    r"""|\["(?P<quoted>(?:[^"\\\x00-\x1f]|\\["\\])*+)"\]"""
)
_ESCAPE = re.compile(r'\\(["\\])')
_PLAIN = re.compile(r"""[^.\[\]"\x00-\x1f]++""")


def parsed(text: str) -> Path:
    """The path that `text` spells; ValueError where it spells none."""
    if len(text) > LONGEST:
        raise ValueError(f"the path has {len(text)} characters, at most {LONGEST} are allowed")
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f"the path {text!r} is not like .a.b[0].c from character {at + 1} on")
        steps.append(_step(match))
        at = match.end()
    if not steps:
        raise ValueError("the path is empty; write it like .a.b[0].c")
    if APPEND in steps[:-1]:
        raise ValueError(f"the path {text!r} appends before its end: `-` can only come last")
    return tuple(steps)


def shown(path: Path) -> str:
    """`path` as text that `parsed` takes."""
    return "".join(_shown(step) for step in path)


def _step(match: re.Match[str]) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    if match["quoted"] is not None:
        return _ESCAPE.sub(r"\1", match["quoted"])
    return match["name"] or match["append"]


def _shown(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN.fullmatch(step):
        return f".{step}"
    escaped = step.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'
