"""Reads a data volume for plans and for drift; nothing is written and no network is used.

For a plan: nearly always the next plan manages what the last one did, so the roots that the
manifest names are surveyed ahead, during the fetch. That survey counts only if it covers exactly
what the plan asks for, was taken a moment ago, and under the same manifest; otherwise the volume
is surveyed again.

For drift (DRF-1, DRF-2): stats are compared first and contents are read only where a stat differs,
or all of them once in a while. Whether the gateway only stamped a resource.json shows in the
digest without stamps that the manifest has of it. Manifests of earlier versions have none: there
it is compared with its source in the store; where that would need a fetch, it counts as stamped,
because it cannot be known better.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.base.clock import Clock, SystemClock
from windlass.gateways.render.file_renderer import is_resource_file
from windlass.gateways.tree import live_tree
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.live_tree import FileDrift, LiveTree, SurveyScope
from windlass.gateways.tree.manifest import ManagedRoot, Manifest, ManifestEntry
from windlass.gateways.volume.data_volume import DataVolume
from windlass.git.commit_store import CommitStore

MAX_PREFETCH_AGE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the last sync left, and what lies on the disk now."""

    manifest: Manifest | None
    live_tree: LiveTree


@dataclass(frozen=True, slots=True)
class _Prefetched:
    inspection: Inspection
    scope: SurveyScope
    taken_at: float


class VolumeInspector:
    """Looks at one data directory; they block and belong in a thread."""

    def __init__(self, applier: DataVolume, clock: Clock | None = None) -> None:
        self._volume = applier
        self._clock = clock if clock is not None else SystemClock()
        self._prefetched: _Prefetched | None = None

    def prefetch(self) -> None:
        """Look where the next plan will most likely want to know."""
        self._prefetched = None
        manifest = self._volume.manifest()
        if manifest is None:
            return
        now = self._clock.monotonic()
        where = live_tree.survey_scope(manifest.roots, manifest)
        live = self._volume.survey(where, manifest)
        self._prefetched = _Prefetched(Inspection(manifest, live), where, now)

    def inspect(self, roots: Iterable[ManagedRoot]) -> Inspection:
        """All that a plan for `roots` needs to know."""
        ahead, self._prefetched = self._prefetched, None
        manifest = self._volume.manifest()
        where = live_tree.survey_scope(roots, manifest)
        if (
            ahead is not None
            and ahead.inspection.manifest is manifest
            and self._is_usable(ahead, where)
        ):
            return ahead.inspection
        return Inspection(manifest, self._volume.survey(where, manifest))

    def _is_usable(self, ahead: _Prefetched, where: SurveyScope) -> bool:
        return (
            ahead.scope == where
            and self._clock.monotonic() - ahead.taken_at <= MAX_PREFETCH_AGE_SECONDS
        )


_STAMP_TRANSFORMS = frozenset(("signature",))
"""Transforms that a comparison without stamps does not see."""


def inspect_drift(
    applier: DataVolume,
    store: CommitStore | None,
    manifest: Manifest,
    excludes: GlobSet,
    *,
    everything: bool,
) -> FileDrift:
    """The drift of all that the manifest manages."""
    found = applier.survey(live_tree.survey_scope(manifest.roots, manifest), manifest)
    suspects = live_tree.drift_suspects(manifest, found.files, everything=everything)
    hashes = applier.hash_files(suspects)
    altered = [path for path in hashes if hashes[path] != manifest.files[path].sha256]
    stamped = stamped_files(applier, store, manifest, altered)
    managed = frozenset(manifest.directories)
    adopted = frozenset(manifest.adopted or ())
    extras = (
        path
        for path in found.files
        if path not in manifest.files
        and path not in adopted
        and live_tree.is_within(path, managed)
        and excludes.match(path) is None
    )
    return live_tree.find_drift(manifest, found.files, hashes, extras, stamped)


def stamped_files(
    applier: DataVolume, store: CommitStore | None, manifest: Manifest, altered: Iterable[str]
) -> frozenset[str]:
    """Those of `altered` in which nothing but the gateway's own stamps differs."""
    entries = manifest.files
    candidates = [path for path in altered if is_resource_file(path)]
    return frozenset(
        path for path in candidates if _is_stamped_only(applier, store, path, entries[path])
    )


def needs_source(entry: ManifestEntry) -> bool:
    """Whether an entry of an earlier version can be compared only with its source."""
    return entry.about is None or not entry.about.calm


def _is_stamped_only(
    applier: DataVolume, store: CommitStore | None, path: str, entry: ManifestEntry
) -> bool:
    theirs = applier.directory.read(path)
    if theirs is None:
        return False
    if entry.about is not None and entry.about.calm:
        return live_tree.unstamped_digest(theirs) == entry.about.calm
    if store is None or not _STAMP_TRANSFORMS.issuperset(entry.transforms):
        return False
    return bool(store.missing([entry.blob])) or live_tree.differs_in_stamps_only(
        store.read(entry.blob), theirs
    )
