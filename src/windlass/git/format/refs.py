"""Names of branches and texts of refs: which ones git and we accept.

Whatever passes `check_branch` is safe as an argument and as a file below `refs/heads`.
Whatever passes `check` (rule V2) is safe as an argument: a name, a full name or an id.
"""

from __future__ import annotations

MAX_CHARS = 244
MAX_REF_CHARS = 255

_FORBIDDEN = frozenset(" ~^:?*[\\")
_HEX = frozenset("0123456789abcdef")


class RefRefused(ValueError):
    """A name git would not take; the text names the rule."""


def check(text: str) -> None:
    """Refuse what can be neither a branch, a tag, a full ref name nor an id."""
    if not text or len(text) > MAX_REF_CHARS:
        raise RefRefused(f"a ref has 1 to {MAX_REF_CHARS} characters")
    if text.startswith("-") or text.endswith(("/", ".", ".lock")) or text == "@":
        raise RefRefused("a ref must not begin with `-`, end with `/`, `.` or `.lock`, nor be `@`")
    if any(bad in text for bad in ("..", "@{", "//")):
        raise RefRefused("a ref must not hold `..`, `@{` or `//`")
    if any(char in _FORBIDDEN or char.isspace() or not char.isprintable() for char in text):
        raise RefRefused("a ref must not hold spaces, invisible characters or any of ~^:?*[\\")


def check_branch(name: str) -> None:
    """Refuse what is no branch name."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_CHARS:
        raise RefRefused(f"a branch name has 1 to {MAX_CHARS} bytes")
    if name.startswith(("-", "/")) or name.endswith(("/", ".")):
        raise RefRefused("a branch name must not begin with `-` or `/`, nor end with `/` or `.`")
    if any(bad in name for bad in ("..", "@{", "//")) or name in {"@", "HEAD"}:
        raise RefRefused("a branch name must not hold `..`, `@{` or `//`, nor be `@` or `HEAD`")
    if any(char in _FORBIDDEN or not char.isprintable() for char in name):
        raise RefRefused(
            "a branch name must not hold spaces, control characters or any of ~^:?*[\\"
        )
    if any(part.startswith(".") or part.endswith(".lock") for part in name.split("/")):
        raise RefRefused("no part of a branch name may begin with `.` or end with `.lock`")


def branch_ref(name: str) -> str:
    """The full ref of a checked branch name."""
    check_branch(name)
    return f"refs/heads/{name}"


def is_object_id(text: str) -> bool:
    """Whether `text` is a full SHA-1 or SHA-256 object id in lower case."""
    return len(text) in {40, 64} and _HEX.issuperset(text)
