"""API discovery: which types an API server serves.

`discover` sends two requests where discovery is aggregated, else one per group version besides. A
group version that does not respond is failed, not absent; when the roots themselves do not respond,
the ApiError is raised.

The rest turns discovery documents into `ApiTypes`, without requests. A group version that is stale
or could not be read is failed: it keeps the types it had before, and nothing may be concluded from
what it lacks. Subresources are not types. Within a group the first version that the server names is
the preferred one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from windlass.kube import api as kube_api
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
    failed: bool = False  # stale or unreadable: nothing may be concluded from what it lacks
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


def from_resource_list(
    group: str, version: str, document: Object, *, preferred: bool
) -> GroupVersionTypes:
    """The group version of an APIResourceList, the document of servers without aggregation."""
    types: dict[str, ServedType] = {}
    parents: set[str] = set()
    for entry in document.get("resources") or ():
        plural, slash, _ = entry["name"].partition("/")
        if slash:
            parents.add(plural)
        else:
            gvr = GVR(group, version, plural)
            types[plural] = _served(gvr, entry, entry["kind"], bool(entry["namespaced"]), preferred)
    bare = frozenset(GVR(group, version, plural) for plural in parents - types.keys())
    return GroupVersionTypes(group, version, preferred, False, tuple(types.values()), bare)


def group_versions(document: Object) -> list[tuple[str, str, bool]]:
    """Group, version and whether it is preferred, of an APIGroupList."""
    versions: list[tuple[str, str, bool]] = []
    for group in document.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        names = [entry["version"] for entry in group.get("versions") or ()]
        versions += [(group["name"], name, name == (preferred or names[0])) for name in names]
    return versions


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
    singular = str(entry.get("singularResource") or entry.get("singularName") or "")
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


_MAX_PARALLEL = 8
_ACCEPT = ",".join(
    [
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    ]
)


async def discover(api: Api, previous: ApiTypes | None = None) -> ApiTypes:
    """The types served now; failed group versions keep those of `previous`."""
    core, groups = await asyncio.gather(_root(api, "/api"), _root(api, "/apis"))
    return merge_group_versions([*core, *groups], previous)


async def _root(api: Api, path: str) -> list[GroupVersionTypes]:
    document, content_type = await api.document(path, accept=_ACCEPT)
    if "APIGroupDiscoveryList" in content_type:
        return from_aggregated(document)
    slots = asyncio.Semaphore(_MAX_PARALLEL)
    versions = _versions(document)
    return list(await asyncio.gather(*(_version(api, slots, *entry) for entry in versions)))


def _versions(document: Object) -> list[tuple[str, str, bool]]:
    if "groups" in document:
        return group_versions(document)
    names = document.get("versions") or []
    return [("", name, position == 0) for position, name in enumerate(names)]


async def _version(
    api: Api, slots: asyncio.Semaphore, group: str, version: str, preferred: bool
) -> GroupVersionTypes:
    async with slots:
        try:
            document, _ = await api.document(kube_api.group_version_path(GVR(group, version, "")))
        except ApiError:
            return GroupVersionTypes(group, version, preferred, failed=True)
    return from_resource_list(group, version, document, preferred=preferred)
