"""Bare object store: the local copy of one remote repository.

It holds the newest commit of a branch and its directories, blobs only where a caller needed them,
and the objects to be pushed. It is disposable: whatever is wrong with it becomes `StoreCorrupt`,
the caller discards it and fetches again, and only time is lost. Methods that are not `async` read
or write the disk and belong in a thread; network calls on one store run one after the other.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from windlass.base import failpoint, files
from windlass.git import store_health
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, StoreCorrupt
from windlass.git.fetch import Fetcher
from windlass.git.format import objects, pack
from windlass.git.format.remote import Remote
from windlass.git.runner import Git

MAX_ENTRIES = 500_000
MAX_PATH_BYTES = 4096
PACK_FROM_OBJECTS = 100

_MAX_DEPTH = 512
_MAX_WALK = 100_000
_KINDS = {"blob": ObjectType.BLOB, "tree": ObjectType.TREE, "commit": ObjectType.COMMIT}

# Trees may name blobs that a blobless store does not hold.
pygit2.settings.enable_strict_object_creation(False)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a commit: its mode and the id of its content."""

    mode: int
    blob: str


class Store:
    """One bare repository in `directory`."""

    def __init__(self, directory: Path, repository: pygit2.Repository) -> None:
        self.directory = directory
        self._repository = repository
        # The object database of `_repository`, reloaded together with it.
        self._odb = repository.odb
        # One fetch at a time.
        self._network = asyncio.Lock()

    @classmethod
    def open(cls, directory: Path) -> Store:
        """Open the store in `directory`, or create one where there is none or it is damaged."""
        with store_health.translate_store_errors():
            _finish_deletions(directory)
            store_health.remove_leftover_files(directory)
            return cls(directory, _open_or_create(directory))

    def close(self) -> None:
        """Release the files; otherwise libgit2 shares its cache with the next who opens them."""
        del self._odb
        self._repository.free()

    def discard(self) -> None:
        """Delete everything and start empty; for a store that is corrupt or too large."""
        with store_health.translate_store_errors():
            self._repository.free()
            _delete(self.directory)
            self._repository = _open_or_create(self.directory)
            self._odb = self._repository.odb

    def replace(self, other: Path) -> None:
        """Replace our files by those of `other`, a repository in the same directory."""
        with store_health.translate_store_errors():
            self._repository.free()
            _delete(self.directory)
            other.rename(self.directory)
            self._repository = _open_or_create(self.directory)
            self._odb = self._repository.odb

    def remove_locks(self) -> None:
        """Remove lock files that a killed git left."""
        with store_health.translate_store_errors():
            store_health.remove_leftover_locks(self.directory)

    async def fetch(
        self,
        git: Git,
        remote: Remote,
        credentials: Credentials,
        ref: str,
        *,
        depth: int = 1,
        blobless: bool = True,
    ) -> str:
        """Fetch the newest `depth` commits of a ref (or of a commit id); returns the newest id."""
        await asyncio.to_thread(self._check_tip, ref)
        async with self._network:
            await self._fetcher(git, remote, credentials).fetch(ref, depth=depth, blobless=blobless)
            tip = await asyncio.to_thread(self.tip, ref)
        if tip is None:
            raise StoreCorrupt(f"{ref} is missing in the git store after it was fetched")
        return tip

    async def read_blobs(
        self, git: Git, remote: Remote, credentials: Credentials, ids: Iterable[str]
    ) -> dict[str, bytes]:
        """The content of blobs; missing ones are fetched in one request."""
        unique_ids = list(dict.fromkeys(ids))
        missing = await asyncio.to_thread(self.missing, unique_ids)
        if missing:
            async with self._network:
                await self._fetcher(git, remote, credentials).fetch_objects(missing)
        return await asyncio.to_thread(
            lambda: {blob_id: self.read_blob(blob_id) for blob_id in unique_ids}
        )

    def clutter(self) -> int:
        """An estimate of loose objects, from one sample directory, plus the number of packs."""
        with store_health.translate_store_errors():
            sample = len(list((self.directory / "objects" / "17").glob("*")))
            return sample * 256 + len(list((self.directory / "objects" / "pack").glob("*.pack")))

    def tip(self, ref: str) -> str | None:
        """The commit last fetched or pushed for `ref`."""
        with store_health.translate_store_errors():
            reference = self._repository.references.get(Fetcher.local_ref(ref))
            return str(reference.target) if reference is not None else None

    def _check_tip(self, ref: str) -> None:
        """Read the tip first: git would fetch a damaged one over and over without an error."""
        tip = self.tip(ref)
        if tip is not None:
            self.read_tree(self.tree_of(tip))

    def remember(self, ref: str, commit_id: str) -> None:
        """Record that the remote's `ref` is at `commit_id`, which the store holds."""
        self.note(Fetcher.local_ref(ref), commit_id)

    def refs(self, prefix: str) -> dict[str, str]:
        """Our local refs whose names begin with `prefix`, with their targets."""
        with store_health.translate_store_errors():
            references = self._repository.references
            return {
                name: str(references[name].target) for name in references if name.startswith(prefix)
            }

    def note(self, ref: str, identifier: str) -> None:
        """Set a local ref to an object."""
        with store_health.translate_store_errors():
            self._repository.references.create(ref, pygit2.Oid(hex=identifier), force=True)

    def drop_refs(self, prefix: str) -> None:
        """Remove our local refs whose names begin with `prefix`."""
        with store_health.translate_store_errors():
            for name in self.refs(prefix):
                self._repository.references.delete(name)

    def peeled(self, identifier: str) -> tuple[str, str]:
        """Kind and id of an object after following any number of tags."""
        with store_health.translate_store_errors():
            for _ in range(_MAX_DEPTH):
                kind = self._odb.read_header(pygit2.Oid(hex=identifier))[0]
                if kind != ObjectType.TAG:
                    return ObjectType(kind).name.lower(), identifier
                identifier = objects.tag_target(self._read(identifier, "tag"))
            raise ValueError("too many nested tags")

    def blob_size(self, blob_id: str) -> int:
        """How many bytes a blob has, without reading them."""
        with store_health.translate_store_errors():
            return int(self._odb.read_header(pygit2.Oid(hex=blob_id))[1])

    def tree_of(self, commit_id: str) -> str:
        return self._header(commit_id).tree

    def committed_at(self, commit_id: str) -> int:
        """The committer time of a commit, in seconds since 1970."""
        return self._header(commit_id).committed

    def author_of(self, commit_id: str) -> str:
        """The name of the author of a commit."""
        return self._header(commit_id).author

    def tree_entries(self, commit_id: str, folder: str = "") -> dict[str, Entry]:
        """All files below `folder` by their path from the root; bounded, no blob is read."""
        start = self._subtree(self.tree_of(commit_id), folder)
        entries: dict[str, Entry] = {}
        if start is None:
            return entries
        pending = [(folder.strip("/").encode("utf-8", "surrogateescape"), start, 0)]
        walked = 0
        while pending:
            prefix, tree_id, depth = pending.pop()
            walked += 1
            for name, entry in self.read_tree(tree_id).items():
                path = prefix + b"/" + name if prefix else name
                check_bounds(path, depth, len(entries) + len(pending) + walked)
                if entry.is_directory:
                    pending.append((path, entry.id, depth + 1))
                else:
                    entries[path.decode("utf-8", "surrogateescape")] = Entry(entry.mode, entry.id)
        return entries

    def read_tree(self, tree_id: str) -> dict[bytes, objects.TreeEntry]:
        with store_health.translate_store_errors():
            return objects.parse_tree(self._read(tree_id, "tree"))

    def read_blob(self, blob_id: str) -> bytes:
        with store_health.translate_store_errors():
            return self._read(blob_id, "blob")

    def blob_id(self, content: bytes) -> str:
        """The id of a blob with this content, stored or not."""
        return objects.blob_id(content)

    def has(self, identifier: str) -> bool:
        return not self.missing([identifier])

    def missing(self, ids: Iterable[str]) -> list[str]:
        """Those of `ids` that the store does not hold."""
        with store_health.translate_store_errors():
            return [identifier for identifier in ids if pygit2.Oid(hex=identifier) not in self._odb]

    def contains(self, commit_id: str, ancestor: str) -> bool:
        """Whether `ancestor` is `commit_id` or an ancestor of it, within the stored history."""
        return any(commit == ancestor for commit in self._history(commit_id))

    def abbreviated(self, commit_id: str, start: str) -> list[str]:
        """The commits among `commit_id` and its ancestors whose ids begin with `start`."""
        return [commit for commit in self._history(commit_id) if commit.startswith(start)]

    def is_complete(self, commit_id: str) -> bool:
        """Whether the whole history of `commit_id` is stored, down to its roots."""
        return not self.missing(self._history(commit_id))

    def write_objects(self, new: Mapping[str, tuple[str, bytes]]) -> None:
        """Write new objects: few as loose objects, many as one pack."""
        with store_health.translate_store_errors():
            failpoint.reach("git.store.write.before")
            if len(new) < PACK_FROM_OBJECTS:
                for kind, data in new.values():
                    self._odb.write(_KINDS[kind], data)
            else:
                self._write_pack(pack.build(new))
            failpoint.reach("git.store.write.after")

    def _write_pack(self, built: pack.Pack) -> None:
        """Write the index last: without it the pack is invisible to readers."""
        directory = self.directory / "objects" / "pack"
        files.write_atomically(directory / f"{built.name}.pack", built.pack, mode=0o444)
        files.write_atomically(directory / f"{built.name}.idx", built.index, mode=0o444)

    def _history(self, commit_id: str) -> Iterator[str]:
        """Commit ids from `commit_id` back; parents that are not stored are the last ones."""
        visited = {commit_id}
        pending = deque([commit_id])
        while pending and len(visited) < _MAX_WALK:
            current = pending.popleft()
            yield current
            if self.missing([current]):
                continue
            new = [parent for parent in self._header(current).parents if parent not in visited]
            visited.update(new)
            pending.extend(new)

    def _header(self, commit_id: str) -> objects.CommitHeader:
        with store_health.translate_store_errors():
            return objects.commit_header(self._read(commit_id, "commit"))

    def _subtree(self, root: str, folder: str) -> str | None:
        current = root
        for part in filter(None, folder.split("/")):
            entry = self.read_tree(current).get(part.encode("utf-8", "surrogateescape"))
            if entry is None or not entry.is_directory:
                return None
            current = entry.id
        return current

    def _read(self, identifier: str, kind: str) -> bytes:
        if kind == "tree" and identifier == objects.EMPTY_TREE:
            return b""
        loose = self._read_loose(identifier)
        data = loose if loose is not None else self._odb.read(pygit2.Oid(hex=identifier))[1]
        if objects.object_id(kind, data) != identifier:
            raise StoreCorrupt(f"object {identifier} in the git store does not match its id")
        return bytes(data)

    def _read_loose(self, identifier: str) -> bytes | None:
        """A loose object without its header; libgit2 loops forever on a truncated one."""
        # A Path interns its parts, so every id would stay in memory for good.
        path = f"{self.directory}/objects/{identifier[:2]}/{identifier[2:]}"
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                return zlib.decompress(file.read()).partition(b"\0")[2]
        except FileNotFoundError:
            return None
        except zlib.error as error:
            raise StoreCorrupt(
                f"object {identifier} in the git store is truncated or changed"
            ) from error

    def _fetcher(self, git: Git, remote: Remote, credentials: Credentials) -> Fetcher:
        return Fetcher(git, self.directory, remote, credentials)


