"""The types that a cluster serves, as far as discovery could read them.

`watch.catalog_refresher` converts what discovery found into this value; rules are resolved
against it and against nothing else. Types of a failed group are those last known (DSC-1), so a
failing group never looks like a removed one. A type that is absent but still within its
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
"""DSC-6: why a type is refused."""

_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?\Z")
_STABILITY = {"alpha": 0, "beta": 1, None: 2}


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
    """Everything served; `failed_groups` holds names of groups or of group versions.

    `subresource_only` names plurals that are served below a parent only, and
    `ambiguous_kinds` the kinds that two plurals of one group version share.
    """

    types: tuple[ResourceType, ...]
    failed_groups: frozenset[str] = frozenset()
    subresource_only: frozenset[GVR] = frozenset()
    ambiguous_kinds: frozenset[GVK] = frozenset()
    _plurals: Mapping[str, tuple[TypeFamily, ...]] = field(init=False, repr=False, compare=False)
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
        """The catalogue of `types`, with the kinds that are not unique found from them."""
        listed = tuple(types)
        kinds = Counter(one.gvk for one in listed)
        shared = frozenset(gvk for gvk, count in kinds.items() if count > 1)
        return cls(listed, frozenset(failed_groups), frozenset(subresource_only), shared)

    @property
    def failed_group_names(self) -> frozenset[str]:
        """The groups of which at least one version could not be read."""
        return self._failed

    def families(self, plural: str) -> tuple[TypeFamily, ...]:
        """The families of that plural, one for each group; letter case plays no part."""
        return self._plurals.get(plural.lower(), ())

    def all_families(self) -> Iterable[TypeFamily]:
        for families in self._plurals.values():
            yield from families


def preferred_version(family: TypeFamily) -> ResourceType:
    """RUL-3: the version that stands for a plural.

    Discovery prefers a version of the group; a plural which that version lacks is taken in
    its most stable and newest one, as Kubernetes ranks versions.
    """
    marked = next((one for one in family if one.preferred), None)
    return marked or max(family, key=lambda one: _version_rank(one.gvr.version))


def _version_rank(version: str) -> tuple[int, int, int]:
    found = _VERSION.match(version)
    if found is None:
        return -1, 0, 0
    major, stage, minor = found.groups()
    return _STABILITY[stage], int(major), int(minor or 0)


def _group_families(types: Iterable[ResourceType]) -> dict[str, tuple[TypeFamily, ...]]:
    plurals: dict[str, dict[str, list[ResourceType]]] = defaultdict(lambda: defaultdict(list))
    for one in types:
        plurals[one.gvr.resource.lower()][one.gvr.group].append(one)
    return {
        plural: tuple(tuple(family) for family in groups.values())
        for plural, groups in plurals.items()
    }


def _group_name(name: str) -> str:
    group, slash, _ = name.partition("/")
    if slash:
        return group
    return "" if _VERSION.match(name) else name
