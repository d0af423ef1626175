"""Reads a data volume for plans and for drift; nothing is written and no network is used.

For a plan: nearly always the next plan manages the same roots as the last one, so the roots that
the manifest names are surveyed ahead, during the fetch. That survey is used only if it has exactly
the scope of the plan, is at most three seconds old, and belongs to the same manifest; otherwise
the volume is surveyed again.

For drift (DRF-1, DRF-2): stats are compared first and contents are read only where a stat differs,
or all of them once in a while. Whether the gateway only stamped a resource.json shows in the
digest without stamps that the manifest has of it. Manifests of earlier versions have none: there
the file is compared with its source in the store; where that would need a fetch, it counts as
stamped, so that no drift is reported without proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from windlass.base.clock import Clock, SystemClock
from windlass.gateways.render.file_renderer import is_resource_file
from windlass.gateways.tree import deletes, live_tree
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.live_tree import FileDrift, LiveTree, SurveyScope
from windlass.gateways.tree.manifest import ManagedRoot, Manifest, ManifestEntry
from windlass.gateways.volume.data_volume import DataVolume
from windlass.git.commit_store import CommitStore

MAX_PREFETCH_AGE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Inspection:
    """The tree as the last sync left it (None before the first one), and the live tree."""

    manifest: Manifest | None
    live_tree: LiveTree


@dataclass(frozen=True, slots=True)
class _Prefetched:
    """A survey taken ahead; `taken_at` is monotonic."""

    inspection: Inspection
    scope: SurveyScope
    taken_at: float


class VolumeInspector:
    """Reads one data volume for plans; all calls block and belong in a thread."""

    def __init__(self, volume: DataVolume, clock: Clock | None = None) -> None:
        self._volume = volume
        self._clock = clock if clock is not None else SystemClock()
        # Set by `prefetch`, consumed by the next `inspect`.
        self._prefetched: _Prefetched | None = None

    def prefetch(self) -> None:
        """Survey the roots of the manifest, which the next plan most likely needs."""
        self._prefetched = None
        manifest = self._volume.manifest()
        if manifest is None:
            return
        now = self._clock.monotonic()
        scope = live_tree.survey_scope(manifest.roots, manifest)
        live = self._volume.survey(scope, manifest)
        self._prefetched = _Prefetched(Inspection(manifest, live), scope, now)

    def inspect(self, roots: Iterable[ManagedRoot]) -> Inspection:
        """The manifest and live tree that a plan for `roots` needs."""
        prefetched, self._prefetched = self._prefetched, None
        manifest = self._volume.manifest()
        scope = live_tree.survey_scope(roots, manifest)
        if (
            prefetched is not None
            and prefetched.inspection.manifest is manifest
            and self._is_usable(prefetched, scope)
        ):
            return prefetched.inspection
        return Inspection(manifest, self._volume.survey(scope, manifest))

    def _is_usable(self, prefetched: _Prefetched, scope: SurveyScope) -> bool:
        return (
            prefetched.scope == scope
            and self._clock.monotonic() - prefetched.taken_at <= MAX_PREFETCH_AGE_SECONDS
        )


_STAMP_TRANSFORMS = frozenset(("signature",))
"""Transforms that do not matter for a comparison without stamps."""


def inspect_drift(
    volume: DataVolume,
    store: CommitStore | None,
    manifest: Manifest | None,
    excludes: GlobSet,
    *,
    everything: bool,
    api_token: str = "",
) -> FileDrift:
    """The drift of all managed files, none before the first sync; `everything` reads contents.

    What a plan neither writes nor deletes is no drift: adopted, excluded and omitted files, and the
    gateway's resource for the token that it is scanned with, or for any while its name is unknown.
    """
    if manifest is None:
        return FileDrift()
    live = volume.survey(live_tree.survey_scope(manifest.roots, manifest), manifest)
    suspects = live_tree.drift_suspects(manifest, live.files, everything=everything)
    hashes = volume.hash_files(_without_excluded(suspects, excludes))
    altered = [path for path in hashes if hashes[path] != manifest.files[path].sha256]
    stamped = stamped_files(volume, store, manifest, altered)
    extras = _extra_files(manifest, live.files, api_token)
    drift = live_tree.find_drift(
        manifest, live.files, hashes, _without_excluded(extras, excludes), stamped
    )
    return replace(drift, missing=_without_excluded(drift.missing, excludes))


def _extra_files(manifest: Manifest, paths: Iterable[str], api_token: str) -> Iterator[str]:
    """The live files that no sync brought and that a plan may delete, if they are not excluded."""
    if manifest.adopted is None:
        # Written by an earlier version: every file may be older than the first sync, as in a plan.
        return
    managed = frozenset(manifest.directories)
    kept = frozenset((*manifest.adopted, *manifest.omitted))
    for path in paths:
        is_known = path in manifest.files or path in kept
        if is_known or deletes.is_kept_token(path, api_token):
            continue
        if live_tree.is_within(path, managed):
            yield path


def _without_excluded(paths: Iterable[str], excludes: GlobSet) -> tuple[str, ...]:
    return tuple(path for path in paths if excludes.match(path) is None)


def stamped_files(
    volume: DataVolume, store: CommitStore | None, manifest: Manifest, altered: Iterable[str]
) -> frozenset[str]:
    """Those of `altered` in which nothing but the gateway's own stamps differs."""
    entries = manifest.files
    candidates = [path for path in altered if is_resource_file(path)]
    return frozenset(
        path for path in candidates if _is_stamped_only(volume, store, path, entries[path])
    )


def needs_source(entry: ManifestEntry) -> bool:
    """Whether an entry of an earlier version can be compared only with its source."""
    return entry.about is None or not entry.about.calm


def _is_stamped_only(
    volume: DataVolume, store: CommitStore | None, path: str, entry: ManifestEntry
) -> bool:
    content = volume.directory.read(path)
    if content is None:
        return False
    if entry.about is not None and entry.about.calm:
        return live_tree.unstamped_digest(content) == entry.about.calm
    if store is None or not _STAMP_TRANSFORMS.issuperset(entry.transforms):
        return False
    return bool(store.missing([entry.blob])) or live_tree.differs_in_stamps_only(
        store.read(entry.blob), content
    )