def check_bounds(path: bytes, depth: int, entries: int) -> None:
    """Raise TooLarge in a tree that is too large or too deep, as an attacker may build one."""
    if entries >= MAX_ENTRIES:
        raise GitError("TooLarge", f"the folder has more than {MAX_ENTRIES} entries")
    if len(path) > MAX_PATH_BYTES or depth > _MAX_DEPTH:
        raise GitError("TooLarge", f"the folder has a path longer than {MAX_PATH_BYTES} bytes")


def _open_or_create(directory: Path) -> pygit2.Repository:
    try:
        repository = pygit2.Repository(str(directory))
        # libgit2 opens with any HEAD, git does not.
        headed = (directory / "HEAD").read_bytes().startswith(b"ref: refs/")
        if repository.is_bare and headed and store_health.is_store_sound(directory):
            directory.chmod(0o700)
            return repository
    except (pygit2.GitError, KeyError, ValueError, FileNotFoundError):
        pass
    _delete(directory)
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Content is private to this user, whatever the mode of the parent directory.
    directory.mkdir(mode=0o700)
    return pygit2.init_repository(str(directory), bare=True)


def _delete(directory: Path) -> None:
    """Rename, then delete: a crash in between leaves no half store."""
    if not directory.exists():
        return
    doomed = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
    directory.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _finish_deletions(directory: Path) -> None:
    """Finish deletions that a crash interrupted."""
    for doomed in directory.parent.glob(f".{directory.name}.*"):
        shutil.rmtree(doomed, ignore_errors=True)
