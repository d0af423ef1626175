"""How the files on a gateway differ from what we left there (DRF-1, DRF-2).

Stats are looked at first and contents are read only where a stat differs, or all of them
once in a while. Whether the gateway only stamped a resource.json is told by the digest that
the manifest has of it without stamps. Manifests of earlier versions have none: there it is
compared with its source in the store; where that cannot be had without asking Git, it counts
as stamped, because nobody knows better. Nothing is written here and no network is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.gateways.agent.apply import Applier
from windlass.gateways.decide import drift, live
from windlass.gateways.decide.drift import Drift
from windlass.gateways.decide.globs import Globs
from windlass.gateways.decide.manifest import Manifest, ManifestEntry
from windlass.gateways.decide.rendering import is_resource
from windlass.git.commit_store import CommitStore

_UNSEEN = frozenset(("signature",))
"""Transforms that a comparison without stamps does not see."""


def compared(
    applier: Applier,
    store: CommitStore | None,
    manifest: Manifest,
    excludes: Globs,
    *,
    everything: bool,
) -> Drift:
    """The drift of all that the manifest manages."""
    found = applier.live(live.lookups(manifest.roots, manifest), manifest)
    suspects = drift.suspects(manifest, found.files, everything=everything)
    hashes = applier.hashes(suspects)
    altered = [path for path in hashes if hashes[path] != manifest.files[path].sha256]
    stamped = noise(applier, store, manifest, altered)
    managed = frozenset(manifest.directories)
    adopted = frozenset(manifest.adopted or ())
    extras = (
        path
        for path in found.files
        if path not in manifest.files
        and path not in adopted
        and live.covered(path, managed)
        and excludes.match(path) is None
    )
    return drift.compare(manifest, found.files, hashes, extras, stamped)


def noise(
    applier: Applier, store: CommitStore | None, manifest: Manifest, altered: Iterable[str]
) -> frozenset[str]:
    """Those of `altered` in which nothing but the gateway's own stamps differs."""
    entries = manifest.files
    candidates = [path for path in altered if is_resource(path)]
    return frozenset(path for path in candidates if _is_noise(applier, store, path, entries[path]))


def needs_source(entry: ManifestEntry) -> bool:
    """Whether an entry of an earlier version can be compared only with its source."""
    return entry.about is None or not entry.about.calm


def _is_noise(applier: Applier, store: CommitStore | None, path: str, entry: ManifestEntry) -> bool:
    theirs = applier.tree.read(path)
    if theirs is None:
        return False
    if entry.about is not None and entry.about.calm:
        return drift.calm_digest(theirs) == entry.about.calm
    if store is None or not _UNSEEN.issuperset(entry.transforms):
        return False
    return bool(store.missing([entry.blob])) or drift.is_noise(store.read(entry.blob), theirs)
