"""The manifest on the data volume.

It is written before the commit point, with the stats that the staged files will keep when
they are renamed, and put in place after the last file. A manifest that is in place
therefore never names content that is not there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from windlass.gateways.agent import state_directory
from windlass.gateways.agent.tree import Tree
from windlass.gateways.decide import manifest as manifests
from windlass.gateways.decide.manifest import Manifest, Stat


def read(tree: Tree, path: str = state_directory.MANIFEST) -> Manifest | None:
    """The manifest at `path`; None before the first sync."""
    data = tree.read(path)
    if data is None:
        return None
    try:
        return manifests.decode(data)
    except ValueError as error:
        raise state_directory.broken(path, str(error)) from error


def stat_of(found: os.stat_result) -> Stat:
    """What a manifest remembers of a file's stat."""
    return Stat(found.st_size, found.st_mtime_ns, found.st_ino)


def with_stats(manifest: Manifest, stats: Mapping[str, Stat | None]) -> Manifest:
    """`manifest` with other stats for some of its files."""
    if not stats:
        return manifest
    files = dict(manifest.files)
    for path, stat in stats.items():
        if path in files:
            files[path] = msgspec.structs.replace(files[path], stat=stat)
    return msgspec.structs.replace(manifest, files=files)
