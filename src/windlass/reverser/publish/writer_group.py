"""Destinations of one branch that push with the same credentials, those of one GitRepoConfig.

Credentials are never shared through a worker: what a group writes is fetched and
pushed with its own, and its errors stall no other group.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

import structlog

from windlass.base.clock import Backoff
from windlass.base.errors import Retryable, Stalled, Waiting, WindlassError
from windlass.git.errors import GitError
from windlass.objects.names import Key
from windlass.reverser.publish.folder import Folder
from windlass.telemetry.reasons import EventReason

_log = structlog.get_logger(__name__)

_STALLED_SECONDS = 300.0
"""How long an error that only a change can fix waits for its next attempt."""

_RACES_BEFORE_REPORT = 3
_FIGHT_SECONDS = 60.0
"""Races lost within this time of each other are one fight with other writers, reported once."""
_UNAVAILABLE_REASONS = frozenset({"Unavailable", "Timeout"})


@dataclass(slots=True)
class WriterGroup:
    """Folders written together, and how the last attempt to write them ended."""

    repository: Key
    """The GitRepoConfig whose credentials are used."""
    folders: dict[Key, Folder] = field(default_factory=dict)
    """By the key of their GitDestination; never empty while the group is in a worker."""
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 300.0))
    """Delays of retryable errors, in seconds; reset by a success."""
    error: WindlassError | None = None
    """Why the last attempt failed; None after a success."""
    not_before: float = 0.0
    """Monotonic time before which no attempt is made; 0 means at once."""
    fight: int = 0
    """Number of the last fight, whatever pushes landed in it; 0 before the first lost race."""
    unacknowledged_commits: int = 0
    """Commits that were built and that the server has not acknowledged yet."""
    _lost_at: float = 0.0
    """Monotonic time of the last lost race."""
    _logged: set[str] = field(default_factory=set)
    """What the log has of `fight`: that it began, and that a push landed."""

    def record_failure(self, error: WindlassError, now: float) -> None:
        """Keep the error; when the next attempt is made follows from its class."""
        if isinstance(error, GitError) and error.reason in _UNAVAILABLE_REASONS:
            # One reason for one cause, whether a push or a fetch met it.
            error = Retryable(EventReason.GIT_UNAVAILABLE, error.message)
        self._set_error(error)
        after = error.after if isinstance(error, (Stalled, Waiting)) else None
        if after is None:
            stalled = isinstance(error, Stalled)
            after = _STALLED_SECONDS if stalled else self.backoff.next_seconds()
        self.not_before = now + after

    def _set_error(self, error: WindlassError) -> None:
        """Replace the error; logs only when its reason changes."""
        is_new = self.error is None or self.error.reason != error.reason
        if is_new and self._is_unlogged(error, "failed"):
            _log.warning(
                "push failed; retrying",
                repository=str(self.repository),
                reason=error.reason,
                message=error.message,
            )
        self.error = error

    def _is_unlogged(self, error: WindlassError, event: str) -> bool:
        """Whether the log has no such line of the same fight."""
        if error.reason != EventReason.PUSH_RACED:
            return True
        is_new = event not in self._logged
        self._logged.add(event)
        return is_new

    def record_disk_failure(self, error: OSError, now: float) -> None:
        """Keep an error of the work directory as one that is retried."""
        if error.errno == errno.ENOSPC:
            text = "the work directory is full; free up or add disk space"
            self.record_failure(Retryable("DiskFull", text), now)
            return
        text = f"the work directory is not usable: {error.strerror}"
        self.record_failure(Retryable("GitUnavailable", text), now)

    def record_race(self, remote: str, lost: int, now: float) -> bool:
        """Count the `lost`-th race in a row; whether the reported error changed by it.

        A few lost races are no error. But they replace another error at once: a push that
        loses a race has reached the server.
        """
        if not self.fight or now - self._lost_at > _FIGHT_SECONDS:
            self.fight += 1
            self._logged.clear()
        self._lost_at = now
        if self.error is None and lost < _RACES_BEFORE_REPORT:
            return False
        is_new = self.error is None or self.error.reason != EventReason.PUSH_RACED
        text = f"{remote}: other writers keep pushing first; retrying"
        self._set_error(Retryable(EventReason.PUSH_RACED, text))
        return is_new

    def record_success(self) -> None:
        """Clear error and backoff."""
        if self.error is not None and self._is_unlogged(self.error, "recovered"):
            _log.info("push recovered", repository=str(self.repository), after=self.error.reason)
        self.error = None
        self.not_before = 0.0
        self.backoff.healthy()

    def retry_now(self) -> None:
        """Try at once: something changed that may have fixed the error."""
        self.not_before = 0.0

    def retry_waiting_folders(self) -> None:
        """Open closed folders again: the detached destination may have kept one of them."""
        for folder in self.folders.values():
            if folder.error is not None:
                # The error stays until the retry has ended: a status written in between would
                # show a destination without one.
                folder.retry_at = 0.0
                self.retry_now()
