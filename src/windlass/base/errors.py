"""Base classes of errors that carry the decision.

Every error that may end a reconcile decides what happens next: wait for something (`Waiting`), stop
until a person acts (`Stalled`), try again (`Retryable`) or end the process (`Fatal`). `reason` is
the condition reason, `message` is what a tired person reads at night: what is wrong, where, how to
fix it. Neither ever contains a credential; foreign text is redacted before it enters an error.

`error_id` names an unexpected error. The same fault at the same line has the same id, in every
process and after every restart, so a condition that shows it stays unchanged and leads to the line
of the log. The text of the error is not part of it: it may contain anything.
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
    """Something else must happen first; reconcile after `after` seconds or on its event."""

    def __init__(self, reason: str, message: str, *, after: float) -> None:
        super().__init__(reason, message)
        self.after = after


class Stalled(WindlassError):
    """Only a person can fix this; reconcile when the object or what it names changes."""

    def __init__(self, reason: str, message: str, *, after: float | None = None) -> None:
        super().__init__(reason, message)
        self.after = after


class Retryable(WindlassError):
    """A transient fault; retry with backoff, or after exactly `after` seconds where set."""

    def __init__(self, reason: str, message: str, *, after: float | None = None) -> None:
        super().__init__(reason, message)
        self.after = after


class Pending(Exception):
    """An answer is under way; the key is queued again when it is there.

    Not an error, and nothing is reported: `seconds` is how long it takes by now.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer after {seconds:.1f} s")
        self.seconds = seconds


class Fatal(WindlassError):
    """The process cannot continue; log why and exit."""


_DIGEST_BYTES = 4
_PATH_PARTS = 2


def error_id(error: BaseException) -> str:
    """Eight hex digits for the type of `error` and the lines that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{_file(frame.filename)}:{frame.name}:{frame.lineno}" for frame in frames]
    text = "\n".join((type(error).__qualname__, *lines))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).hexdigest()


def _file(path: str) -> str:
    """The end of a path; the rest depends on where we are installed."""
    return "/".join(path.replace("\\", "/").split("/")[-_PATH_PARTS:])
