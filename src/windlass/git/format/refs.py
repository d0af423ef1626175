"""Ref names and ref listings: validation, patterns and resolution.

`check_branch`: a valid branch name is safe as an argument and as a file below `refs/heads`.
`check_ref` (rule V2): a valid ref is safe as an argument: a name, a full name or an id.

`RefListing` is the response of a remote to `ls-remote`. Refs are requested by their full names, or
all branches or all tags at once. A listing contains what was requested and nothing else; each ref
is peeled, so a tag of a tag of a commit is that commit.

`resolve_ref` finds the commit of a ref in a listing, in this order: a full name (`refs/heads/x`,
`refs/tags/x`, any other `refs/...`), a full SHA, a tag `x`, a branch `x`. A name that is both tag
and branch is the tag, and the result reports it. A SHA is not checked here: only a fetch proves
that it exists.

Pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

MAX_BRANCH_CHARS = 244
MAX_REF_CHARS = 255

_FORBIDDEN = frozenset(" ~^:?*[\\")
_HEX = frozenset("0123456789abcdef")


class RefRefused(ValueError):
    """A name git would not take; the text names the rule."""


def check_ref(text: str) -> None:
    """Refuse what can be neither a branch, a tag, a full ref name nor an id."""
    if not text or len(text) > MAX_REF_CHARS:
        raise RefRefused(f"a ref must have 1 to {MAX_REF_CHARS} characters")
    if text.startswith("-") or text.endswith(("/", ".", ".lock")) or text == "@":
        raise RefRefused("a ref must not begin with `-`, end with `/`, `.` or `.lock`, nor be `@`")
    if any(bad in text for bad in ("..", "@{", "//")):
        raise RefRefused("a ref must not contain `..`, `@{` or `//`")
    if any(char in _FORBIDDEN or char.isspace() or not char.isprintable() for char in text):
        raise RefRefused("a ref must not contain spaces, invisible characters or any of ~^:?*[\\")


def check_branch(name: str) -> None:
    """Refuse what is no branch name."""
    if not name or len(name.encode("utf-8", "replace")) > MAX_BRANCH_CHARS:
        raise RefRefused(f"a branch name must have 1 to {MAX_BRANCH_CHARS} bytes")
    if name.startswith(("-", "/")) or name.endswith(("/", ".")):
        raise RefRefused("a branch name must not begin with `-` or `/`, nor end with `/` or `.`")
    if any(bad in name for bad in ("..", "@{", "//")) or name in {"@", "HEAD"}:
        raise RefRefused("a branch name must not contain `..`, `@{` or `//`, nor be `@` or `HEAD`")
    if any(char in _FORBIDDEN or not char.isprintable() for char in name):
        raise RefRefused(
            "a branch name must not contain spaces, control characters or any of ~^:?*[\\"
        )
    if any(part.startswith(".") or part.endswith(".lock") for part in name.split("/")):
        raise RefRefused("a part of a branch name must not begin with `.` or end with `.lock`")


def branch_ref(name: str) -> str:
    """The full ref of a checked branch name."""
    check_branch(name)
    return f"refs/heads/{name}"


def is_object_id(text: str) -> bool:
    """Whether `text` is a full SHA-1 or SHA-256 object id in lower case."""
    return len(text) in {40, 64} and _HEX.issuperset(text)


BRANCH_PREFIX = "refs/heads/"
TAG_PREFIX = "refs/tags/"
PEELED = "^{}"

BRANCHES = f"{BRANCH_PREFIX}*"
TAGS = f"{TAG_PREFIX}*"
"""The patterns that ask for every branch and for every tag; no ref can have such a name."""

EVERY_BRANCH = frozenset({BRANCHES})

_SHA256_CHARS = 64


@dataclass(frozen=True, slots=True)
class RefListing:
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
        """The target of a tag, or None where there is no such tag."""
        return self.tags.get(TAG_PREFIX + name)

    def ref(self, name: str) -> str | None:
        """The target of a full ref name, or None."""
        return self.refs.get(name) or self.tags.get(name) or self.others.get(name)


def covers_patterns(asked: frozenset[str], wants: frozenset[str]) -> bool:
    """Whether a listing of `asked` covers all of `wants`."""
    return all(name in asked or _pattern_kind(name) in asked for name in wants)


def fold_patterns(wants: frozenset[str], most: int) -> frozenset[str]:
    """Fewer patterns for the same refs: more than `most` become all branches and all tags.

    Other refs stay what they are; a name that a pattern covers anyway goes.
    """
    is_long = len(wants) > most
    kinds = frozenset(map(_pattern_kind, wants)) if is_long else wants & {BRANCHES, TAGS}
    return kinds | {name for name in wants if _pattern_kind(name) not in kinds}


def _pattern_kind(name: str) -> str:
    """The pattern for all of the kind of `name`; other refs have no kind."""
    if name.startswith(BRANCH_PREFIX):
        return BRANCHES
    return TAGS if name.startswith(TAG_PREFIX) else name


def parse_listing(output: bytes, asked: frozenset[str] = EVERY_BRANCH) -> RefListing:
    """The listing that `ls-remote --symref` printed; ValueError where it is none.

    Patterns of git match by their end; here a name counts only if it was asked for as it
    is, or all of its kind were.
    """
    targets: dict[str, str] = {}
    default: str | None = None
    # Names may hold what Python takes for the end of a line, but never a newline.
    for line in output.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n"):
        value, tab, name = line.partition("\t")
        if not tab and line:
            raise ValueError("the remote sent a malformed list of refs")
        if name == "HEAD" and value.startswith(f"ref: {BRANCH_PREFIX}"):
            default = value.removeprefix(f"ref: {BRANCH_PREFIX}")
        elif name.startswith("refs/") or name == "HEAD":
            # The line of what a tag leads to follows the line of the tag.
            targets[name.removesuffix(PEELED)] = value
    return _build_listing(targets, default, asked)


def _build_listing(
    targets: Mapping[str, str], default: str | None, asked: frozenset[str]
) -> RefListing:
    sha256 = any(len(value) == _SHA256_CHARS for value in targets.values())
    kinds: dict[str, dict[str, str]] = {BRANCHES: {}, TAGS: {}}
    others: dict[str, str] = {}
    for name, value in targets.items():
        kind = _pattern_kind(name)
        if name in asked or kind in asked:
            kinds.get(kind, others)[name] = value
    object_format = "sha256" if sha256 else "sha1"
    return RefListing(kinds[BRANCHES], default, object_format, kinds[TAGS], others)


Kind = Literal["branch", "tag", "ref", "sha"]

_SHORT_CHARS = range(7, 40)


class RefUnknown(ValueError):
    """No ref has that name; the message contains advice."""


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """A commit, and the full ref name that was resolved (or the SHA itself).

    `ambiguous` holds (name, commit) of the tag that was taken and of the branch that was
    not, where both have the name.
    """

    commit: str
    ref: str
    kind: Kind
    ambiguous: tuple[tuple[str, str], tuple[str, str]] | None = None


def ref_patterns(wanted: str) -> frozenset[str]:
    """The full names of refs that a listing must contain to resolve `wanted`.

    RefUnknown for what no ref can be called: it would mean something else to git.
    """
    _check_wanted(wanted)
    if wanted.startswith("refs/"):
        return frozenset({wanted})
    if is_sha(wanted):
        return frozenset()
    return frozenset({TAG_PREFIX + wanted, BRANCH_PREFIX + wanted})


def ref_patterns_of(texts: Iterable[str]) -> frozenset[str]:
    """The refs that a listing must contain to resolve each valid ref in `texts`."""
    names: set[str] = set()
    for text in texts:
        with contextlib.suppress(RefUnknown):
            names |= ref_patterns(text)
    return frozenset(names)


def is_sha(wanted: str) -> bool:
    """Whether the text is a full object id, in any case."""
    return is_object_id(wanted.lower())


def resolve_ref(listing: RefListing, wanted: str) -> ResolvedRef:
    """The commit of the ref `wanted`; RefUnknown where no ref has that name."""
    _check_wanted(wanted)
    if wanted.startswith("refs/"):
        return _full_name(listing, wanted)
    if is_sha(wanted):
        return ResolvedRef(wanted.lower(), wanted.lower(), "sha")
    return _short_name(listing, wanted)


def _check_wanted(wanted: str) -> None:
    try:
        check_ref(wanted)
    except RefRefused as error:
        raise RefUnknown(str(error)) from error


def _full_name(listing: RefListing, name: str) -> ResolvedRef:
    commit = listing.ref(name)
    if commit is None:
        raise RefUnknown(f"ref {name} not found")
    return ResolvedRef(commit, name, _ref_kind(name))


def _ref_kind(name: str) -> Kind:
    if name.startswith(BRANCH_PREFIX):
        return "branch"
    return "tag" if name.startswith(TAG_PREFIX) else "ref"


def _short_name(listing: RefListing, name: str) -> ResolvedRef:
    tag, branch = listing.tag(name), listing.tip(name)
    if tag is not None:
        both = ((TAG_PREFIX + name, tag), (BRANCH_PREFIX + name, branch)) if branch else None
        return ResolvedRef(tag, TAG_PREFIX + name, "tag", both)
    if branch is not None:
        return ResolvedRef(branch, BRANCH_PREFIX + name, "branch")
    if _is_short_sha(name):
        raise RefUnknown(f"branch or tag {name} not found; use the full SHA for a commit")
    raise RefUnknown(f"branch or tag {name} not found")


def _is_short_sha(text: str) -> bool:
    return len(text) in _SHORT_CHARS and all(char in "0123456789abcdef" for char in text.lower())
