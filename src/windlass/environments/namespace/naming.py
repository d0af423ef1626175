"""Chooses the name of an Environment's namespace.

An Environment is identified by (namespace of its object, project, name). Its namespace has
one of two names, in this order:

    plain    env-<project>-<id>                   short, only where it cannot be mistaken
    hashed   env-<project-id, cut>-<12 hex>       always possible, never shared

`id` is the name without a leading `<project>-`. The plain name is offered only to objects
in the namespaces that the administrator configured, only if both parts need no sanitizing and
only if it does not itself have the form of a hashed one; so no plain name can occupy the hashed
name of another Environment. Who gets a name is decided by the API server, which creates it once.

Called by `namespace_manager`.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PREFIX = "env-"

_MAX_CHARS = 63
_READABLE_CHARS = 46  # 63 without the prefix and the hash
_HASH_CHARS = 12
_HEX = frozenset("0123456789abcdef")
_CLUSTER_NAMESPACES = ("default",)
_CLUSTER_PREFIXES = ("kube-", "openshift")


@dataclass(frozen=True, slots=True)
class EnvironmentIdentity:
    """What identifies an Environment: the namespace of its object, its project, its name."""

    namespace: str
    project: str
    name: str

    @property
    def id(self) -> str:
        """The name without the prefix `<project>-`."""
        return self.name.removeprefix(f"{self.project}-") or self.name

    @property
    def hash(self) -> str:
        """48 bits of a hash of the identity, in hex."""
        text = "\0".join(("windlass.env.v1", self.namespace, self.project, self.name))
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]


@dataclass(frozen=True, slots=True)
class NamingRules:
    """The administrator's settings for names.

    Plain names are offered in `plain_namespaces` only; `reserved` names are never used.
    """

    prefix: str = PREFIX
    plain_namespaces: frozenset[str] = frozenset({"default"})
    reserved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NamespaceClaim:
    """The owner of an existing namespace; an empty uid means that no Environment owns it.

    `identity` is namespace and name of the owning Environment.
    """

    uid: str = ""
    identity: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class NamespaceChoice:
    """The namespace to use; `refusal` is the reason if it must not be used."""

    name: str
    refusal: str = ""
    message: str = ""


def sanitize(text: str) -> str:
    """`text` in lower case, with one `-` for each run of other characters, none at the ends."""
    replaced = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())
    return "-".join(filter(None, replaced.split("-")))


def hashed_name(identity: EnvironmentIdentity, rules: NamingRules) -> str:
    """The name that is always possible and not shared with another identity."""
    readable = "-".join(filter(None, map(sanitize, (identity.project, identity.id))))
    readable_part = readable[:_READABLE_CHARS].rstrip("-")
    return f"{rules.prefix}{readable_part}-{identity.hash}"


def plain_name(identity: EnvironmentIdentity, rules: NamingRules) -> str | None:
    """The short name; None if it is not offered."""
    if identity.namespace not in rules.plain_namespaces:
        return None
    if any(sanitize(part) != part or not part for part in (identity.project, identity.id)):
        return None
    name = f"{rules.prefix}{identity.project}-{identity.id}"
    return None if len(name) > _MAX_CHARS or _has_hash_form(name) else name


def candidate_names(identity: EnvironmentIdentity, rules: NamingRules) -> tuple[str, ...]:
    """The possible names, in order of preference."""
    return tuple(filter(None, (plain_name(identity, rules), hashed_name(identity, rules))))


def choose_namespace(
    identity: EnvironmentIdentity,
    uid: str,
    claims: Mapping[str, NamespaceClaim],
    rules: NamingRules,
    *,
    used: Iterable[str] = (),
) -> NamespaceChoice:
    """The namespace of the Environment `uid`; `claims` are the owners of existing candidates.

    `used` are namespaces that hold Projects, Environments or the operator.
    """
    candidates = candidate_names(identity, rules)
    for name in candidates:
        if name in claims and claims[name].uid == uid:
            return NamespaceChoice(name)
    for name in candidates:
        if reason := _reserved_reason(name, rules, frozenset(used)):
            return NamespaceChoice(name, "NamespaceReserved", reason)
        claim = claims.get(name)
        if claim is None:
            return NamespaceChoice(name)
        if not claim.uid:
            return NamespaceChoice(name, "NamespaceNotOwned", _not_owned_message(name))
        if claim.identity == (identity.namespace, identity.name):
            return NamespaceChoice(name)
    return NamespaceChoice(candidates[-1], "NamespaceNotOwned", _not_owned_message(candidates[-1]))


def _has_hash_form(name: str) -> bool:
    tail = name.rpartition("-")[2]
    return len(tail) == _HASH_CHARS and _HEX.issuperset(tail)


def _reserved_reason(name: str, rules: NamingRules, used: frozenset[str]) -> str:
    if name in _CLUSTER_NAMESPACES or name.startswith(_CLUSTER_PREFIXES):
        return f"namespace {name} is reserved by the cluster; rename the Project or the Environment"
    if name in rules.reserved or name in used:
        return f"namespace {name} is reserved; rename the Project or the Environment"
    return ""


def _not_owned_message(name: str) -> str:
    return (
        f"namespace {name} exists and does not belong to this Environment; delete it, or rename "
        "the Environment"
    )
