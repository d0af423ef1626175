"""How long the parts of a sync take, told as they end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

from windlass.base.clock import Clock, SystemClock

Phase = Literal["fetch", "plan", "stage", "apply", "scan"]


class Phases:
    """Tells `told` the name and the seconds of every part, also of one that failed."""

    def __init__(
        self,
        told: Callable[[Phase, float], None] = lambda *_: None,
        clock: Clock | None = None,
    ) -> None:
        self._told = told
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def of(self, phase: Phase) -> Iterator[None]:
        """The block is this phase."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._told(phase, self._clock.monotonic() - began)
