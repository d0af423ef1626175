"""Git objects as bytes: ids, trees, commits, tags, persons and paths.

- Ids: the hash of kind, length and bytes of an object.
- Trees: names, modes and ids of one directory, to bytes and back. `encode_tree(parse_tree(data))`
  is `data` for every tree git itself writes. Order is git's: a directory sorts as if its name ended
  in `/`.
- Commits, as git hashes them, and the header fields that we read back.
- Persons: a `Person` always fits a commit header: no line breaks, no angle brackets, nothing empty,
  so no name can forge a second header.
- Paths: a checked path is relative, has no empty, `.` or `..` part and nothing that any file system
  takes for `.git`.
- Annotated tags: the object that a tag marks.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from windlass.git.format import refs

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def object_id(kind: str, data: bytes) -> str:
    """The SHA-1 id git gives `data` as an object of `kind` (blob, tree, commit)."""
    digest = hashlib.sha1(f"{kind} {len(data)}\0".encode(), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def blob_id(data: bytes) -> str:
    """The id of a file's content."""
    return object_id("blob", data)


FILE = 0o100644
SYMLINK = 0o120000
GITLINK = 0o160000
DIRECTORY = 0o040000

_ID_BYTES = 20


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """Mode and id of one name in a tree."""

    mode: int
    id: str

    @property
    def is_directory(self) -> bool:
        return self.mode == DIRECTORY

    @property
    def is_file(self) -> bool:
        return self.mode & 0o170000 == 0o100000


def parse_tree(data: bytes) -> dict[bytes, TreeEntry]:
    """The entries of a tree object; ValueError where the bytes are none."""
    entries: dict[bytes, TreeEntry] = {}
    position = 0
    while position < len(data):
        nul = data.index(b"\0", position)
        mode, space, name = data[position:nul].partition(b" ")
        position = nul + 1 + _ID_BYTES
        if not space or not name or position > len(data):
            raise ValueError("the tree object is truncated or malformed")
        entries[name] = TreeEntry(int(mode, 8), data[nul + 1 : position].hex())
    return entries


def encode_tree(entries: Mapping[bytes, TreeEntry]) -> bytes:
    """The tree object of these entries."""
    parts: list[bytes] = []
    for name in sorted(entries, key=lambda name: _sort_key(name, entries[name])):
        entry = entries[name]
        parts.append(b"%o %s\0" % (entry.mode, name))
        parts.append(bytes.fromhex(entry.id))
    return b"".join(parts)


def _sort_key(name: bytes, entry: TreeEntry) -> bytes:
    return name + b"/" if entry.is_directory else name


_TRIMMED = " .,:;\"'\\"
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Person:
    """Name and email of an author or committer."""

    name: str
    email: str

    def __post_init__(self) -> None:
        if self.name != _sanitized(self.name) or self.email != _sanitized(self.email):
            raise ValueError("a person's name and email must not contain line breaks, `<` or `>`")

    def header(self, when: datetime) -> str:
        """`name <email> seconds zone`; the instant is kept, the zone is always UTC."""
        seconds = int(when.astimezone(UTC).timestamp())
        return f"{self.name} <{self.email}> {max(0, seconds)} +0000"


def clean_person(name: str, email: str) -> Person:
    """The person without characters that a commit header cannot hold."""
    return Person(_sanitized(name), _sanitized(email))


def _sanitized(text: str) -> str:
    """The text without controls, lone surrogates and brackets, trimmed as git trims it."""
    allowed = "".join(char for char in text if _is_allowed(char))
    return allowed.strip(_TRIMMED) or _UNKNOWN


def _is_allowed(char: str) -> bool:
    return char >= " " and char not in "<>\x7f" and not "\ud800" <= char <= "\udfff"


@dataclass(frozen=True, slots=True)
class CommitHeader:
    """Tree, parents and author of a commit; `committed` is in seconds since 1970."""

    tree: str
    parents: tuple[str, ...]
    committed: int
    author: str = ""


def encode_commit(
    *,
    tree: str,
    parents: Sequence[str],
    author: Person,
    author_time: datetime,
    committer: Person,
    commit_time: datetime,
    message: str,
) -> bytes:
    """The commit object without a signature."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines.append(f"author {author.header(author_time)}")
    lines.append(f"committer {committer.header(commit_time)}")
    text = message.replace("\0", "").replace("\r\n", "\n").strip("\n")
    return "\n".join([*lines, "", text, ""]).encode("utf-8", "replace")


def signed_commit(commit: bytes, signature: str) -> bytes:
    """The commit with its signature as the last header."""
    headers, separator, message = commit.partition(b"\n\n")
    folded = signature.strip("\n").replace("\n", "\n ")
    return headers + b"\ngpgsig " + folded.encode() + separator + message


def commit_header(data: bytes) -> CommitHeader:
    """The header of a commit object; ValueError where the bytes are none."""
    lines = data.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
    if not lines[0].startswith("tree "):
        raise ValueError("the commit object is malformed")
    parents = [line[7:] for line in lines[1:] if line.startswith("parent ")]
    return CommitHeader(lines[0][5:], tuple(parents), _committer_time(lines), _author(lines))


def _author(lines: Sequence[str]) -> str:
    """The author's name, without what no header can hold."""
    row = next((line for line in lines if line.startswith("author ")), "author ")
    return clean_person(row.removeprefix("author ").partition("<")[0], "").name


def _committer_time(lines: Sequence[str]) -> int:
    """The committer's time; a commit of others may lack a readable one, then it is 0."""
    row = next((line for line in lines if line.startswith("committer ")), "")
    words = row.rsplit(" ", 2)
    return int(words[1]) if len(words) == 3 and words[1].isdecimal() else 0


def tag_target(data: bytes) -> str:
    """The id of what a tag marks; ValueError where the bytes are no tag."""
    line = data.partition(b"\n")[0].decode("ascii", "replace")
    identifier = line.removeprefix("object ")
    if identifier == line or not refs.is_object_id(identifier):
        raise ValueError("the tag object is malformed")
    return identifier


MAX_PATH_BYTES = 4096
MAX_PATH_DEPTH = 128

_IGNORED_BY_HFS = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)


class PathRefused(ValueError):
    """A path that must not be written to a repository."""


def split_path(path: str) -> tuple[str, ...]:
    """The parts of a checked path."""
    if not path or len(path.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES or "\0" in path:
        raise PathRefused(f"a path must have 1 to {MAX_PATH_BYTES} bytes and must not contain NUL")
    parts = tuple(path.split("/"))
    if len(parts) > MAX_PATH_DEPTH:
        raise PathRefused(f"a path must have at most {MAX_PATH_DEPTH} segments")
    for part in parts:
        if part in {"", ".", ".."}:
            raise PathRefused(f"{path!r}: must be relative, without empty, `.` or `..` segments")
        if _is_dot_git(part):
            raise PathRefused(f"{path!r}: must not contain a segment that reads as .git")
    return parts


def _is_dot_git(part: str) -> bool:
    plain = part.translate(_IGNORED_BY_HFS).lower().split(":", 1)[0].rstrip(". ")
    return plain in {".git", "git~1"}
