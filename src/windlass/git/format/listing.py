"""What a remote answers when asked for its refs.

`refs` are the branches and only they. Tags and other refs are there as far as they were
asked for; each stands for what it leads to in the end, so a tag of a tag of a commit is
that commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TAGS = "refs/tags/*"
"""The pattern that asks for every tag."""

BRANCH_PREFIX = "refs/heads/"
TAG_PREFIX = "refs/tags/"
PEELED = "^{}"

_SHA256_CHARS = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """The refs of a remote at one moment; no branches = an empty repository."""

    refs: Mapping[str, str]
    default_branch: str | None
    object_format: str = "sha1"
    tags: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def tip(self, branch: str) -> str | None:
        """The commit a branch is at, or None where there is no such branch."""
        return self.refs.get(BRANCH_PREFIX + branch)

    def tag(self, name: str) -> str | None:
        """What a tag leads to, or None where there is no such tag."""
        return self.tags.get(TAG_PREFIX + name)

    def ref(self, name: str) -> str | None:
        """What a full name stands for."""
        return self.refs.get(name) or self.tags.get(name) or self.others.get(name)


def parse(output: bytes, asked: frozenset[str] = frozenset()) -> Listing:
    """The listing that `ls-remote --symref` printed; ValueError where it is none.

    `asked` are the patterns beyond branches: `TAGS` and full names. Patterns of git match
    by their end; here a name counts only if it was asked for as it is.
    """
    found: dict[str, str] = {}
    default: str | None = None
    # Names may hold what Python takes for the end of a line, but never a newline.
    for line in output.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n"):
        value, tab, name = line.partition("\t")
        if not tab and line:
            raise ValueError("the remote's list of refs is malformed")
        if name == "HEAD" and value.startswith(f"ref: {BRANCH_PREFIX}"):
            default = value.removeprefix(f"ref: {BRANCH_PREFIX}")
        elif name.startswith("refs/"):
            # The line of what a tag leads to follows the line of the tag.
            found[name.removesuffix(PEELED)] = value
    return _sorted_out(found, default, asked)


def _sorted_out(found: Mapping[str, str], default: str | None, asked: frozenset[str]) -> Listing:
    branches = {name: value for name, value in found.items() if name.startswith(BRANCH_PREFIX)}
    tags: dict[str, str] = {}
    if TAGS in asked:
        tags = {name: value for name, value in found.items() if name.startswith(TAG_PREFIX)}
    others = {name: found[name] for name in asked if name in found}
    ids = (*branches.values(), *tags.values(), *others.values())
    sha256 = any(len(value) == _SHA256_CHARS for value in ids)
    return Listing(branches, default, "sha256" if sha256 else "sha1", tags, others)
