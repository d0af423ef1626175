"""The staging directory of a transaction: new contents, written once and hashed on the way (APP-5).

A staging directory is flat: contents are numbered in the order they came, so that no path of a
repository is ever created here. They carry their final permissions, because they are renamed, not
copied, to their destination. Nothing in here is durable before `sync`.

Permissions (PRO-6): Git's modes do not matter. The gateway must be able to read and to replace
what the agent writes: either the agent runs as the user that owns the data directory, or both
share the volume's group. Anything else is refused, because the gateway would fail on our files at
some later time.

Disk space: the gateway writes to the same volume; a sync that takes the last byte stops it.
Whatever is about to be written must leave a share of the volume and a minimum of bytes free.

Durability: a few files are synced one by one. For many, one flush of their file system is some
eight times cheaper than a flush per file; files on several file systems take one flush each.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from windlass.base import failpoint
from windlass.base.errors import Retryable, Stalled
from windlass.gateways.tree.manifest import FileStat
from windlass.gateways.volume import placement, state_directory
from windlass.gateways.volume.data_directory import DataDirectory


@dataclass(frozen=True, slots=True)
class FileModes:
    """The permissions of new files and new directories."""

    file: int
    directory: int


OWNER_MODES = FileModes(0o644, 0o755)
GROUP_MODES = FileModes(0o664, 0o775)

_GROUP_WRITABLE = stat.S_ISGID | stat.S_IWGRP


def choose_modes(root: os.stat_result, *, user: int, groups: frozenset[int]) -> FileModes:
    """The permissions that fit the data directory `root`, for a process of `user`."""
    if root.st_uid == user:
        return OWNER_MODES
    if root.st_gid in groups and root.st_mode & _GROUP_WRITABLE == _GROUP_WRITABLE:
        return GROUP_MODES
    raise Stalled(
        "VolumeReadOnly",
        f"the data directory belongs to user {root.st_uid}, the agent runs as user {user}, "
        "and they share no group with write permission; run both as one user, or set fsGroup "
        "on the pod",
    )


def modes_for_process(root: os.stat_result) -> FileModes:
    """The permissions that fit the data directory `root`, for this process."""
    return choose_modes(root, user=os.geteuid(), groups=frozenset((os.getegid(), *os.getgroups())))


MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """The free space that every write leaves: a share of the file system, and minimum bytes."""

    share: float = 0.05
    minimum: int = 256 * MEBIBYTE

    def reserved_bytes(self, total: int) -> int:
        return max(int(total * self.share), self.minimum)

    def check(self, directory: DataDirectory, folder: str, needed: int) -> None:
        """Raise DiskFull if `needed` more bytes in `folder` would use up the reserve."""
        filesystem = directory.space(folder)
        free = filesystem.f_bavail * filesystem.f_frsize
        reserve = self.reserved_bytes(filesystem.f_blocks * filesystem.f_frsize)
        if free - needed < reserve:
            raise Retryable(
                "DiskFull",
                f"not enough space on the data volume: {_pretty(free)} free, "
                f"{_pretty(needed)} needed, and {_pretty(reserve)} must stay free; enlarge "
                "the volume or remove files",
            )


def _pretty(size: int) -> str:
    """A size in the largest unit in which it is at least 1."""
    for unit, bytes_ in (("GiB", MEBIBYTE << 10), ("MiB", MEBIBYTE), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"


MAX_SINGLE_SYNCS = 24


def sync_paths(directory: DataDirectory, paths: Iterable[str]) -> None:
    """Make files and directories durable; those that do not exist any more are skipped."""
    unique = sorted(set(paths))
    if len(unique) > MAX_SINGLE_SYNCS:
        unique = _one_per_file_system(directory, unique)
        for path in unique:
            directory.sync_filesystem(path)
        return
    for path in unique:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            directory.sync(path)


def _one_per_file_system(directory: DataDirectory, paths: Iterable[str]) -> list[str]:
    first: dict[int, str] = {}
    for path in paths:
        info = directory.stat(path)
        if info is not None:
            first.setdefault(info.st_dev, path)
    return list(first.values())


_SPACE_CHECK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class StagedContent:
    """A content in the staging directory."""

    sha256: str  # empty if it was linked, not written
    size: int
    number: int  # its name in the staging directory
    stat: FileStat  # which a rename to the destination preserves


class Staging:
    """The staging directory of the transaction `tx`."""

    def __init__(
        self, directory: DataDirectory, tx: str, modes: FileModes, reserve: DiskReserve
    ) -> None:
        self._directory = directory
        self._modes = modes
        self._reserve = reserve
        # How many contents were added; the next one gets this number.
        self._count = 0
        # Names of the documents written so far, to be made durable by `sync`.
        self._documents: list[str] = []
        self.folder = f"{state_directory.STAGING_DIRECTORY}/{tx}"

    def create(self) -> None:
        state_directory.make_directory(self._directory, self.folder)

    def content_path(self, number: int) -> str:
        """The path of the content with `number`."""
        return f"{self.folder}/{number}"

    def document_path(self, name: str) -> str:
        """The path of a document of the transaction."""
        return f"{self.folder}/{name}"

    def add(self, content: bytes | Iterable[bytes]) -> StagedContent:
        """Write one content, whole or in parts, and hash it."""
        number = self._next_number()
        failpoint.reach("gateways.stage.before")
        descriptor = self._directory.create(self.content_path(number), self._modes.file)
        try:
            sha256, size = self._write_content(descriptor, content)
            stat = state_directory.file_stat(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        failpoint.reach("gateways.stage.after")
        return StagedContent(sha256, size, number, stat)

    def _write_content(self, descriptor: int, content: bytes | Iterable[bytes]) -> tuple[str, int]:
        digest, size, checked = hashlib.sha256(), 0, 0
        for part in (content,) if isinstance(content, bytes) else content:
            size += len(part)
            if checked == 0 or size - checked > _SPACE_CHECK_BYTES:
                self._reserve.check(self._directory, self.folder, len(part))
                checked = size
            digest.update(part)
            self._directory.write(descriptor, part)
        return digest.hexdigest(), size

    def add_linked(self, path: str) -> StagedContent:
        """Stage a file of the undo directory by a link, without reading it; its hash is empty."""
        number = self._next_number()
        placement.link_or_copy(self._directory, path, self.content_path(number))
        info = self._directory.stat(self.content_path(number))
        assert info is not None
        return StagedContent("", info.st_size, number, state_directory.file_stat(info))

    def write_document(self, name: str, content: bytes) -> None:
        state_directory.write_new_file(
            self._directory, self.document_path(name), content, sync=False
        )
        self._documents.append(name)

    def sync(self, numbers: Iterable[int]) -> None:
        """Make contents and documents durable, then their names and that of the directory."""
        contents = [self.content_path(number) for number in numbers]
        sync_paths(self._directory, (*contents, *map(self.document_path, self._documents)))
        self._directory.sync(self.folder)
        self._directory.sync(state_directory.STAGING_DIRECTORY)

    def remove(self) -> None:
        state_directory.remove_directory(self._directory, self.folder)

    def _next_number(self) -> int:
        self._count += 1
        return self._count - 1


def staged_transactions(directory: DataDirectory) -> list[str]:
    """The transactions that have a staging directory."""
    return directory.names(state_directory.STAGING_DIRECTORY)


def remove_staging(directory: DataDirectory, tx: str) -> None:
    """Remove what is staged for a transaction."""
    state_directory.remove_directory(directory, f"{state_directory.STAGING_DIRECTORY}/{tx}")
