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
the gateway: a newer agent wrote it, and its meaning may differ. Documents are replaced in one
step and durably; `.new` beside one is what a crash left of a replacement.

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
# Contents may be secret, and only the agent has to read them here.
_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600

Document = TypeVar("Document", bound=msgspec.Struct)


class _SchemaHeader(msgspec.Struct):
    """The one field that all documents share; it decodes documents of any version."""

    schema: int = STATE_SCHEMA


_header_decoder = msgspec.json.Decoder(_SchemaHeader)


def create_directories(directory: DataDirectory) -> None:
    """Create the directories that are missing, durably."""
    missing = [
        folder
        for folder in (STATE_DIRECTORY, STAGING_DIRECTORY, UNDO_DIRECTORY)
        if directory.stat(folder) is None
    ]
    for folder in missing:
        make_directory(directory, folder)
    for folder in {folder.rpartition("/")[0] for folder in missing}:
        directory.sync(folder)


def make_directory(directory: DataDirectory, folder: str) -> None:
    """Create one private directory unless it exists."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(folder, _PRIVATE_DIRECTORY)


def check_schemas(directory: DataDirectory, *, known: Collection[str] = ()) -> None:
    """Raise SyncRefused if a newer windlass has written a document.

    A damaged document is reported by the one who reads it. `known` are not read again.
    """
    for path in _DOCUMENTS:
        data = directory.read(path) if path not in known else None
        if data is not None:
            with contextlib.suppress(msgspec.DecodeError):
                check_schema(path, data)


def check_schema(path: str, data: bytes) -> None:
    """Raise SyncRefused if the document's schema is newer than ours."""
    schema = _header_decoder.decode(data).schema
    if schema > STATE_SCHEMA:
        raise SyncRefused(
            "VolumeLocked",
            path,
            f"{path} was written by a newer version of windlass (schema {schema}, supported: "
            f"{STATE_SCHEMA}); upgrade the agent",
        )


def read_document(directory: DataDirectory, path: str, kind: type[Document]) -> Document | None:
    """The document at `path`; None if it does not exist, Stalled if it is damaged."""
    data = directory.read(path)
    if data is None:
        return None
    try:
        check_schema(path, data)
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise damaged_document(path, str(error)) from error


def write_new_file(directory: DataDirectory, path: str, content: bytes, *, sync: bool) -> None:
    """Write a new file; without `sync` the caller makes it durable."""
    descriptor = directory.create(path, _PRIVATE_FILE)
    try:
        directory.write(descriptor, content)
        if sync:
            directory.sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def replace_document(directory: DataDirectory, path: str, content: bytes) -> None:
    """Replace the document at `path` in one step and durably."""
    temporary = f"{path}.new"
    remove_if_present(directory, temporary)
    try:
        write_new_file(directory, temporary, content, sync=True)
        directory.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            directory.unlink(temporary)
        raise
    directory.sync(path.rpartition("/")[0])


def remove_leftovers(directory: DataDirectory) -> None:
    """Remove what a crash left of a replacement."""
    for name in directory.names(STATE_DIRECTORY):
        if name.endswith(".new"):
            remove_if_present(directory, f"{STATE_DIRECTORY}/{name}")


def remove_directory(directory: DataDirectory, folder: str) -> None:
    """Remove one of our directories with its files; it has no subdirectories."""
    for name in directory.names(folder):
        remove_if_present(directory, f"{folder}/{name}")
    with contextlib.suppress(FileNotFoundError):
        directory.rmdir(folder)


def damaged_document(path: str, why: str) -> Stalled:
    """The error for a document that is missing or cannot be decoded."""
    return Stalled(
        "Internal",
        f"{path} on the data volume is damaged ({why}); restore the volume, or remove "
        f"{STATE_DIRECTORY} to let the next sync adopt the existing files",
    )


class ManifestFile:
    """The installed manifest, decoded once per version of the file."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        # By stat: the installed manifest, and one that is staged and about to be installed.
        self._cached: dict[FileStat, Manifest] = {}

    def read(self) -> Manifest | None:
        """The installed manifest; None before the first sync."""
        current = self._current_stat()
        manifest = self._cached.get(current) if current is not None else None
        if manifest is None:
            manifest = read_manifest(self._directory)
        self._cached = {current: manifest} if current is not None and manifest is not None else {}
        return manifest

    @property
    def is_cached(self) -> bool:
        """Whether the installed file is one that was read or written here."""
        return self._current_stat() in self._cached

    def cache(self, manifest: Manifest, path: str) -> None:
        """Cache `manifest` as the content of the staged file `path`, which may be installed."""
        info = self._directory.stat(path)
        if info is not None:
            self._cached[file_stat(info)] = manifest

    def _current_stat(self) -> FileStat | None:
        info = self._directory.stat(MANIFEST_PATH)
        return file_stat(info) if info is not None else None


def read_manifest(directory: DataDirectory, path: str = MANIFEST_PATH) -> Manifest | None:
    """The manifest at `path`; None before the first sync."""
    data = directory.read(path)
    if data is None:
        return None
    try:
        return manifests.decode(data)
    except ValueError as error:
        raise damaged_document(path, str(error)) from error


def file_stat(info: os.stat_result) -> FileStat:
    """The part of a stat that a manifest keeps."""
    return FileStat(info.st_size, info.st_mtime_ns, info.st_ino)


def with_stats(manifest: Manifest, stats: Mapping[str, FileStat | None]) -> Manifest:
    """`manifest` with other stats for some of its files."""
    if not stats:
        return manifest
    files = dict(manifest.files)
    for path, stat in stats.items():
        if path in files:
            files[path] = msgspec.structs.replace(files[path], stat=stat)
    return msgspec.structs.replace(manifest, files=files)
