"""The types that a cluster serves, as far as discovery could read them.

`watch.catalog_refresher` converts what discovery found into this value; rules are resolved
against it and against nothing else. Types of a failed group are those last known (DSC-1), so a
failing group is never mistaken for a removed one. A type that is absent but still within its
removal grace (DSC-3) stays in `types`, because a type that leaves the catalog loses its
coverage and its files; pausing the stream is the work of the watch.

Pure.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from windlass.objects.names import GVK, GVR

TypeReason = Literal[
    "NotServed",
    "SubresourceOnly",
    "MissingVerb",
    "ScopeMismatch",
    "KindNotUnique",
    "DiscoveryDegraded",
    "ExcludedByDefault",
    "ExcludedByFlag",
    "NeverMirrored",
]
"""DSC-6: why an entry of a rule selects nothing, as its status reports it."""

_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?\Z")
_STABILITY = {"alpha": 0, "beta": 1, None: 2}
"""Rank of the stability in a version name; without a suffix it is stable."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One served type; `preferred` marks the version that stands for its plural."""

    gvr: GVR
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    preferred: bool

    @property
    def gvk(self) -> GVK:
        return GVK(self.gvr.group, self.gvr.version, self.kind)


TypeFamily: TypeAlias = tuple[ResourceType, ...]
"""The versions of one plural in one group, in the order of discovery."""


@dataclass(frozen=True, slots=True)
class TypeCatalog:
    """All served types, indexed by plural."""

    types: tuple[ResourceType, ...]  # in the order of discovery
    # Groups, or group versions, whose discovery failed; their types are those last known.
    failed_groups: frozenset[str] = frozenset()
    # Plurals that are served below a parent only.
    subresource_only: frozenset[GVR] = frozenset()
    # Kinds that two plurals of one group version share.
    ambiguous_kinds: frozenset[GVK] = frozenset()
    # Index of `types`: plural in lower case -> a family for each group.
    _plurals: Mapping[str, tuple[TypeFamily, ...]] = field(init=False, repr=False, compare=False)
    # The groups of `failed_groups`.
    _failed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_plurals", _group_families(self.types))
        failed = frozenset(_group_name(name) for name in self.failed_groups)
        object.__setattr__(self, "_failed", failed)

    @classmethod
    def from_types(
        cls,
        types: Iterable[ResourceType],
        failed_groups: Iterable[str] = (),
        subresource_only: Iterable[GVR] = (),
    ) -> TypeCatalog:
        """The catalog of `types`; the ambiguous kinds are computed from them."""
        served = tuple(types)
        kinds = Counter(served_type.gvk for served_type in served)
        ambiguous = frozenset(gvk for gvk, count in kinds.items() if count > 1)
        return cls(served, frozenset(failed_groups), frozenset(subresource_only), ambiguous)

    @property
    def failed_group_names(self) -> frozenset[str]:
        """The groups of which at least one version could not be read."""
        return self._failed

    def families(self, plural: str) -> tuple[TypeFamily, ...]:
        """The families of that plural in any letter case, one for each group."""
        return self._plurals.get(plural.lower(), ())

    def all_families(self) -> Iterable[TypeFamily]:
        """The families of all plurals."""
        for families in self._plurals.values():
            yield from families


def preferred_version(family: TypeFamily) -> ResourceType:
    """RUL-3: the version in which a plural is mirrored unless a rule names others.

    Discovery prefers a version of the group; a plural which that version lacks is taken in
    its most stable and newest one, as Kubernetes ranks versions.
    """
    preferred = next((version for version in family if version.preferred), None)
    return preferred or max(family, key=lambda version: _version_rank(version.gvr.version))


def _version_rank(version: str) -> tuple[int, int, int]:
    match = _VERSION.match(version)
    if match is None:
        return -1, 0, 0
    major, stability, minor = match.groups()
    return _STABILITY[stability], int(major), int(minor or 0)


def _group_families(types: Iterable[ResourceType]) -> dict[str, tuple[TypeFamily, ...]]:
    plurals: dict[str, dict[str, list[ResourceType]]] = defaultdict(lambda: defaultdict(list))
    for served in types:
        plurals[served.gvr.resource.lower()][served.gvr.group].append(served)
    return {
        plural: tuple(tuple(family) for family in groups.values())
        for plural, groups in plurals.items()
    }


def _group_name(name: str) -> str:
    """The group of `name`, which is a group, `group/version`, or a version of the core group."""
    group, slash, _ = name.partition("/")
    if slash:
        return group
    return "" if _VERSION.match(name) else name
