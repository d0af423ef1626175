"""The Git service of a process: one bounded runner, one listing per remote, for all capabilities.

`windlass.app` makes one; each capability gets it. Whoever lists the same repository with the same
credentials shares one `ls-remote`, whichever capability asks. All children share the fair slots of
the runner, so no namespace can keep the others from their turn (`base.fair_slots`).
"""

from __future__ import annotations

from windlass.base.clock import Clock
from windlass.base.fair_slots import FairSlots
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git, OnEnd
from windlass.git.settings import GitSettings


class GitService:
    """Runner and listings of one process; `on_end` is called after each child."""

    def __init__(
        self,
        settings: GitSettings,
        *,
        clock: Clock,
        on_end: OnEnd = lambda *_: None,
        slots: FairSlots | None = None,
    ) -> None:
        self.git = Git(settings, on_end=on_end, slots=slots)
        self.listings = RefListings(self.git, clock)

    @property
    def settings(self) -> GitSettings:
        return self.git.settings

    async def close(self) -> None:
        """Cancel all listings."""
        await self.listings.close()
