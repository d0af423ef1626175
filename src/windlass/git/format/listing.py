"""What a remote answers when asked for its refs.

Refs are asked for by their full names, or all branches or all tags at once. A listing holds
what was asked for and nothing else; each ref stands for what it leads to in the end, so a
tag of a tag of a commit is that commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BRANCH_PREFIX = "refs/heads/"
TAG_PREFIX = "refs/tags/"
PEELED = "^{}"

BRANCHES = f"{BRANCH_PREFIX}*"
TAGS = f"{TAG_PREFIX}*"
"""The patterns that ask for every branch and for every tag; no ref can have such a name."""

EVERY_BRANCH = frozenset({BRANCHES})

_SHA256_CHARS = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """Refs of a remote at one moment; none although all were asked for = an empty repository.

    `refs` are branches and only they.
    """

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


def covers(asked: frozenset[str], wants: frozenset[str]) -> bool:
    """Whether the answer to `asked` says all there is to say about `wants`."""
    return all(name in asked or _kind(name) in asked for name in wants)


def folded(wants: frozenset[str], most: int) -> frozenset[str]:
    """The same with fewer words: more than `most` become all branches and all tags.

    Other refs stay what they are; a name that a pattern covers anyway goes.
    """
    is_long = len(wants) > most
    kinds = frozenset(map(_kind, wants)) if is_long else wants & {BRANCHES, TAGS}
    return kinds | {name for name in wants if _kind(name) not in kinds}


def _kind(name: str) -> str:
    """The pattern for all of the kind of `name`; other refs have no kind."""
    if name.startswith(BRANCH_PREFIX):
        return BRANCHES
    return TAGS if name.startswith(TAG_PREFIX) else name


def parse(output: bytes, asked: frozenset[str] = EVERY_BRANCH) -> Listing:
    """The listing that `ls-remote --symref` printed; ValueError where it is none.

    Patterns of git match by their end; here a name counts only if it was asked for as it
    is, or all of its kind were.
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
        elif name.startswith("refs/") or name == "HEAD":
            # The line of what a tag leads to follows the line of the tag.
            found[name.removesuffix(PEELED)] = value
    return _sorted_out(found, default, asked)


def _sorted_out(found: Mapping[str, str], default: str | None, asked: frozenset[str]) -> Listing:
    sha256 = any(len(value) == _SHA256_CHARS for value in found.values())
    kinds: dict[str, dict[str, str]] = {BRANCHES: {}, TAGS: {}}
    others: dict[str, str] = {}
    for name, value in found.items():
        kind = _kind(name)
        if name in asked or kind in asked:
            kinds.get(kind, others)[name] = value
    object_format = "sha256" if sha256 else "sha1"
    return Listing(kinds[BRANCHES], default, object_format, kinds[TAGS], others)
