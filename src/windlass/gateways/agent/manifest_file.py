"""The manifest on the data volume.

It is written before the commit point, with the stats that the staged files will keep when
they are renamed, and put in place after the last file. A manifest that is in place
therefore never names content that is not there. It is decoded once: as long as the file in
place is the one that was read or written last, what it says is known.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from windlass.gateways.agent import state_directory
from windlass.gateways.agent.tree import Tree
from windlass.gateways.decide import manifest as manifests
from windlass.gateways.decide.manifest import Manifest, Stat


class ManifestFile:
    """The manifest in place; what is kept of it is never more than a shortcut."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[Stat, Manifest] = {}

    def read(self) -> Manifest | None:
        """What the last sync left; None before the first one."""
        mark = self._mark()
        found = self._known.get(mark) if mark is not None else None
        if found is None:
            found = read(self._tree)
        self._known = {mark: found} if mark is not None and found is not None else {}
        return found

    @property
    def is_known(self) -> bool:
        """Whether the file in place is one that was read or written here."""
        return self._mark() in self._known

    def expect(self, manifest: Manifest, written: str) -> None:
        """`manifest` is what lies at `written`, a file that may be put in place."""
        found = self._tree.stat(written)
        if found is not None:
            self._known[stat_of(found)] = manifest

    def _mark(self) -> Stat | None:
        found = self._tree.stat(state_directory.MANIFEST)
        return stat_of(found) if found is not None else None


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
