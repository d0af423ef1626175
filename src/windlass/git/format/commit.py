"""A commit as git hashes it, and what we read back of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from windlass.git.format.person import Person, cleaned


@dataclass(frozen=True, slots=True)
class CommitHeader:
    """Where a commit points, whose it is, and when it was made, in seconds since 1970."""

    tree: str
    parents: tuple[str, ...]
    committed: int
    author: str = ""


def encode(
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


def signed(commit: bytes, signature: str) -> bytes:
    """The commit with its signature as the last header."""
    headers, separator, message = commit.partition(b"\n\n")
    folded = signature.strip("\n").replace("\n", "\n ")
    return headers + b"\ngpgsig " + folded.encode() + separator + message


def header(data: bytes) -> CommitHeader:
    """What the head of a commit object says; ValueError where the bytes are none."""
    lines = data.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
    if not lines[0].startswith("tree "):
        raise ValueError("the commit object is malformed")
    parents = [line[7:] for line in lines[1:] if line.startswith("parent ")]
    return CommitHeader(lines[0][5:], tuple(parents), _committed(lines), _author(lines))


def _author(lines: Sequence[str]) -> str:
    """The author's name, without what no header can hold."""
    row = next((line for line in lines if line.startswith("author ")), "author ")
    return cleaned(row.removeprefix("author ").partition("<")[0], "").name


def _committed(lines: Sequence[str]) -> int:
    """The committer's time; a commit of others may lack a readable one, then it is 0."""
    row = next((line for line in lines if line.startswith("committer ")), "")
    words = row.rsplit(" ", 2)
    return int(words[1]) if len(words) == 3 and words[1].isdecimal() else 0
