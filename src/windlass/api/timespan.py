"""Lengths of time that a person may choose, between two bounds."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Meta

from windlass.api.constraint import Constraint, declared, quoted
from windlass.base import clock

_PATTERN = "^([0-9]{1,6}(ms|s|m|h))+$"
_MOST_CHARS = 32


def between(least: str, most: str) -> Meta:
    """The bounds of a text such as 90s or 1h30m."""
    # The first part keeps what is no duration away from the conversion.
    cel = (
        f"self.matches({quoted(_PATTERN)}) && duration(self) >= duration('{least}')"
        f" && duration(self) <= duration('{most}')"
    )
    message = f"write a length of time from {least} to {most}, for example 90s or 1h30m"
    constraint = Constraint(cel, message, _judge(least, most))
    return Meta(max_length=_MOST_CHARS, pattern=_PATTERN, extra=declared(constraint))


def _judge(least: str, most: str) -> Callable[[str], bool]:
    low, high = clock.parse_duration(least), clock.parse_duration(most)

    def holds(text: str) -> bool:
        try:
            return low <= clock.parse_duration(text) <= high
        except ValueError:
            return False

    return holds
