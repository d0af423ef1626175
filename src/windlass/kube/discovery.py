"""API discovery: which types an API server serves.

`discover` sends two requests, for aggregated discovery (GA since Kubernetes 1.30). When one of them
fails, the ApiError is raised.

The rest turns discovery documents into `ApiTypes`, without requests. A group version that is stale
is failed: it keeps the types it had before, and nothing may be concluded from what it lacks.
Subresources are not types. Within a group the first version that the server names is the preferred
one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from windlass.kube.api import Api
from windlass.kube.errors import ApiError
from windlass.objects.names import GVK, GVR, Object


@dataclass(frozen=True)
class ServedType:
    """One resource that the server serves in one version."""

    gvr: GVR  # group, version and plural
    kind: str  # of one object
    namespaced: bool  # False: cluster-scoped
    verbs: frozenset[str]  # such as get, list, watch
    preferred: bool  # whether the version is the preferred one of its group
    singular: str = ""  # empty where the server names none
    short_names: tuple[str, ...] = ()  # such as `deploy`

    @property
    def gvk(self) -> GVK:
        return GVK(self.gvr.group, self.gvr.version, self.kind)


TypeFamily: TypeAlias = tuple[ServedType, ...]
"""The versions of one plural in one group, in the order of discovery."""


@dataclass(frozen=True)
class ApiTypes:
    """All served types; `failed_groups` holds `group/version` texts (`v1` for the core).

    Types of a failed group are those last known, so a failing group is never mistaken for a
    removed one.
    """

    types: tuple[ServedType, ...]
    failed_groups: frozenset[str] = frozenset()
    subresource_only: frozenset[GVR] = frozenset()
    """Plurals that appear only in front of a slash, such as `widgets` in `widgets/scale`."""
    shared_kinds: frozenset[GVK] = field(default_factory=frozenset)
    """Kinds that more than one plural of the same group version answers with."""

    @classmethod
    def from_types(
        cls,
        types: Iterable[ServedType],
        failed_groups: Iterable[str] = (),
        subresource_only: Iterable[GVR] = (),
    ) -> ApiTypes:
        """The catalog of `types`; the shared kinds are computed from them."""
        served = tuple(types)
        return cls(
            served, frozenset(failed_groups), frozenset(subresource_only), _shared_kinds(served)
        )

    @property
    def is_complete(self) -> bool:
        return not self.failed_groups

    @cached_property
    def failed_group_names(self) -> frozenset[str]:
        """The groups of which at least one version could not be read."""
        return frozenset(name.rpartition("/")[0] for name in self.failed_groups)

    def families(self, plural: str) -> tuple[TypeFamily, ...]:
        """The families of that plural in any letter case, one for each group."""
        return self._plurals.get(plural.lower(), ())

    def all_families(self) -> Iterator[TypeFamily]:
        """The families of all plurals."""
        for families in self._plurals.values():
            yield from families

    @cached_property
    def _plurals(self) -> dict[str, tuple[TypeFamily, ...]]:
        """Plural in lower case -> a family for each group."""
        plurals: dict[str, dict[str, TypeFamily]] = defaultdict(dict)
        for served in self.types:
            groups = plurals[served.gvr.resource.lower()]
            groups[served.gvr.group] = (*groups.get(served.gvr.group, ()), served)
        return {plural: tuple(groups.values()) for plural, groups in plurals.items()}


@dataclass(frozen=True, slots=True)
class GroupVersionTypes:
    """The discovery document of one group version, decoded."""

    group: str  # empty for the core group
    version: str
    preferred: bool  # whether it is the preferred version of its group
    failed: bool = False  # stale: nothing may be concluded from what it lacks
    types: tuple[ServedType, ...] = ()  # without subresources
    subresource_only: frozenset[GVR] = frozenset()  # plurals without a type of their own

    @property
    def name(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def merge_group_versions(parts: Iterable[GroupVersionTypes], previous: ApiTypes | None) -> ApiTypes:
    """The types of all parts; failed ones keep the types of `previous`."""
    types: list[ServedType] = []
    subresource_only: set[GVR] = set()
    failed: set[str] = set()
    for part in parts:
        kept = _previous_types(part, previous) if part.failed else ((), frozenset())
        types += kept[0] or part.types
        subresource_only |= kept[1] or part.subresource_only
        if part.failed:
            failed.add(part.name)
    return ApiTypes.from_types(
        sorted(types, key=lambda served: served.gvr), failed, subresource_only
    )


def from_aggregated(document: Object) -> list[GroupVersionTypes]:
    """The group versions of an APIGroupDiscoveryList."""
    parts: list[GroupVersionTypes] = []
    for item in document.get("items") or ():
        group = item.get("metadata", {}).get("name", "")
        for position, version in enumerate(item.get("versions") or ()):
            parts.append(_aggregated_version(group, version, preferred=position == 0))
    return parts


def _aggregated_version(group: str, document: Object, *, preferred: bool) -> GroupVersionTypes:
    version = document["version"]
    types: list[ServedType] = []
    bare: set[GVR] = set()
    for entry in document.get("resources") or ():
        gvr = GVR(group, version, entry["resource"])
        kind = (entry.get("responseKind") or {}).get("kind", "")
        if kind and entry.get("verbs"):
            types.append(_served(gvr, entry, kind, entry.get("scope") == "Namespaced", preferred))
        else:
            bare.add(gvr)
    failed = document.get("freshness") == "Stale"
    return GroupVersionTypes(group, version, preferred, failed, tuple(types), frozenset(bare))


def _served(
    gvr: GVR, entry: Mapping[str, object], kind: str, namespaced: bool, preferred: bool
) -> ServedType:
    verbs = entry.get("verbs") or ()
    short = entry.get("shortNames") or ()
    assert isinstance(verbs, (list, tuple))
    assert isinstance(short, (list, tuple))
    singular = str(entry.get("singularResource") or "")
    return ServedType(gvr, kind, namespaced, frozenset(verbs), preferred, singular, tuple(short))


def _previous_types(
    part: GroupVersionTypes, previous: ApiTypes | None
) -> tuple[tuple[ServedType, ...], frozenset[GVR]]:
    if previous is None:
        return (), frozenset()
    group_version = (part.group, part.version)
    types = tuple(t for t in previous.types if (t.gvr.group, t.gvr.version) == group_version)
    bare = frozenset(g for g in previous.subresource_only if (g.group, g.version) == group_version)
    return types, bare


def _shared_kinds(types: Iterable[ServedType]) -> frozenset[GVK]:
    counts = Counter(served.gvk for served in types)
    return frozenset(gvk for gvk, count in counts.items() if count > 1)


_LIST = "APIGroupDiscoveryList"
_ACCEPT = f"application/json;g=apidiscovery.k8s.io;v=v2;as={_LIST}"


async def discover(api: Api, previous: ApiTypes | None = None) -> ApiTypes:
    """The types served now; failed group versions keep those of `previous`."""
    core, groups = await asyncio.gather(_root(api, "/api"), _root(api, "/apis"))
    return merge_group_versions([*core, *groups], previous)


async def _root(api: Api, path: str) -> list[GroupVersionTypes]:
    document = await api.document(path, accept=_ACCEPT)
    # From any other document nothing may be concluded, least of all that there are no types.
    if document.get("kind") != _LIST:
        raise ApiError(200, "Undecodable", f"the API server serves no {_LIST} at {path}")
    return from_aggregated(document)
