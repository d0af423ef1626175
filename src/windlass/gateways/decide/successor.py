"""The manifest that a carried-out plan leaves behind."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.gateways.decide.changes import Changes, Digest
from windlass.gateways.decide.layout import Layout
from windlass.gateways.decide.manifest import Manifest, ManifestEntry
from windlass.gateways.decide.plan import Target


def successor(
    layout: Layout,
    changes: Changes,
    rendered: Mapping[str, Digest],
    *,
    target: Target,
    tree: str = "",
    adopted: tuple[str, ...] = (),
) -> Manifest:
    """The manifest after the plan; files that the plan writes have no stat in it yet."""
    files = dict(changes.kept)
    for path in changes.restat:
        files[path] = msgspec.structs.replace(files[path], stat=changes.compared.stats[path])
    for path in changes.render:
        files[path] = _entry(path, layout, changes, rendered[path])
    return Manifest(
        commit=target.commit,
        tree=tree,
        profile_hash=target.profile_hash,
        routing_hash=target.routing_hash,
        roots=layout.roots,
        files=files,
        excludes=layout.excludes.patterns,
        adopted=adopted,
    )


def _entry(path: str, layout: Layout, changes: Changes, digest: Digest) -> ManifestEntry:
    wanted = layout.files[path]
    adopted = changes.compared.live_sha256(path) == digest.sha256
    return ManifestEntry(
        sha256=digest.sha256,
        size=digest.size,
        blob=wanted.blob,
        recipe=changes.recipe(wanted)[1],
        stat=changes.compared.stats[path] if adopted else None,
        transforms=digest.transforms,
        named=digest.named,
        about=digest.about,
    )
