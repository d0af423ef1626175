"""Amounts as Kubernetes writes them: `500m`, `1Gi`, `2`, `1e3`.

Two texts may mean one amount, and the API server rewrites what it stores, so amounts are
compared by value, never by text.

Pure.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_MOST_CHARS = 64
_MOST_EXPONENT = 18


class QuantityRefused(ValueError):
    """A text that is no amount."""


def parse(value: str | float) -> Fraction:
    """The exact amount; refuses everything that the API server would refuse."""
    text = str(value)
    if not text or len(text) > _MOST_CHARS or isinstance(value, bool):
        raise QuantityRefused(f"{text[:_MOST_CHARS]!r} is not a quantity such as 500m, 2 or 1Gi")
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Fraction:
    number, factor = _split(text)
    try:
        return _decimal(number) * factor
    except ValueError as error:
        raise QuantityRefused(f"{text!r} is not a quantity such as 500m, 2 or 1Gi") from error


def same(one: str | float, other: str | float) -> bool:
    """Whether both are amounts, and equal ones."""
    try:
        return parse(one) == parse(other)
    except QuantityRefused:
        return False


def _split(text: str) -> tuple[str, Fraction]:
    """The number and what its suffix multiplies it by."""
    if text[-2:] in _BINARY:
        return text[:-2], Fraction(1024) ** _BINARY[text[-2:]]
    mantissa, mark, exponent = text.replace("E", "e").partition("e")
    if mark and exponent.removeprefix("-").removeprefix("+").isdecimal():
        power = int(exponent[:4])
        if abs(power) <= _MOST_EXPONENT:
            return mantissa, Fraction(10) ** power
    if text[-1] in _DECIMAL:
        return text[:-1], Fraction(1000) ** _DECIMAL[text[-1]]
    return text, Fraction(1)


def _decimal(number: str) -> Fraction:
    digits = number.removeprefix("-").removeprefix("+")
    if not digits.isascii() or not digits.replace(".", "", 1).isdecimal():
        raise ValueError(number)
    return Fraction(number)
