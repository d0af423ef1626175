"""What lies on a gateway's disk: stats first, contents only where somebody asks.

A look never follows a symlink and never enters a protected path; both are reported. It
needs no lock and changes nothing, so it may run beside the gateway and beside a sync; a
file that vanishes meanwhile is not there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from windlass.gateways.agent.execution import digest
from windlass.gateways.agent.manifest_file import stat_of
from windlass.gateways.agent.tree import Tree, UnsafePath
from windlass.gateways.decide import paths, protected
from windlass.gateways.decide.live import Live, Lookups, Other
from windlass.gateways.decide.manifest import Stat


class Survey:
    """One look at a data directory, gathered folder by folder."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._files: dict[str, Stat] = {}
        self._directories: set[str] = set()
        self._others: dict[str, Other] = {}

    def live(self, lookups: Lookups) -> Live:
        """Everything below the directories to walk, and the paths to look at."""
        for path in (*lookups.look, *lookups.walk):
            self._look(path)
        waiting = [path for path in lookups.walk if not path or path in self._directories]
        while waiting:
            waiting += self._list(waiting.pop())
        return Live(self._files, frozenset(self._directories), self._others)

    def _look(self, path: str) -> None:
        if not path:
            return
        if protected.is_protected(path):
            self._others[path] = "protected"
            return
        try:
            found = self._tree.stat(path)
        except UnsafePath:
            # The link itself lies above; a look at it reports it.
            return
        if found is not None:
            self._note(path, found)

    def _list(self, folder: str) -> list[str]:
        """Note what is in a directory; the directories in it are to be listed next."""
        try:
            found = self._tree.entries(folder)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return []
        below = []
        for name, seen in found:
            path = paths.joined(folder, name)
            if protected.is_protected(path):
                self._others[path] = "protected"
            elif self._note(path, seen):
                below.append(path)
        return below

    def _note(self, path: str, found: os.stat_result) -> bool:
        """Remember what is at `path`; True for a directory."""
        if stat.S_ISDIR(found.st_mode) and _is_text(path):
            self._directories.add(path)
            return True
        if stat.S_ISREG(found.st_mode) and _is_text(path):
            self._files[path] = stat_of(found)
        else:
            shown = path.encode(errors="backslashreplace").decode()
            self._others[shown] = "symlink" if stat.S_ISLNK(found.st_mode) else "special"
        return False


def stats(tree: Tree, wanted: Iterable[str]) -> dict[str, Stat]:
    """The stats of those among `wanted` that are plain files, wherever they lie."""
    found: dict[str, Stat] = {}
    by_folder: dict[str, list[str]] = {}
    for path in wanted:
        by_folder.setdefault(paths.parent(path), []).append(path)
    for folder, members in by_folder.items():
        try:
            with tree.directory(folder) as descriptor:
                found.update(_stats(descriptor, members))
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            continue
    return found


def hashes(tree: Tree, wanted: Iterable[str]) -> dict[str, str]:
    """The sha256 of those among `wanted` that are plain files; they are read in parts."""
    found = {}
    for path in wanted:
        try:
            found[path] = digest(tree, path)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            continue
    return found


def _stats(descriptor: int, members: Iterable[str]) -> dict[str, Stat]:
    found = {}
    for path in members:
        try:
            seen = os.stat(paths.base(path), dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(seen.st_mode):
            found[path] = stat_of(seen)
    return found


def _is_text(path: str) -> bool:
    """A name that is no Unicode can neither be planned nor written down; it is left alone."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
