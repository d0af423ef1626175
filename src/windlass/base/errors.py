"""Errors that carry the decision.

Every error a reconcile may end in says what happens next: wait for something
(`Waiting`), stop until a person acts (`Stalled`), try again (`Retryable`) or end
the process (`Fatal`). `reason` is the condition reason, `message` is what a tired
person reads at night: what is wrong, where, how to fix it. Neither ever holds a
credential; foreign text is redacted before it comes in here.

A short name for an error that nobody foresaw.

The same fault at the same place has the same name, in every process and after every
restart, so a condition that shows it stays as it is and leads to the line of the log. The
error's text is not part of it: it may hold anything.
"""

from __future__ import annotations

import hashlib
import traceback


class WindlassError(Exception):
    """The base of all our errors; `reason` is UpperCamelCase and becomes a condition reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class Waiting(WindlassError):
    """Something else must happen first; look again after `after` seconds or on its event."""

    def __init__(self, reason: str, message: str, *, after: float) -> None:
        super().__init__(reason, message)
        self.after = after


class Stalled(WindlassError):
    """Only a person can fix this; look again when the object or what it names changes."""

    def __init__(self, reason: str, message: str, *, after: float | None = None) -> None:
        super().__init__(reason, message)
        self.after = after


class Retryable(WindlassError):
    """A passing fault; try again with backoff, or exactly after `after` seconds where told."""

    def __init__(self, reason: str, message: str, *, after: float | None = None) -> None:
        super().__init__(reason, message)
        self.after = after


class Fatal(WindlassError):
    """The process cannot go on; say why and leave."""


_DIGEST_BYTES = 4
_PLACE_PARTS = 2


def error_id(error: BaseException) -> str:
    """Eight digits for the kind of `error` and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{_file(frame.filename)}:{frame.name}:{frame.lineno}" for frame in frames]
    text = "\n".join((type(error).__qualname__, *places))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).hexdigest()


def _file(path: str) -> str:
    """The end of a path; the rest depends on where we are installed."""
    return "/".join(path.replace("\\", "/").split("/")[-_PLACE_PARTS:])
