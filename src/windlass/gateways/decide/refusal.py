"""A sync that must not happen, with the path that is the reason.

`reason` is one of the gateway reasons (`SourceMissing`, `UnsafePath`, `MassDeleteGuard`,
...). A refusal is about the whole sync: nothing of it may be written.
"""

from __future__ import annotations

from windlass.base.errors import Stalled


class Refused(Stalled):
    """The sync is refused; `path` is what a person has to look at, empty if no one file is."""

    def __init__(self, reason: str, path: str, message: str) -> None:
        super().__init__(reason, message)
        self.path = path
