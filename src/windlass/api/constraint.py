"""Rules that a bound or an enumeration cannot express, each told once for both judges.

A `Constraint` carries the CEL expression the API server evaluates beside the function
this process evaluates, so that an object the server let in is never refused here and
the reverse; only a rule that the server would find too costly is told in code alone. Most
are made from one regular expression, written in the part of the syntax that RE2 shares
with Python; `$` always stands for the very end of the text. A constraint that names a
field stands on the parent of that field: the server then leaves the value out of its
refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad"
    "\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
)
"""Inside of a character class: spaces, line breaks, control and direction characters."""

ListType = Literal["atomic", "set", "map"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One rule: what must hold, and what to tell the person for whom it does not."""

    cel: str
    message: str
    holds: Callable[[Any], bool]
    field: str = ""


def declared(
    *constraints: Constraint,
    list_type: ListType | None = None,
    keys: tuple[str, ...] = (),
    filled_in: bool = False,
) -> dict[str, Any]:
    """The `extra` of a `msgspec.Meta`: what our schema knows beyond msgspec's own bounds.

    `filled_in` objects are put into place by the API server, with the defaults below them.
    """
    extra: dict[str, Any] = {}
    if constraints:
        extra["constraints"] = constraints
    if list_type is not None:
        extra["list_type"] = list_type
    if keys:
        extra["list_keys"] = keys
    if filled_in:
        extra["filled_in"] = True
    return extra


def in_code(message: str, holds: Callable[[Any], bool], *, field: str = "") -> Constraint:
    """A rule that costs more than the server grants: it is judged when an object is decoded."""
    return Constraint("", message, holds, field)


def matching(regex: str, message: str, *, field: str = "") -> Constraint:
    """The text holds a match of `regex`."""
    found = _finder(regex, field)
    return Constraint(f"{_subject(field)}.matches({quoted(regex)})", message, found, field)


def avoiding(regex: str, message: str, *, field: str = "") -> Constraint:
    """The text holds no match of `regex`."""
    found = _finder(regex, field)
    cel = f"!{_subject(field)}.matches({quoted(regex)})"
    return Constraint(cel, message, lambda value: not found(value), field)


def unchanging(field: str, message: str) -> Constraint:
    """The field keeps the value it was created with; only the server sees both."""
    subject = camel(field)
    return Constraint(f"self.{subject} == oldSelf.{subject}", message, lambda _: True, field)


def only_falling_to(field: str, lowest: str, message: str) -> Constraint:
    """The field may change to `lowest` and to nothing else; only the server sees both."""
    subject = camel(field)
    cel = f"self.{subject} == oldSelf.{subject} || self.{subject} == {quoted(lowest)}"
    return Constraint(cel, message, lambda _: True, field)


def at_most_one(one: str, other: str, message: str) -> Constraint:
    """Two optional fields never stand together."""
    cel = f"!(has(self.{camel(one)}) && has(self.{camel(other)}))"

    def holds(value: Any) -> bool:
        return getattr(value, one) is None or getattr(value, other) is None

    return Constraint(cel, message, holds, one)


def exactly_one(one: str, other: str, message: str) -> Constraint:
    """Of two optional fields one is given, and not both."""
    cel = f"has(self.{camel(one)}) != has(self.{camel(other)})"

    def holds(value: Any) -> bool:
        return (getattr(value, one) is None) != (getattr(value, other) is None)

    return Constraint(cel, message, holds, other)


def compiled(regex: str) -> re.Pattern[str]:
    """`regex` with the server's meaning of `$`: not before a closing line break."""
    return re.compile(regex.replace("$", r"\Z"))


def quoted(text: str) -> str:
    """`text` as a CEL string literal, in ASCII so that it can be read and copied."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    plain = (char if char.isascii() else f"\\u{ord(char):04x}" for char in escaped)
    return f"'{''.join(plain)}'"


def camel(name: str) -> str:
    """The name of a field as it stands in a manifest."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _subject(field: str) -> str:
    return f"self.{camel(field)}" if field else "self"


def _finder(regex: str, field: str) -> Callable[[Any], bool]:
    pattern = compiled(regex)

    def found(value: Any) -> bool:
        text = getattr(value, field) if field else value
        return pattern.search(text) is not None

    return found
