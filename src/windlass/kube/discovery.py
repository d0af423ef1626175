"""Asks an API server which types it serves.

Two requests where discovery is aggregated, else one per group version besides. A group
version that does not answer is failed, not absent; when the roots themselves do not
answer, there is no catalogue and the ApiError says why.

Which types an API server serves, worked out from its discovery documents.

No requests here: documents in, `ApiTypes` out. A group version that is stale or could
not be read is failed: it keeps the types it had before, and nothing may be concluded
from what it lacks. Subresources are no types. Within a group the first version that the
server names is the preferred one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from windlass.kube import api as kube_api
from windlass.kube.api import Api
from windlass.kube.errors import ApiError
from windlass.objects.names import GVK, GVR, Object


@dataclass(frozen=True)
class ServedType:
    """One resource that the server serves in one version."""

    gvr: GVR
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    preferred: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()

    @property
    def gvk(self) -> GVK:
        return GVK(self.gvr.group, self.gvr.version, self.kind)


@dataclass(frozen=True)
class ApiTypes:
    """All served types; `failed_groups` holds `group/version` texts (`v1` for the core)."""

    types: tuple[ServedType, ...]
    failed_groups: frozenset[str] = frozenset()
    subresource_only: frozenset[GVR] = frozenset()
    """Plurals that appear only in front of a slash, such as `things` in `things/scale`."""
    shared_kinds: frozenset[GVK] = field(default_factory=frozenset)
    """Kinds that more than one plural of the same group version answers with."""

    @property
    def is_complete(self) -> bool:
        return not self.failed_groups


@dataclass(frozen=True, slots=True)
class GroupVersionTypes:
    """What one group version says about itself."""

    group: str
    version: str
    preferred: bool
    failed: bool = False
    types: tuple[ServedType, ...] = ()
    subresource_only: frozenset[GVR] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def merge_group_versions(parts: Iterable[GroupVersionTypes], previous: ApiTypes | None) -> ApiTypes:
    """The catalogue of all parts; failed ones are filled from `previous`."""
    types: list[ServedType] = []
    bare: set[GVR] = set()
    failed: set[str] = set()
    for part in parts:
        known = _known(part, previous) if part.failed else ((), frozenset())
        types += known[0] or part.types
        bare |= known[1] or part.subresource_only
        if part.failed:
            failed.add(part.name)
    return ApiTypes(
        tuple(sorted(types, key=lambda served: served.gvr)),
        frozenset(failed),
        frozenset(bare),
        _shared(types),
    )


def from_aggregated(document: Object) -> list[GroupVersionTypes]:
    """The group versions of an APIGroupDiscoveryList."""
    parts: list[GroupVersionTypes] = []
    for item in document.get("items") or ():
        group = item.get("metadata", {}).get("name", "")
        for place, version in enumerate(item.get("versions") or ()):
            parts.append(_aggregated_version(group, version, preferred=place == 0))
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
    found: list[tuple[str, str, bool]] = []
    for group in document.get("groups") or ():
        chosen = (group.get("preferredVersion") or {}).get("version")
        names = [entry["version"] for entry in group.get("versions") or ()]
        found += [(group["name"], name, name == (chosen or names[0])) for name in names]
    return found


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


def _known(
    part: GroupVersionTypes, previous: ApiTypes | None
) -> tuple[tuple[ServedType, ...], frozenset[GVR]]:
    if previous is None:
        return (), frozenset()
    here = (part.group, part.version)
    types = tuple(t for t in previous.types if (t.gvr.group, t.gvr.version) == here)
    bare = frozenset(g for g in previous.subresource_only if (g.group, g.version) == here)
    return types, bare


def _shared(types: Iterable[ServedType]) -> frozenset[GVK]:
    counts = Counter(served.gvk for served in types)
    return frozenset(gvk for gvk, count in counts.items() if count > 1)


_AT_ONCE = 8
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
    turn = asyncio.Semaphore(_AT_ONCE)
    wanted = _versions(document)
    return list(await asyncio.gather(*(_version(api, turn, *entry) for entry in wanted)))


def _versions(document: Object) -> list[tuple[str, str, bool]]:
    if "groups" in document:
        return group_versions(document)
    names = document.get("versions") or []
    return [("", name, place == 0) for place, name in enumerate(names)]


async def _version(
    api: Api, turn: asyncio.Semaphore, group: str, version: str, preferred: bool
) -> GroupVersionTypes:
    async with turn:
        try:
            document, _ = await api.document(kube_api.group_version_path(GVR(group, version, "")))
        except ApiError:
            return GroupVersionTypes(group, version, preferred, failed=True)
    return from_resource_list(group, version, document, preferred=preferred)
