"""Why a repository could not be read, in the words that users see.

git's own reasons are finer than what a person can do something about; `named` brings them
together. One list for everybody who reads, so that a status says the same word whether the
controller or an agent met the fault.
"""

from __future__ import annotations

from windlass.git.format import failures

FOR_A_PERSON = frozenset(
    {
        "AuthFailed",
        "HostKeyMismatch",
        "RepoNotFound",
        "CommitUnreachable",
        "HostBlocked",
        "TLSFailed",
    }
)
"""Causes that do not pass by themselves."""

_NAMES = {
    "NotFound": "RepoNotFound",
    "AddressRefused": "HostBlocked",
    "InsecureTransport": "HostBlocked",
    "StoreCorrupt": "Corrupt",
    "SecretMalformed": "AuthFailed",
    # A server that says no to a read means who asks, not what is asked.
    "Rejected": "AuthFailed",
    "UnsupportedObjectFormat": "CommitUnreachable",
}


_REMEDIES = {
    "AuthFailed": "check user, token or key in the Secret, and that it may read the repository",
    "RepoNotFound": "check the URL; many hosts answer like this where credentials may not read",
}


def remedy(cause: str) -> str:
    """What a person can do about a cause, to follow its message; empty where that says it."""
    return f"; {_REMEDIES[cause]}" if cause in _REMEDIES else ""


def named(reason: str, message: str) -> str:
    """The cause of a failed read; a reason that is no other stays as it is."""
    found = _NAMES.get(reason, reason)
    if found != "Unavailable":
        return found
    if failures.is_redirected(message):
        return "HostBlocked"
    return "TLSFailed" if failures.is_untrusted(message) else found
