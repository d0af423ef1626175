"""Why a commit could not be found, as the closed set of causes that users see.

| Cause                                                                   | Decision      |
|-------------------------------------------------------------------------|---------------|
| AuthFailed, HostKeyMismatch, RepoNotFound, RefNotFound, HostBlocked,     | Stalled, and  |
| CommitUnreachable, TLSFailed                                            | again in 5 min|
| Timeout, TooLarge, Corrupt, Unavailable                                 | Retryable     |
| SecretMissing, SecretKeyMissing (`secrets.py`)                          | Waiting       |
"""

from __future__ import annotations

from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.git.format import failures

STALLED_SECONDS = 300.0

STALLED = failures.NEEDS_A_PERSON | {"RefNotFound"}
RETRYABLE = frozenset({"Timeout", "TooLarge", "Corrupt", "Unavailable"})


def cause(reason: str, message: str) -> Stalled | Retryable:
    """The error of one cause, with its decision."""
    if reason in STALLED:
        return Stalled(reason, message, after=STALLED_SECONDS)
    return Retryable(reason, message)


def translated(error: WindlassError) -> Stalled | Retryable:
    """What went wrong with git, as one of the causes."""
    reason = failures.describe_cause(error.reason, error.message)
    if reason not in STALLED | RETRYABLE:
        reason = "Unavailable"
    return cause(reason, error.message)
