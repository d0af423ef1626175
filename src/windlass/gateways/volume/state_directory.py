"""The agent's own directory on the data volume, and the documents in it (APP-3).

    .ignition-sync/
        lock             who may write (lock.py)
        state.json       the agent's durable state
        manifest.json    the managed tree as the last sync left it
        journal          present from the commit point until a transaction is finished
        staging/<tx>/    new contents, and the documents of a transaction
        undo/<tx>/       old contents of the last apply
        snapshots/       packed copies of the managed roots

Every document carries a schema number. One that is newer than ours stops all writes, but never
the gateway: a newer agent wrote it and knows something that we do not. Documents are replaced in
one step and durably; `.new` beside one is what a crash left of a replacement.

The manifest is written before the commit point, with the stats that the staged files will keep
when they are renamed, and installed after the last file. An installed manifest therefore never
names content that is not there. It is decoded once: as long as the file is the one that was read
or written last, its content is cached.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from windlass.base.errors import Stalled
from windlass.gateways.tree import manifest as manifests
from windlass.gateways.tree.manifest import FileStat, Manifest
from windlass.gateways.tree.path_rules import STATE_DIRECTORY, SyncRefused
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.placement import remove_if_present

LOCK_PATH = f"{STATE_DIRECTORY}/lock"
AGENT_STATE_PATH = f"{STATE_DIRECTORY}/state.json"
MANIFEST_PATH = f"{STATE_DIRECTORY}/manifest.json"
JOURNAL_PATH = f"{STATE_DIRECTORY}/journal"
STAGING_DIRECTORY = f"{STATE_DIRECTORY}/staging"
UNDO_DIRECTORY = f"{STATE_DIRECTORY}/undo"

STATE_SCHEMA = 1

_DOCUMENTS = (AGENT_STATE_PATH, MANIFEST_PATH, JOURNAL_PATH)
# Old and new contents lie here; nobody but us has to read them here.
_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600

Document = TypeVar("Document", bound=msgspec.Struct)


class _SchemaHeader(msgspec.Struct):
    schema: int = STATE_SCHEMA


_header_decoder = msgspec.json.Decoder(_SchemaHeader)


def create_directories(tree: DataDirectory) -> None:
    """Make the directories that are missing, durably; afterwards all of them are there."""
    missing = [
        folder
        for folder in (STATE_DIRECTORY, STAGING_DIRECTORY, UNDO_DIRECTORY)
        if tree.stat(folder) is None
    ]
    for folder in missing:
        make_directory(tree, folder)
    for folder in {folder.rpartition("/")[0] for folder in missing}:
        tree.sync(folder)


def make_directory(tree: DataDirectory, folder: str) -> None:
    """Make one private directory; one that is there already is as good."""
    with contextlib.suppress(FileExistsError):
        tree.mkdir(folder, _PRIVATE_DIRECTORY)


def check_schemas(tree: DataDirectory, *, known: Collection[str] = ()) -> None:
    """Refuse to write where a newer windlass has written; a broken document waits for its use.

    `known` are documents whose content is known to be ours.
    """
    for path in _DOCUMENTS:
        data = tree.read(path) if path not in known else None
        if data is not None:
            with contextlib.suppress(msgspec.DecodeError):
                check_schema(path, data)


def check_schema(path: str, data: bytes) -> None:
    """`Refused` where the document is newer than we are."""
    found = _header_decoder.decode(data).schema
    if found > STATE_SCHEMA:
        raise SyncRefused(
            "VolumeLocked",
            path,
            f"{path} was written by a newer version of windlass (schema {found}, this one "
            f"knows {STATE_SCHEMA}); nothing is written until the agent is at least as new",
        )


def read_document(tree: DataDirectory, path: str, kind: type[Document]) -> Document | None:
    """The document at `path`; None if there is none."""
    data = tree.read(path)
    if data is None:
        return None
    try:
        check_schema(path, data)
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise damaged_document(path, str(error)) from error


def write_new_file(tree: DataDirectory, path: str, content: bytes, *, sync: bool) -> None:
    """Write a file that is not there yet; without `sync` somebody else makes it durable."""
    descriptor = tree.create(path, _PRIVATE_FILE)
    try:
        tree.write(descriptor, content)
        if sync:
            tree.sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def replace_document(tree: DataDirectory, path: str, content: bytes) -> None:
    """Let the document at `path` be `content`, in one step and durably."""
    temporary = f"{path}.new"
    remove_if_present(tree, temporary)
    try:
        write_new_file(tree, temporary, content, sync=True)
        tree.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            tree.unlink(temporary)
        raise
    tree.sync(path.rpartition("/")[0])


def remove_leftovers(tree: DataDirectory) -> None:
    """Remove what a crash left of a replacement."""
    for name in tree.names(STATE_DIRECTORY):
        if name.endswith(".new"):
            remove_if_present(tree, f"{STATE_DIRECTORY}/{name}")


def remove_directory(tree: DataDirectory, folder: str) -> None:
    """Remove a directory of ours with the files in it; there are no directories in it."""
    for name in tree.names(folder):
        remove_if_present(tree, f"{folder}/{name}")
    with contextlib.suppress(FileNotFoundError):
        tree.rmdir(folder)


def damaged_document(path: str, why: str) -> Stalled:
    """The error for a document that cannot be what we wrote."""
    return Stalled(
        "Internal",
        f"{path} on the data volume is damaged ({why}): restore the volume, or remove "
        f"{STATE_DIRECTORY}, after which the next sync adopts the files that are there",
    )


class ManifestFile:
    """The manifest in place; what is kept of it is never more than a shortcut."""

    def __init__(self, tree: DataDirectory) -> None:
        self._directory = tree
        self._cached: dict[FileStat, Manifest] = {}

    def read(self) -> Manifest | None:
        """What the last sync left; None before the first one."""
        mark = self._current_stat()
        found = self._cached.get(mark) if mark is not None else None
        if found is None:
            found = read_manifest(self._directory)
        self._cached = {mark: found} if mark is not None and found is not None else {}
        return found

    @property
    def is_cached(self) -> bool:
        """Whether the file in place is one that was read or written here."""
        return self._current_stat() in self._cached

    def cache(self, manifest: Manifest, written: str) -> None:
        """`manifest` is what lies at `written`, a file that may be put in place."""
        found = self._directory.stat(written)
        if found is not None:
            self._cached[file_stat(found)] = manifest

    def _current_stat(self) -> FileStat | None:
        found = self._directory.stat(MANIFEST_PATH)
        return file_stat(found) if found is not None else None


def read_manifest(tree: DataDirectory, path: str = MANIFEST_PATH) -> Manifest | None:
    """The manifest at `path`; None before the first sync."""
    data = tree.read(path)
    if data is None:
        return None
    try:
        return manifests.decode(data)
    except ValueError as error:
        raise damaged_document(path, str(error)) from error


def file_stat(found: os.stat_result) -> FileStat:
    """What a manifest remembers of a file's stat."""
    return FileStat(found.st_size, found.st_mtime_ns, found.st_ino)


def with_stats(manifest: Manifest, stats: Mapping[str, FileStat | None]) -> Manifest:
    """`manifest` with other stats for some of its files."""
    if not stats:
        return manifest
    files = dict(manifest.files)
    for path, stat in stats.items():
        if path in files:
            files[path] = msgspec.structs.replace(files[path], stat=stat)
    return msgspec.structs.replace(manifest, files=files)
