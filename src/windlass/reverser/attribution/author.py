"""The author of a commit, from the user that an admission request reported.

Used for the headers, subjects and trailers of commits. User names are untrusted text: for every
input, name and e-mail are one clean line of at most 128 bytes each, valid in a commit header.
Nothing is guessed: without a usable user name the author is `UNRESOLVED`, and no user can have
that name.

Pure.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

DOMAIN = "windlass.invalid"
EMAIL_CLAIM = "configbutler.ai/claims/email"
DISPLAY_NAME_CLAIM = "configbutler.ai/claims/display-name"
MAX_BYTES = 128

# Controls, format characters (bidi marks among them), surrogates, line and paragraph ends.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
# Git cuts these off both ends of a name, and refuses a name of nothing else.
_EDGES = " .,:;\"'\\"
_EMAIL = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9.!#$%&*+/=?^_`{|}~-]*[A-Za-z0-9_+-])?"
    r"@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
)
_NOT_IN_SLUG = re.compile(r"[^a-z0-9_]+")
_RESERVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Actor:
    """The user of an admission request, as the API server reports it; untrusted text."""

    user: str
    email: str = ""
    display_name: str = ""


@dataclass(frozen=True, slots=True)
class Author:
    """Name and e-mail, valid in a commit header."""

    name: str
    email: str


UNRESOLVED = Author(f"({_RESERVED})", f"{_RESERVED}@{DOMAIN}")


def commit_author(actor: Actor | None) -> Author:
    """The author for `actor`; `UNRESOLVED` where there is none or nothing is left of it."""
    user = display_user(actor)
    if actor is None or user == UNRESOLVED.name:
        return UNRESOLVED
    name = sanitize_name(actor.display_name)
    if name in ("", UNRESOLVED.name):
        name = user
    email = actor.email if _is_well_formed(actor.email) else f"{email_local_part(user)}@{DOMAIN}"
    return Author(name, email)


def display_user(actor: Actor | None) -> str:
    """The user name for subjects and trailers, cleaned; `(unresolved)` where there is none."""
    return (sanitize_name(actor.user) if actor is not None else "") or UNRESOLVED.name


def sanitize_name(text: str) -> str:
    """`text` as one visible line without angle brackets, at most `MAX_BYTES` bytes."""
    visible = to_single_line(text[: MAX_BYTES * 4]).replace("<", "").replace(">", "").strip(_EDGES)
    short = visible.encode()[:MAX_BYTES].decode("utf-8", "ignore")
    return short.strip(_EDGES)


def to_single_line(text: str) -> str:
    """`text` without controls, line ends, bidirectional and other invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if unicodedata.category(char) not in _HIDDEN)


def email_local_part(user: str) -> str:
    """`user` as the local part of an address: lower case, `-` for all that is not a word."""
    text = _NOT_IN_SLUG.sub("-", user.lower())[: MAX_BYTES - len(DOMAIN) - 1].strip("-")
    return f"user-{text}".strip("-") if text in ("", _RESERVED) else text


def _is_well_formed(email: str) -> bool:
    if len(email) > MAX_BYTES or email == UNRESOLVED.email:
        return False
    return _EMAIL.fullmatch(email) is not None and ".." not in email
