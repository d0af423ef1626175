"""From objects as a project wrote them to objects as they are applied.

    objects ─▶ allowed kinds ─▶ field rules ─▶ our namespace ─▶ defaults ─▶ marks ─▶ order

Pure and deterministic: equal inputs give equal bytes. All offenders are found before
anything is applied, and then nothing is: a bundle is taken whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from windlass.environments.decide import field_rules, kinds, pods
from windlass.environments.decide.field_rules import Offence
from windlass.environments.decide.kinds import Stage
from windlass.environments.decide.marks import Marks
from windlass.objects.gvr import GVR
from windlass.objects.json import Object

APPLIED_HASH = "catalyst.dev/applied-hash"
PRUNE = "catalyst.dev/prune"
RECREATE = "catalyst.dev/recreate"

_KEPT_MARKS = frozenset({PRUNE, RECREATE})
_OURS = ("catalyst.dev/", "windlass.dev/", "pod-security.kubernetes.io/")
_SERVER_FIELDS = (
    "creationTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
_NAMED_AT_MOST = 10
_ORDER = ("KindNotAllowed", "FieldNotAllowed", "NameReserved", "ConfigInvalid")


class BundleRefused(ValueError):
    """Objects that may not be applied; the message names all of them."""

    def __init__(self, offences: Sequence[Offence]) -> None:
        ranked = sorted(offences, key=lambda one: _ORDER.index(one.reason))
        self.reason = ranked[0].reason
        self.offences = tuple(ranked)
        named = "; ".join(map(str, ranked[:_NAMED_AT_MOST]))
        rest = len(ranked) - _NAMED_AT_MOST
        super().__init__(f"{named}; and {rest} more" if rest > 0 else named)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bundle goes and what everything in it gets."""

    namespace: str
    marks: Marks
    default_limits: Mapping[str, str]
    restricted: bool = True


@dataclass(frozen=True, slots=True)
class Member:
    """One object to apply."""

    gvr: GVR
    stage: Stage
    object: Object

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def applied_hash(self) -> str:
        return str(self.object["metadata"]["annotations"][APPLIED_HASH])

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything of one revision, in the order in which it is applied."""

    members: tuple[Member, ...]
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What changes with anything in the bundle."""
        text = msgspec.json.encode([member.object for member in self.members], order="sorted")
        return hashlib.sha256(text).hexdigest()


def assembled(objects: Iterable[Object], place: Place) -> Bundle:
    """The bundle of some objects; BundleRefused names every offender."""
    kept, dropped = _sorted_out(objects)
    offences = list(_offences(kept))
    if offences:
        raise BundleRefused(offences)
    members = [_member(obj, place) for obj in kept]
    members.sort(key=lambda member: (member.stage, member.kind, member.name))
    notes = tuple(_notes(kept, place.namespace))
    return Bundle(tuple(members), tuple(dropped), notes)


def _sorted_out(objects: Iterable[Object]) -> tuple[list[Object], list[str]]:
    kept: list[Object] = []
    dropped: list[str] = []
    for obj in objects:
        if kinds.type_of(obj) in kinds.DROPPED:
            dropped.append(field_rules.describe(obj))
        else:
            kept.append(obj)
    return kept, dropped


def _offences(objects: Sequence[Object]) -> Iterator[Offence]:
    accounts = frozenset(
        str(obj["metadata"]["name"]) for obj in objects if obj.get("kind") == "ServiceAccount"
    )
    seen: set[tuple[str, str, str]] = set()
    for obj in objects:
        name = field_rules.describe(obj)
        if kinds.allowed(obj) is None:
            kind = "/".join(filter(None, kinds.type_of(obj)))
            yield Offence("KindNotAllowed", name, f"a project may not bring objects of {kind}")
            continue
        identity = (*kinds.type_of(obj), str(obj["metadata"]["name"]))
        if identity in seen:
            yield Offence("ConfigInvalid", name, "it stands in the manifests twice")
        seen.add(identity)
        if identity[1:] in kinds.RESERVED:
            yield Offence("NameReserved", name, "the operator keeps an object of this name")
        yield from field_rules.offences(obj, accounts)


def _notes(objects: Iterable[Object], namespace: str) -> Iterator[str]:
    for obj in objects:
        there = obj["metadata"].get("namespace")
        if there and there != namespace:
            yield f"{field_rules.describe(obj)} named namespace {there}; it was put into ours"


def _member(obj: Object, place: Place) -> Member:
    allowed = kinds.ALLOWED[kinds.type_of(obj)]
    wanted = _marked(_secured(_encoded(obj), place), place)
    wanted["apiVersion"] = allowed.gvr.api_version
    wanted.pop("status", None)
    wanted["metadata"]["annotations"][APPLIED_HASH] = _hash(wanted)
    return Member(allowed.gvr, allowed.stage, wanted)


def _encoded(obj: Object) -> Object:
    """A Secret as the server stores it: what it cannot show back cannot be compared."""
    if obj.get("kind") != "Secret" or not isinstance(obj.get("stringData"), dict):
        return obj
    plain = {
        name: base64.b64encode(str(text).encode()).decode()
        for name, text in obj["stringData"].items()
    }
    rest = {name: value for name, value in obj.items() if name != "stringData"}
    return {**rest, "data": {**(obj.get("data") or {}), **plain}}


def _secured(obj: Object, place: Place) -> Object:
    found = kinds.allowed(obj)
    spec = kinds.pod_spec(obj)
    if found is None or found.template is None or spec is None:
        return obj
    filled = pods.secured(spec, place.default_limits, restricted=place.restricted)
    return _replaced(obj, (*found.template, "spec"), filled)


def _marked(obj: Object, place: Place) -> Object:
    metadata = _own_metadata(obj.get("metadata") or {})
    metadata["namespace"] = place.namespace
    metadata["labels"] = {**metadata["labels"], **place.marks.labels}
    metadata["annotations"] = {**metadata["annotations"], **place.marks.annotations}
    marked = {**obj, "metadata": metadata}
    found = kinds.allowed(obj)
    if found is None or not found.template:
        return marked
    inner = (*found.template, "metadata")
    template = _own_metadata(_at(obj, inner) or {})
    # Never the branch: a template that changes with it would start every pod anew.
    template["labels"] = {**template["labels"], **place.marks.selecting}
    return _replaced(marked, inner, template)


def _own_metadata(metadata: Object) -> Object:
    """Metadata without what the server or the operator says."""
    kept = {name: value for name, value in metadata.items() if name not in _SERVER_FIELDS}
    kept["labels"] = _foreign(metadata.get("labels") or {})
    kept["annotations"] = _foreign(metadata.get("annotations") or {})
    return kept


def _foreign(marks: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in marks.items()
        if name in _KEPT_MARKS or not name.startswith(_OURS)
    }


def _at(obj: Object, path: Sequence[str]) -> Object | None:
    inside: object = obj
    for member in path:
        inside = inside.get(member) if isinstance(inside, dict) else None
    return inside if isinstance(inside, dict) else None


def _replaced(obj: Object, path: Sequence[str], value: Object) -> Object:
    head, *rest = path
    if not rest:
        return {**obj, head: value}
    return {**obj, head: _replaced(obj.get(head) or {}, rest, value)}


def _hash(obj: Object) -> str:
    return hashlib.sha256(msgspec.json.encode(obj, order="sorted")).hexdigest()[:16]
