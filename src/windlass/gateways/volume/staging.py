"""The staging directory of a transaction: new contents, written once and hashed on the way (APP-5).

A staging directory is flat: contents are numbered in the order they came, so that no path of a
repository is ever created here. They carry their final permissions, because they are renamed, not
copied, to their destination. Nothing in here is durable before `sync`.

Permissions (PRO-6): Git's modes do not matter. The gateway must be able to read and to replace
what the agent writes: either the agent runs as the user that owns the data directory, or both
share the volume's group. Anything else is refused, because the gateway would fail on our files at
a random moment.

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
        f"the data directory belongs to user {root.st_uid}, the agent runs as {user} and they "
        "share no group with write permission: run both as one user, or set fsGroup on the pod",
    )


def modes_for_process(root: os.stat_result) -> FileModes:
    """The permissions that fit the data directory `root`, for this process."""
    return choose_modes(root, user=os.geteuid(), groups=frozenset((os.getegid(), *os.getgroups())))


MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """What must stay free on every file system that we write to."""

    share: float = 0.05
    minimum: int = 256 * MEBIBYTE

    def reserved_bytes(self, total: int) -> int:
        return max(int(total * self.share), self.minimum)

    def check(self, tree: DataDirectory, folder: str, wanted: int) -> None:
        """Raise DiskFull where `wanted` more bytes in `folder` would touch the reserve."""
        found = tree.space(folder)
        free = found.f_bavail * found.f_frsize
        reserve = self.reserved_bytes(found.f_blocks * found.f_frsize)
        if free - wanted < reserve:
            raise Retryable(
                "DiskFull",
                f"the data volume has {_pretty(free)} free; this sync needs {_pretty(wanted)} more "
                f"and {_pretty(reserve)} must stay free: enlarge the volume or remove files",
            )


def _pretty(size: int) -> str:
    """A size that never reads as nothing where it is something."""
    for unit, bytes_ in (("GiB", MEBIBYTE << 10), ("MiB", MEBIBYTE), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"


MAX_SINGLE_SYNCS = 24


def sync_paths(tree: DataDirectory, paths: Iterable[str]) -> None:
    """Make files and directories outlive a power cut; what is gone needs nothing."""
    wanted = sorted(set(paths))
    if len(wanted) > MAX_SINGLE_SYNCS:
        wanted = _one_per_file_system(tree, wanted)
        for path in wanted:
            tree.sync_filesystem(path)
        return
    for path in wanted:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            tree.sync(path)


def _one_per_file_system(tree: DataDirectory, paths: Iterable[str]) -> list[str]:
    first: dict[int, str] = {}
    for path in paths:
        found = tree.stat(path)
        if found is not None:
            first.setdefault(found.st_dev, path)
    return list(first.values())


_SPACE_CHECK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class StagedContent:
    """A content that waits for its commit point; it keeps `stat` when it is put in place."""

    sha256: str
    size: int
    number: int
    stat: FileStat


class Staging:
    """The staged contents of the transaction `tx`."""

    def __init__(
        self, tree: DataDirectory, tx: str, modes: FileModes, reserve: DiskReserve
    ) -> None:
        self._directory = tree
        self._modes = modes
        self._reserve = reserve
        self._count = 0
        self._documents: list[str] = []
        self.folder = f"{state_directory.STAGING_DIRECTORY}/{tx}"

    def create(self) -> None:
        state_directory.make_directory(self._directory, self.folder)

    def content_path(self, number: int) -> str:
        """Where the content with `number` lies."""
        return f"{self.folder}/{number}"

    def document_path(self, name: str) -> str:
        """Where a document of the transaction lies."""
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
        """Take a file we hold elsewhere as a content, unread and without writing it again."""
        number = self._next_number()
        placement.link_or_copy(self._directory, path, self.content_path(number))
        found = self._directory.stat(self.content_path(number))
        assert found is not None
        return StagedContent("", found.st_size, number, state_directory.file_stat(found))

    def write_document(self, name: str, content: bytes) -> None:
        state_directory.write_new_file(
            self._directory, self.document_path(name), content, sync=False
        )
        self._documents.append(name)

    def sync(self, numbers: Iterable[int]) -> None:
        """Make contents and papers durable, then every name in here and the names above."""
        contents = [self.content_path(number) for number in numbers]
        sync_paths(self._directory, (*contents, *map(self.document_path, self._documents)))
        self._directory.sync(self.folder)
        self._directory.sync(state_directory.STAGING_DIRECTORY)

    def remove(self) -> None:
        state_directory.remove_directory(self._directory, self.folder)

    def _next_number(self) -> int:
        self._count += 1
        return self._count - 1


def staged_transactions(tree: DataDirectory) -> list[str]:
    """The transactions that have a staging directory."""
    return tree.names(state_directory.STAGING_DIRECTORY)


def remove_staging(tree: DataDirectory, tx: str) -> None:
    """Remove what is staged for a transaction."""
    state_directory.remove_directory(tree, f"{state_directory.STAGING_DIRECTORY}/{tx}")
