"""Whether a JSON value has a shape: a map with these members, a list of those, a text.

A shape is a function that yields what is wrong with a value, each with the path of its
place. Null counts as absent, as it does for the API server. Nothing here repeats a value:
what stands in the wrong place may be a credential.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterator

from windlass.objects import quantity
from windlass.objects.names import JSON

Fault = tuple[str, str]
"""The path of a value, and what is wrong with it."""

Shape = Callable[[JSON, str], Iterator[Fault]]

_MOST_CHARS = 63
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**63 - 1


def members(**shapes: Shape) -> Shape:
    """A map; what stands in it under these names has these shapes."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is None:
            return
        if not isinstance(value, dict):
            yield path, "it must be a map"
            return
        for name, shape in shapes.items():
            yield from shape(value.get(name), joined(path, name))

    return check


def each(shape: Shape) -> Shape:
    """A list; everything in it is there and has one shape."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is not None and not isinstance(value, list):
            yield path, "it must be a list"
            return
        for index, item in enumerate(value or ()):
            yield from needed(shape)(item, f"{path}[{index}]")

    return check


def needed(shape: Shape) -> Shape:
    """Something that may be neither missing nor empty."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is None or value in ([], {}, ""):
            yield path, "it is missing"
            return
        yield from shape(value, path)

    return check


def values(shape: Shape) -> Shape:
    """A map in which all values have one shape."""

    def check(value: JSON, path: str) -> Iterator[Fault]:
        if value is not None and not isinstance(value, dict):
            yield path, "it must be a map"
            return
        for name, item in (value or {}).items():
            yield from shape(item, joined(path, name))

    return check


def text(value: JSON, path: str) -> Iterator[Fault]:
    """A text, which YAML reads as something else where it is not quoted."""
    if value is not None and not isinstance(value, str):
        yield path, "it must be a text; put it in quotes"


def amount(value: JSON, path: str) -> Iterator[Fault]:
    """A quantity."""
    try:
        if value is not None:
            quantity.parse(value)
    except quantity.QuantityRefused:
        yield path, "it must be a quantity such as 500m, 2 or 1Gi"


def encoded(value: JSON, path: str) -> Iterator[Fault]:
    """Bytes in base64; line breaks are allowed, as a folded YAML text has them."""
    try:
        if value is not None:
            base64.b64decode("".join(value.splitlines()), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        yield path, "it must be base64; plain text belongs into stringData"


def anything(value: JSON, path: str) -> Iterator[Fault]:
    """Whatever JSON can say and the API server can hold."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _spelled(name, path)
            yield from anything(item, joined(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from anything(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield from _spelled(value, path)
    elif isinstance(value, int | float) and not _is_held(value):
        yield path, "it is a number that the API server cannot hold"


def joined(path: str, name: str) -> str:
    """The path of a member; a name of any length and content stays readable."""
    shown = name if len(name) <= _MOST_CHARS else f"{name[:_MOST_CHARS]}…"
    plain = shown.encode("utf-8", "replace").decode()
    return f"{path}.{plain}" if path else plain


def _spelled(value: str, path: str) -> Iterator[Fault]:
    try:
        value.encode()
    except UnicodeEncodeError:
        yield path, "it holds half of a character (a lone surrogate)"


def _is_held(value: int | float) -> bool:  # noqa: PYI041 - they are told apart
    if isinstance(value, float):
        return math.isfinite(value)
    return _LEAST_INTEGER <= value <= _MOST_INTEGER
