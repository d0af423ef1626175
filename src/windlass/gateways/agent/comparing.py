"""How the files on a gateway differ from what we left there (DRF-1, DRF-2).

Stats are looked at first and contents are read only where a stat differs, or all of them
once in a while. A resource.json that the gateway stamped is compared with the content we
wrote; where that cannot be had without asking Git, it counts as stamped, because nobody
knows better. Nothing is written here and no network is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.gateways.agent.apply import Applier
from windlass.gateways.decide import drift, live
from windlass.gateways.decide.drift import Drift
from windlass.gateways.decide.globs import Globs
from windlass.gateways.decide.manifest import Manifest, ManifestEntry
from windlass.gateways.decide.rendering import is_resource
from windlass.git.exact import ExactStore

_UNSEEN = frozenset(("signature",))
"""Transforms that a comparison without stamps does not see."""


def compared(
    applier: Applier,
    store: ExactStore | None,
    manifest: Manifest,
    excludes: Globs,
    *,
    everything: bool,
) -> Drift:
    """The drift of all that the manifest manages; without a store nothing counts as stamped."""
    found = applier.live(live.lookups(manifest.roots, manifest), manifest)
    suspects = drift.suspects(manifest, found.files, everything=everything)
    hashes = applier.hashes(suspects)
    altered = [path for path in hashes if hashes[path] != manifest.files[path].sha256]
    stamped = noise(applier, store, manifest, altered) if store is not None else frozenset()
    managed = frozenset(manifest.directories)
    extras = (
        path
        for path in found.files
        if path not in manifest.files
        and live.covered(path, managed)
        and excludes.match(path) is None
    )
    return drift.compare(manifest, found.files, hashes, extras, stamped)


def noise(
    applier: Applier, store: ExactStore, manifest: Manifest, altered: Iterable[str]
) -> frozenset[str]:
    """Those of `altered` in which nothing but the gateway's own stamps differs."""
    candidates = [path for path in altered if is_resource(path)]
    if not candidates:
        return frozenset()
    entries = manifest.files
    missing = frozenset(store.missing(entries[path].blob for path in candidates))
    return frozenset(
        path
        for path in candidates
        if _is_noise(applier, store, path, entries[path], unknown=entries[path].blob in missing)
    )


def _is_noise(
    applier: Applier, store: ExactStore, path: str, entry: ManifestEntry, *, unknown: bool
) -> bool:
    if not _UNSEEN.issuperset(entry.transforms):
        return False
    if unknown:
        return True
    theirs = applier.tree.read(path)
    return theirs is not None and drift.is_noise(store.read(entry.blob), theirs)
