"""Since when a cache may have missed something.

An interruption makes it stale. It is current again with the next change, with a
complete snapshot, or, where no new snapshot is needed, once a stream that was opened
after the interruption had time to fail and did not: a silent stream ends by itself
after `idle_seconds`. A healthy stream that ends and is resumed at once misses nothing.
"""

from __future__ import annotations

from windlass.kube.follow import Interrupted


class Staleness:
    """The interruption that is not over yet."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._since: float | None = None
        self._over_at = 0.0
        self._needs_snapshot = True

    def since(self, now: float) -> float | None:
        """The monotonic time from which on changes may be missing; None if none are."""
        if not self._needs_snapshot and now >= self._over_at:
            self._since = None
        return self._since

    def seconds(self, now: float) -> float:
        since = self.since(now)
        return 0.0 if since is None else now - since

    def interrupted(self, item: Interrupted, now: float) -> None:
        self._needs_snapshot |= item.reason == "expired"
        if item.reason == "closed" and item.retry_seconds <= 0:
            return
        since = self.since(now)
        self._since = now if since is None else since
        self._over_at = now + item.retry_seconds + self._idle_seconds

    def restarted(self) -> None:
        """A snapshot began: only its end makes the cache current."""
        self._needs_snapshot = True

    def moved(self) -> None:
        """A change came through: the stream was resumed where it had ended."""
        if not self._needs_snapshot:
            self._since = None

    def complete(self) -> None:
        """A complete snapshot was taken."""
        self._needs_snapshot = False
        self._since = None
