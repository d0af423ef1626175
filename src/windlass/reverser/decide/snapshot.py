"""What a complete snapshot allows: which files go, and which are ours to touch at all.

What always holds: nothing is concluded from a snapshot that is not complete (SNP-1), an
empty answer alone never removes a file (SNP-4), and a path is ours by its content, never
by how it looks (SNP-3). Paths are relative to the repository root.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, Protocol

from windlass.objects.gvr import GVK, GVR
from windlass.objects.identity import Identity
from windlass.objects.json import Object
from windlass.objects.key import Key
from windlass.reverser.decide.catalogue import Catalogue
from windlass.reverser.decide.plan import Plan

Confirmation = Literal["gone", "live", "unknown"]

_FREE = "windlass-any-resource"
_SEGMENT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")


class Forward(Protocol):
    """A layout: where the file of an object stands, base folder included."""

    def __call__(self, identity: Identity, kind: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """How the listing of a scope ended; SNP-1 asks for all three."""

    status: int
    ended: bool
    every_item_identified: bool = True

    @property
    def complete(self) -> bool:
        """SNP-1: the last page or the end bookmark came, with 200, and all are known."""
        return self.status == 200 and self.ended and self.every_item_identified


def candidates(scope_paths: Iterable[str], live: AbstractSet[str]) -> tuple[str, ...]:
    """SNP-2: the paths of a scope that no live object has.

    They are only candidates: each must still be shown to be ours (SNP-3).
    """
    return tuple(sorted(path for path in scope_paths if path not in live))


def needs_confirmation(*, list_empty: bool, candidates: Collection[str]) -> bool:
    """SNP-4: the whole answer held no item, yet files exist: ask for each by GET.

    `list_empty` is about the answer as it came, all namespaces of it, because it is the
    empty answer that is suspect and not the empty namespace.
    """
    return list_empty and bool(candidates)


def removable(
    candidates: Iterable[str], confirmations: Mapping[str, Confirmation] | None
) -> tuple[str, ...]:
    """SNP-5: all candidates at once; where confirmation was needed, the confirmed ones.

    Confirmed is "gone": 404 for the object while its type is served.
    """
    if confirmations is None:
        return tuple(candidates)
    return tuple(path for path in candidates if confirmations.get(path) == "gone")


def uncovered(
    managed: Mapping[str, Identity],
    destination: Key,
    plan: Plan,
    catalogue: Catalogue,
    *,
    rules_settled: bool,
) -> tuple[str, ...]:
    """SNP-7: the files that no rule of the destination covers any more.

    `rules_settled` says that the rule cache is complete and every rule of the destination
    is resolved at its present generation. Files of a failed group stay in any case: its
    types may be selected without anybody being able to tell.
    """
    if not rules_settled:
        return ()
    return tuple(
        sorted(
            path
            for path, one in managed.items()
            if one.gvr.group not in catalogue.failed
            and not plan.covers(destination, one.gvr, one.namespace)
        )
    )


def managed_unread(
    path: str, *, claim_is_ours: bool, written: Collection[str], live: Collection[str]
) -> bool:
    """SNP-3 (a) and (b): we wrote it, or a live object of the plan belongs there."""
    return claim_is_ours and (path in written or path in live)


def managed(
    path: str,
    content: Object | None,
    base_folder: str,
    layouts: Iterable[Forward],
    catalogue: Catalogue,
) -> bool:
    """SNP-3 (c): the one object in the file says that it belongs at this very path.

    `content` is None for whatever a strict reader refused. `layouts` are the present one
    and that of the claim. If the kind is not served any more, the resource is the single
    free part of the path, and may be none that another kind is served under. The claim
    must be ours, which the caller has asked already.
    """
    if content is None or not path.startswith(f"{base_folder}/"):
        return False
    said = subject(content)
    if said is None:
        return False
    gvk, key = said
    plurals = catalogue.resources(gvk)
    if plurals:
        return any(
            forward(_identity(gvk, plural, key), gvk.kind) == path
            for forward in layouts
            for plural in plurals
        )
    return any(_fits_unserved(path, forward, gvk, key, catalogue) for forward in layouts)


def same_identity(content: Object | None, identity: Identity, kind: str) -> bool:
    """Whether a file holds the object that belongs there, by hand or by us (SNP-10).

    The kind counts: another kind of the same group version under the same name is foreign.
    """
    wanted = GVK(identity.gvr.group, identity.gvr.version, kind), identity.key
    return content is not None and subject(content) == wanted


def subject(content: Object) -> tuple[GVK, Key] | None:
    """Who the object in a file says it is; None if it does not say it properly."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return None
    namespace = metadata.get("namespace", "")
    texts = (content.get("apiVersion"), content.get("kind"), metadata.get("name"))
    api_version, kind, name = texts
    if not (isinstance(api_version, str) and isinstance(kind, str) and isinstance(name, str)):
        return None
    if not (api_version and kind and name and isinstance(namespace, str)):
        return None
    return GVK.of(api_version, kind), Key(namespace, name)


def _identity(gvk: GVK, resource: str, key: Key) -> Identity:
    return Identity(GVR(gvk.group, gvk.version, resource), key.namespace, key.name)


def _fits_unserved(path: str, forward: Forward, gvk: GVK, key: Key, catalogue: Catalogue) -> bool:
    if _FREE in "\n".join((gvk.group, gvk.version, gvk.kind, key.namespace, key.name)):
        return False
    parts = forward(_identity(gvk, _FREE, key), gvk.kind).split(_FREE)
    if len(parts) == 1:
        return parts[0] == path
    resource = _free_part(path, parts)
    if not _SEGMENT.match(resource) or resource.join(parts) != path:
        return False
    return not catalogue.serves(GVR(gvk.group, gvk.version, resource))


def _free_part(path: str, parts: list[str]) -> str:
    """What stands in place of the free resource, if it is the same in every place."""
    room = max(len(path) - sum(len(part) for part in parts), 0)
    start = len(parts[0])
    return path[start : start + room // (len(parts) - 1)]
