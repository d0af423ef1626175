"""Which namespace an Environment gets.

An Environment is identified by (namespace of its object, project, name). Its namespace has
one of two names, in this order:

    plain    env-<project>-<id>                   short, only where it cannot be mistaken
    hashed   env-<project-id, cut>-<12 hex>       always possible, never shared

`id` is the name without a leading `<project>-`. The plain name is offered only to objects
in the namespaces that the administrator named, only if both parts need no cleaning and
only if it does not itself look like a hashed one; so no plain name can occupy the hashed
name of somebody else. Who has a name is decided by the API server, which creates it once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PREFIX = "env-"

_MOST_CHARS = 63
_READABLE_CHARS = 46
_HASH_CHARS = 12
_HEX = frozenset("0123456789abcdef")
_NEVER = ("default",)
_NEVER_PREFIXES = ("kube-", "openshift")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which Environment: the namespace of its object, its project, its name."""

    namespace: str
    project: str
    name: str

    @property
    def id(self) -> str:
        """The name without the project in front."""
        return self.name.removeprefix(f"{self.project}-") or self.name

    @property
    def hash(self) -> str:
        """48 bits that differ between any two identities."""
        text = "\0".join(("windlass.env.v1", self.namespace, self.project, self.name))
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]


@dataclass(frozen=True, slots=True)
class Naming:
    """What the administrator says about names."""

    prefix: str = PREFIX
    plain_namespaces: frozenset[str] = frozenset({"default"})
    reserved: frozenset[str] = frozenset()


DEFAULT = Naming()


@dataclass(frozen=True, slots=True)
class Claim:
    """Who owns an existing namespace; an empty uid is somebody who is no Environment."""

    uid: str = ""
    identity: tuple[str, str] = ("", "")
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The namespace to use, or why there is none."""

    name: str
    refusal: str = ""
    message: str = ""


def sanitised(text: str) -> str:
    """Lower case, with one `-` for every run of other characters, none at the edges."""
    mapped = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())
    return "-".join(filter(None, mapped.split("-")))


def hashed(identity: Identity, naming: Naming = DEFAULT) -> str:
    """The name that no other identity can have."""
    readable = "-".join(filter(None, map(sanitised, (identity.project, identity.id))))
    cut = readable[:_READABLE_CHARS].rstrip("-")
    return f"{naming.prefix}{cut}-{identity.hash}"


def plain(identity: Identity, naming: Naming = DEFAULT) -> str | None:
    """The short name, where it is offered."""
    if identity.namespace not in naming.plain_namespaces:
        return None
    if any(sanitised(part) != part or not part for part in (identity.project, identity.id)):
        return None
    name = f"{naming.prefix}{identity.project}-{identity.id}"
    return None if len(name) > _MOST_CHARS or _looks_hashed(name) else name


def candidates(identity: Identity, naming: Naming = DEFAULT) -> tuple[str, ...]:
    """The names to try, best first."""
    return tuple(filter(None, (plain(identity, naming), hashed(identity, naming))))


def chosen(
    identity: Identity,
    uid: str,
    claims: Mapping[str, Claim],
    naming: Naming = DEFAULT,
    *,
    used: Iterable[str] = (),
) -> Choice:
    """The namespace of the Environment `uid`; `claims` says who owns which candidate.

    `used` are namespaces that hold objects of ours or of the operator.
    """
    offered = candidates(identity, naming)
    for name in offered:
        if name in claims and claims[name].uid == uid:
            return Choice(name)
    for name in offered:
        if reason := _reserved(name, naming, frozenset(used)):
            return Choice(name, "NamespaceReserved", reason)
        claim = claims.get(name)
        if claim is None:
            return Choice(name)
        if not claim.uid:
            return Choice(name, "NamespaceNotOwned", _foreign(name))
        if claim.identity == (identity.namespace, identity.name):
            return Choice(name)
    return Choice(offered[-1], "NamespaceNotOwned", _foreign(offered[-1]))


def _looks_hashed(name: str) -> bool:
    tail = name.rpartition("-")[2]
    return len(tail) == _HASH_CHARS and _HEX.issuperset(tail)


def _reserved(name: str, naming: Naming, used: frozenset[str]) -> str:
    if name in _NEVER or name.startswith(_NEVER_PREFIXES):
        return f"namespace {name} belongs to the cluster; rename the project or the environment"
    if name in naming.reserved or name in used:
        return f"namespace {name} is reserved; rename the project or the environment"
    return ""


def _foreign(name: str) -> str:
    return (
        f"namespace {name} exists and was not made for this Environment; it is left alone. "
        "Delete it if it is not needed, or give the Environment another name"
    )
