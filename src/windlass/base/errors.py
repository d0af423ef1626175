"""Errors that carry the decision.

Every error a reconcile may end in says what happens next: wait for something
(`Waiting`), stop until a person acts (`Stalled`), try again (`Retryable`) or end
the process (`Fatal`). `reason` is the condition reason, `message` is what a tired
person reads at night: what is wrong, where, how to fix it. Neither ever holds a
credential; foreign text is redacted before it comes in here.
"""

from __future__ import annotations


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
