"""Constraints on fields: rules that a bound or an enumeration cannot express.

A `Constraint` carries the CEL expression that the API server evaluates beside the function
that this process evaluates, so that an object the server accepts is never rejected here and
the reverse; only a rule whose estimated cost the server would not accept exists in code alone
(`code_only`). Most are made from one regular expression, written in the part of the syntax
that RE2 shares with Python; `$` always stands for the very end of the text. A constraint that
names a field stands on the parent of that field: the server then leaves the value out of its
error message.

The declarations in `api.kinds` attach constraints with `schema_extra`; `openapi` publishes them
in the CRD, `validation` evaluates them.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

INVISIBLE_CHARACTERS = (
    r"\x00-\x20\x7f-\xa0\xad"
    "\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
)
"""Inside of a character class: spaces, line breaks, control and direction characters."""

ListType = Literal["atomic", "set", "map"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One validation rule, for the API server and for this process."""

    cel: str  # empty where only this process evaluates it
    message: str  # for users, without the value
    holds: Callable[[Any], bool]  # the same rule in Python
    field: str = ""  # of the value that it is about, in snake case; empty for the value itself


def schema_extra(
    *constraints: Constraint,
    list_type: ListType | None = None,
    keys: tuple[str, ...] = (),
    filled_in: bool = False,
) -> dict[str, Any]:
    """The `extra` of a `msgspec.Meta`: schema attributes beyond msgspec's own bounds.

    A `filled_in` object gets the default `{}`, so that the API server also fills in the defaults
    below it.
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


def code_only(message: str, holds: Callable[[Any], bool], *, field: str = "") -> Constraint:
    """A rule beyond the server's CEL cost limit: evaluated only when an object is decoded."""
    return Constraint("", message, holds, field)


def must_match(regex: str, message: str, *, field: str = "") -> Constraint:
    """A rule that the text contains a match of `regex`."""
    matches = _pattern_search(regex, field)
    return Constraint(f"{_subject(field)}.matches({cel_string(regex)})", message, matches, field)


def must_not_match(regex: str, message: str, *, field: str = "") -> Constraint:
    """A rule that the text contains no match of `regex`."""
    matches = _pattern_search(regex, field)
    cel = f"!{_subject(field)}.matches({cel_string(regex)})"
    return Constraint(cel, message, lambda value: not matches(value), field)


def immutable(field: str, message: str) -> Constraint:
    """A rule that the field never changes; only the server can check it, it has both values."""
    subject = camel_case(field)
    return Constraint(f"self.{subject} == oldSelf.{subject}", message, lambda _: True, field)


def may_only_become(field: str, lowest: str, message: str) -> Constraint:
    """A rule that the field changes to `lowest` alone; only the server can check it."""
    subject = camel_case(field)
    cel = f"self.{subject} == oldSelf.{subject} || self.{subject} == {cel_string(lowest)}"
    return Constraint(cel, message, lambda _: True, field)


def at_most_one(first: str, second: str, message: str) -> Constraint:
    """A rule that two optional fields are not set together."""
    cel = f"!(has(self.{camel_case(first)}) && has(self.{camel_case(second)}))"

    def holds(value: Any) -> bool:
        return getattr(value, first) is None or getattr(value, second) is None

    return Constraint(cel, message, holds, first)


def exactly_one(first: str, second: str, message: str) -> Constraint:
    """A rule that exactly one of two optional fields is set."""
    cel = f"has(self.{camel_case(first)}) != has(self.{camel_case(second)})"

    def holds(value: Any) -> bool:
        return (getattr(value, first) is None) != (getattr(value, second) is None)

    return Constraint(cel, message, holds, second)


def compile_pattern(regex: str) -> re.Pattern[str]:
    """`regex` compiled with RE2's meaning of `$`: the end, not before a final line break."""
    return re.compile(regex.replace("$", r"\Z"))


def cel_string(text: str) -> str:
    """`text` as a CEL string literal, in ASCII so that it can be read and copied."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    plain = (char if char.isascii() else f"\\u{ord(char):04x}" for char in escaped)
    return f"'{''.join(plain)}'"


def camel_case(name: str) -> str:
    """The name of a field in manifests."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _subject(field: str) -> str:
    return f"self.{camel_case(field)}" if field else "self"


def _pattern_search(regex: str, field: str) -> Callable[[Any], bool]:
    pattern = compile_pattern(regex)

    def matches(value: Any) -> bool:
        text = getattr(value, field) if field else value
        return pattern.search(text) is not None

    return matches
