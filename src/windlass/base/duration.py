"""Durations as users write them: `90s`, `1h30m`, `250ms`.

The grammar is that of the CRD patterns, so whatever the API server lets in parses
here, and nothing else does.
"""

from __future__ import annotations

import re

PATTERN = r"^([0-9]+(ms|s|m|h))+$"

_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_WHOLE = re.compile(PATTERN)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_CHARS = 32


def seconds(text: str) -> float:
    """The length of a duration in seconds; ValueError says what is wrong with it."""
    if len(text) > _MAX_CHARS or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:_MAX_CHARS]!r} is not a duration; write it like 90s, 5m or 1h30m")
    return sum(int(count) * _UNIT_SECONDS[unit] for count, unit in _PART.findall(text))
