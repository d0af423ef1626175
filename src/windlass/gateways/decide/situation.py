"""What a plan is decided on: the tree that should be, the one we left, the one that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.gateways.decide.layout import Layout
from windlass.gateways.decide.live import Live
from windlass.gateways.decide.manifest import Manifest, ManifestEntry


@dataclass(frozen=True, slots=True)
class Situation:
    """One gateway at one moment; `manifest` is None before its first sync."""

    layout: Layout
    manifest: Manifest | None
    live: Live

    @property
    def ours(self) -> Mapping[str, ManifestEntry]:
        """What we brought over."""
        return self.manifest.files if self.manifest is not None else {}

    @property
    def directories_before(self) -> frozenset[str]:
        """The directories we managed until now."""
        return frozenset(self.manifest.directories if self.manifest is not None else ())
