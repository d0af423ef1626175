"""Which commit a ref text means, given what a remote lists.

In this order: a full name (`refs/heads/x`, `refs/tags/x`, any other `refs/...`), a full
SHA, a tag `x`, a branch `x`. A name that is both tag and branch is the tag, and says so.
Tags lead to what they mark in the end, however many tags lie between. A SHA is taken at
its word here: only a fetch proves that it exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from windlass.git.format import refs
from windlass.git.format.listing import BRANCH_PREFIX, TAG_PREFIX, Listing

Kind = Literal["branch", "tag", "ref", "sha"]

_SHORT_CHARS = range(7, 40)


class RefUnknown(ValueError):
    """Nothing has that name; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The commit, and the full name that led to it (a SHA leads to itself).

    `ambiguous` holds (name, commit) of the tag that was taken and of the branch that was
    not, where both have the name.
    """

    commit: str
    ref: str
    kind: Kind
    ambiguous: tuple[tuple[str, str], tuple[str, str]] | None = None


def asks(wanted: str) -> frozenset[str]:
    """The refs that a listing must be asked for, by their full names, to resolve `wanted`.

    RefUnknown for what no ref can be called: it would mean something else to git.
    """
    _check(wanted)
    if wanted.startswith("refs/"):
        return frozenset({wanted})
    if is_sha(wanted):
        return frozenset()
    return frozenset({TAG_PREFIX + wanted, BRANCH_PREFIX + wanted})


def asks_of_all(texts: Iterable[str]) -> frozenset[str]:
    """What a listing must be asked for to resolve every one of `texts` that can be a ref."""
    names: set[str] = set()
    for text in texts:
        with contextlib.suppress(RefUnknown):
            names |= asks(text)
    return frozenset(names)


def is_sha(wanted: str) -> bool:
    """Whether the text is a full object id, in any case."""
    return refs.is_object_id(wanted.lower())


def resolve(listing: Listing, wanted: str) -> Resolution:
    """The commit that `wanted` means; RefUnknown where nothing has that name."""
    _check(wanted)
    if wanted.startswith("refs/"):
        return _full_name(listing, wanted)
    if is_sha(wanted):
        return Resolution(wanted.lower(), wanted.lower(), "sha")
    return _short_name(listing, wanted)


def _check(wanted: str) -> None:
    try:
        refs.check(wanted)
    except refs.RefRefused as error:
        raise RefUnknown(str(error)) from error


def _full_name(listing: Listing, name: str) -> Resolution:
    commit = listing.ref(name)
    if commit is None:
        raise RefUnknown(f"the remote has no ref {name}")
    return Resolution(commit, name, _kind(name))


def _kind(name: str) -> Kind:
    if name.startswith(BRANCH_PREFIX):
        return "branch"
    return "tag" if name.startswith(TAG_PREFIX) else "ref"


def _short_name(listing: Listing, name: str) -> Resolution:
    tag, branch = listing.tag(name), listing.tip(name)
    if tag is not None:
        both = ((TAG_PREFIX + name, tag), (BRANCH_PREFIX + name, branch)) if branch else None
        return Resolution(tag, TAG_PREFIX + name, "tag", both)
    if branch is not None:
        return Resolution(branch, BRANCH_PREFIX + name, "branch")
    if _is_short_sha(name):
        raise RefUnknown(f"the remote has no branch or tag {name}; for a commit give the full SHA")
    raise RefUnknown(f"the remote has no branch or tag {name}")


def _is_short_sha(text: str) -> bool:
    return len(text) in _SHORT_CHARS and all(char in "0123456789abcdef" for char in text.lower())
