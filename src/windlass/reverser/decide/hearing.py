"""Whether the API server tells us of writes at all, which the condition Attributed says.

`Standing` is that condition's reason: Starting until records are complete for the first
time, then Receiving, and NoAdmissionCalls by the table.

| Seen                                             | Heard   |
|--------------------------------------------------|---------|
| nothing yet                                      | unknown |
| an admission call                                | yes     |
| writes over `patience` seconds, and not one call | no      |

One write without a call proves nothing: some are left out on purpose. Silence of people
proves nothing either, so time counts from the first write that nobody told us of.
"""

from __future__ import annotations

from typing import Literal

from windlass.objects.names import Identity
from windlass.reverser.decide.coverage import Coverage

PATIENCE_SECONDS = 300.0

Standing = Literal["Starting", "Receiving", "NoAdmissionCalls"]


class Hearing:
    """What came lately: writes in the streams, calls to the witness."""

    def __init__(self, coverage: Coverage, patience: float = PATIENCE_SECONDS) -> None:
        self.heard: bool | None = None
        self._coverage = coverage
        self._patience = patience
        self._untold_since: float | None = None

    def called(self) -> bool:
        """An admission call came; whether that is news."""
        self._untold_since = None
        return self._turn(True)

    def wrote(self, identity: Identity, now: float) -> bool:
        """A write was seen; whether it makes the silence news."""
        if self._coverage.gap(identity) is not None:
            return False
        if self._untold_since is None:
            self._untold_since = now
        return now - self._untold_since >= self._patience and self._turn(False)

    def _turn(self, heard: bool) -> bool:
        before, self.heard = self.heard, heard
        return before is not heard
