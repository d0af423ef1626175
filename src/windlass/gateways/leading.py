"""Whether this process may still write: another one may lead by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.base.errors import Retryable


@dataclass(frozen=True, slots=True)
class Leading:
    """Asked before every write; `may_write` is false once the lease is lost."""

    may_write: Callable[[], bool]

    def check(self) -> None:
        """Retryable where nothing may be written."""
        if not self.may_write():
            raise Retryable("NotLeading", "another process leads; nothing is written")
