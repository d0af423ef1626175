"""Errors of git operations, with a closed set of reasons.

The message of a `GitError` is redacted before it is made. `is_transient`: the same call may work
later without any change.
"""

from __future__ import annotations

from windlass.base.errors import Stalled, WindlassError

REASONS = frozenset(
    {
        "AuthFailed",
        "HostKeyMismatch",
        "HostKeyUnknown",
        "NotFound",
        "RefNotFound",
        "CommitUnreachable",
        "NonFastForward",
        "Rejected",
        "Timeout",
        "TooLarge",
        "Corrupt",
        "Unavailable",
        "DiskFull",
        "UnsupportedObjectFormat",
        "StoreCorrupt",
        "PathOccupied",
    }
)
_TRANSIENT = frozenset({"Timeout", "Unavailable", "NonFastForward", "DiskFull", "Corrupt"})


class GitError(WindlassError):
    """A failed git operation; `stdout` is what the child printed before it failed."""

    def __init__(self, reason: str, message: str, *, stdout: bytes = b"") -> None:
        assert reason in REASONS, reason
        super().__init__(reason, message)
        self.stdout = stdout

    @property
    def is_transient(self) -> bool:
        return self.reason in _TRANSIENT


class StoreCorrupt(GitError):
    """The local store is damaged: discard it and fetch again."""

    def __init__(self, message: str) -> None:
        super().__init__("StoreCorrupt", message)


class PathOccupied(GitError):
    """A path is a file where a directory is needed, the reverse, or neither of them."""

    def __init__(self, path: str) -> None:
        super().__init__("PathOccupied", f"{path} is not a regular file")
        self.path = path


class SecretMalformed(Stalled):
    """A Secret that holds no usable credential; the message names keys, never values."""

    def __init__(self, message: str) -> None:
        super().__init__("SecretMalformed", message)


class InsecureTransport(Stalled):
    """A transport that is not allowed for this host."""

    def __init__(self, message: str) -> None:
        super().__init__("InsecureTransport", message)
