"""Surveys a data directory: stats of all files, hashes only of those that are requested.

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
    """One survey of a data directory, folder by folder.

    `manifest_files` are the files as the last sync left them. A file that still has its stat
    there gets the very same object, so that finding touched files costs next to nothing.
    """

    def __init__(
        self, directory: DataDirectory, manifest_files: Mapping[str, ManifestEntry]
    ) -> None:
        self._directory = directory
        self._manifest_files = manifest_files
        # The result so far: plain files, directories, and paths that must not be touched.
        self._files: dict[str, FileStat] = {}
        self._directories: set[str] = set()
        self._others: dict[str, OtherKind] = {}

    def run(self, scope: SurveyScope) -> LiveTree:
        """Everything below the directories to walk, and the single paths to stat."""
        for path in (*scope.stat_only, *scope.walk):
            self._inspect(path)
        pending = [path for path in scope.walk if not path or path in self._directories]
        while pending:
            pending += self._list_directory(pending.pop())
        return LiveTree(self._files, frozenset(self._directories), self._others)

    def _inspect(self, path: str) -> None:
        if not path:
            return
        if path_rules.is_protected(path):
            self._others[path] = "protected"
            return
        try:
            info = self._directory.stat(path)
        except UnsafePath:
            # The symlink is a parent of this path and is reported where it is surveyed itself.
            return
        if info is not None:
            self._record(path, info)

    def _list_directory(self, folder: str) -> list[str]:
        """Record the entries of a directory; return the directories among them."""
        subdirectories: list[str] = []
        prefix = f"{folder}/" if folder else ""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, UnsafePath):
            for name, info in self._directory.entries(folder):
                path = prefix + name
                if path_rules.is_protected_entry(folder, name):
                    self._others[path] = "protected"
                elif self._record(path, info):
                    subdirectories.append(path)
        return subdirectories

    def _record(self, path: str, info: os.stat_result) -> bool:
        """Record what is at `path`; True for a directory."""
        kind = stat.S_IFMT(info.st_mode)
        if kind == stat.S_IFREG and _is_unicode(path):
            self._files[path] = self._file_stat(path, info)
        elif kind == stat.S_IFDIR and _is_unicode(path):
            self._directories.add(path)
            return True
        else:
            shown = path.encode(errors="backslashreplace").decode()
            self._others[shown] = "symlink" if kind == stat.S_IFLNK else "special"
        return False

    def _file_stat(self, path: str, info: os.stat_result) -> FileStat:
        entry = self._manifest_files.get(path)
        known = entry.stat if entry is not None else None
        if (
            known is not None
            and known.mtime_ns == info.st_mtime_ns
            and known.inode == info.st_ino
            and known.size == info.st_size
        ):
            return known
        return file_stat(info)


def hash_files(directory: DataDirectory, paths: Iterable[str]) -> dict[str, str]:
    """The sha256 of those among `paths` that are plain files; they are read in parts."""
    digests = {}
    for path in paths:
        try:
            digests[path] = file_sha256(directory, path)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            continue
    return digests


def _is_unicode(path: str) -> bool:
    """Whether a path is valid Unicode; others can be neither planned nor put into a manifest."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
