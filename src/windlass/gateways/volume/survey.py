"""Surveys a data directory: stats of all files, contents only where they are asked for.

A survey never follows a symlink and never enters a protected path; both are reported. It needs no
lock and changes nothing, so it may run beside the gateway and beside a sync; a file that vanishes
meanwhile counts as missing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping

from windlass.gateways.tree import path_rules
from windlass.gateways.tree.live_tree import LiveTree, OtherKind, SurveyScope
from windlass.gateways.tree.manifest import FileStat, ManifestEntry
from windlass.gateways.volume.completion import file_sha256
from windlass.gateways.volume.data_directory import DataDirectory, UnsafePath
from windlass.gateways.volume.state_directory import file_stat


class DirectorySurvey:
    """One look at a data directory, gathered folder by folder.

    `left` is what the last sync left. A file that still has that stat gets the very same
    one, so that telling touched files from untouched ones costs next to nothing.
    """

    def __init__(self, tree: DataDirectory, left: Mapping[str, ManifestEntry]) -> None:
        self._directory = tree
        self._manifest_files = left
        self._files: dict[str, FileStat] = {}
        self._directories: set[str] = set()
        self._others: dict[str, OtherKind] = {}

    def run(self, lookups: SurveyScope) -> LiveTree:
        """Everything below the directories to walk, and the paths to look at."""
        for path in (*lookups.stat_only, *lookups.walk):
            self._inspect(path)
        waiting = [path for path in lookups.walk if not path or path in self._directories]
        while waiting:
            waiting += self._list_directory(waiting.pop())
        return LiveTree(self._files, frozenset(self._directories), self._others)

    def _inspect(self, path: str) -> None:
        if not path:
            return
        if path_rules.is_protected(path):
            self._others[path] = "protected"
            return
        try:
            found = self._directory.stat(path)
        except UnsafePath:
            # The link itself lies above; a look at it reports it.
            return
        if found is not None:
            self._record(path, found)

    def _list_directory(self, folder: str) -> list[str]:
        """Note what is in a directory; the directories in it are to be listed next."""
        below: list[str] = []
        above = f"{folder}/" if folder else ""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, UnsafePath):
            for name, seen in self._directory.entries(folder):
                path = above + name
                if path_rules.is_protected_entry(folder, name):
                    self._others[path] = "protected"
                elif self._record(path, seen):
                    below.append(path)
        return below

    def _record(self, path: str, found: os.stat_result) -> bool:
        """Remember what is at `path`; True for a directory."""
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFREG and _is_unicode(path):
            self._files[path] = self._file_stat(path, found)
        elif kind == stat.S_IFDIR and _is_unicode(path):
            self._directories.add(path)
            return True
        else:
            shown = path.encode(errors="backslashreplace").decode()
            self._others[shown] = "symlink" if kind == stat.S_IFLNK else "special"
        return False

    def _file_stat(self, path: str, found: os.stat_result) -> FileStat:
        entry = self._manifest_files.get(path)
        left = entry.stat if entry is not None else None
        if (
            left is not None
            and left.mtime_ns == found.st_mtime_ns
            and left.inode == found.st_ino
            and left.size == found.st_size
        ):
            return left
        return file_stat(found)


def stat_files(tree: DataDirectory, wanted: Iterable[str]) -> dict[str, FileStat]:
    """The stats of those among `wanted` that are plain files, wherever they lie."""
    found: dict[str, FileStat] = {}
    by_folder: dict[str, list[str]] = {}
    for path in wanted:
        by_folder.setdefault(path_rules.parent(path), []).append(path)
    for folder, members in by_folder.items():
        try:
            with tree.directory(folder) as descriptor:
                found.update(_stat_members(descriptor, members))
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            continue
    return found


def hash_files(tree: DataDirectory, wanted: Iterable[str]) -> dict[str, str]:
    """The sha256 of those among `wanted` that are plain files; they are read in parts."""
    found = {}
    for path in wanted:
        try:
            found[path] = file_sha256(tree, path)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            continue
    return found


def _stat_members(descriptor: int, members: Iterable[str]) -> dict[str, FileStat]:
    found = {}
    for path in members:
        try:
            seen = os.stat(path_rules.base_name(path), dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(seen.st_mode):
            found[path] = file_stat(seen)
    return found


def _is_unicode(path: str) -> bool:
    """A name that is no Unicode can neither be planned nor written down; it is left alone."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
