"""Looks at a gateway's files, also while Git is being asked.

Nearly always the next plan manages what the last one did, so the places that the manifest
names are looked at during the fetch. That look counts only if it was taken of exactly the
places that the plan asks about, a moment ago, and under the same manifest; otherwise they
are looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.base.clock import Clock, SystemClock
from windlass.gateways.agent.apply import Applier
from windlass.gateways.decide import live as live_trees
from windlass.gateways.decide.live import Live, Lookups
from windlass.gateways.decide.manifest import Manifest, Root

FRESH_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """What the last sync left, and what lies on the disk now."""

    manifest: Manifest | None
    live: Live


@dataclass(frozen=True, slots=True)
class _Ahead:
    look: Look
    where: Lookups
    at: float


class Looking:
    """Looks at one data directory; they block and belong in a thread."""

    def __init__(self, applier: Applier, clock: Clock | None = None) -> None:
        self._applier = applier
        self._clock = clock if clock is not None else SystemClock()
        self._ahead: _Ahead | None = None

    def look_ahead(self) -> None:
        """Look where the next plan will most likely want to know."""
        self._ahead = None
        manifest = self._applier.manifest()
        if manifest is None:
            return
        now = self._clock.monotonic()
        where = live_trees.lookups(manifest.roots, manifest)
        live = self._applier.live(where, manifest)
        self._ahead = _Ahead(Look(manifest, live), where, now)

    def look(self, roots: Iterable[Root]) -> Look:
        """All that a plan for `roots` needs to know."""
        ahead, self._ahead = self._ahead, None
        manifest = self._applier.manifest()
        where = live_trees.lookups(roots, manifest)
        if ahead is not None and ahead.look.manifest is manifest and self._serves(ahead, where):
            return ahead.look
        return Look(manifest, self._applier.live(where, manifest))

    def _serves(self, ahead: _Ahead, where: Lookups) -> bool:
        return ahead.where == where and self._clock.monotonic() - ahead.at <= FRESH_SECONDS
