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

STALLED = frozenset(
    {
        "AuthFailed",
        "HostKeyMismatch",
        "RepoNotFound",
        "RefNotFound",
        "CommitUnreachable",
        "HostBlocked",
        "TLSFailed",
    }
)
RETRYABLE = frozenset({"Timeout", "TooLarge", "Corrupt", "Unavailable"})

_RENAMED = {
    "NotFound": "RepoNotFound",
    "AddressRefused": "HostBlocked",
    "InsecureTransport": "HostBlocked",
    "StoreCorrupt": "Corrupt",
    "SecretMalformed": "AuthFailed",
    # A server that says no to a read means who asks, not what is asked.
    "Rejected": "AuthFailed",
    "UnsupportedObjectFormat": "CommitUnreachable",
}


def cause(reason: str, message: str) -> Stalled | Retryable:
    """The error of one cause, with its decision."""
    if reason in STALLED:
        return Stalled(reason, message, after=STALLED_SECONDS)
    return Retryable(reason, message)


def translated(error: WindlassError) -> Stalled | Retryable:
    """What went wrong with git, as one of the causes."""
    reason = _RENAMED.get(error.reason, error.reason)
    if reason == "Unavailable":
        reason = _told_by_words(error.message)
    if reason not in STALLED | RETRYABLE:
        reason = "Unavailable"
    return cause(reason, error.message)


def _told_by_words(message: str) -> str:
    if failures.is_redirected(message):
        return "HostBlocked"
    return "TLSFailed" if failures.is_untrusted(message) else "Unavailable"
