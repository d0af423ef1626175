"""A person in a commit header.

A `Person` always fits the header: no line breaks, no angle brackets, nothing empty, so
no name can forge a second header.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

_TRIMMED = " .,:;\"'\\"
_NOBODY = "unknown"


@dataclass(frozen=True, slots=True)
class Person:
    """Name and email of an author or committer."""

    name: str
    email: str

    def __post_init__(self) -> None:
        if self.name != _fit(self.name) or self.email != _fit(self.email):
            raise ValueError("a person's name and email must not hold line breaks, `<` or `>`")

    def header(self, when: datetime) -> str:
        """`name <email> seconds zone`; the instant is kept, the zone is always UTC."""
        seconds = int(when.astimezone(UTC).timestamp())
        return f"{self.name} <{self.email}> {max(0, seconds)} +0000"


def cleaned(name: str, email: str) -> Person:
    """The person without whatever a commit header cannot hold."""
    return Person(_fit(name), _fit(email))


def _fit(text: str) -> str:
    """The text without controls, lone surrogates and brackets, trimmed as git trims it."""
    kept = "".join(char for char in text if _is_allowed(char))
    return kept.strip(_TRIMMED) or _NOBODY


def _is_allowed(char: str) -> bool:
    return char >= " " and char not in "<>\x7f" and not "\ud800" <= char <= "\udfff"
