"""From objects as a project wrote them to objects as they are applied.

    objects ─▶ allowed kinds ─▶ shape ─▶ field rules ─▶ defaults ─▶ our namespace, marks ─▶ order

Pure and deterministic: equal objects give equal bytes, in whatever order they come. All
offenders are found before anything is applied, and then nothing is: a bundle is taken
whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from windlass.environments.decide import field_rules, kinds, marking, object_shapes, pods
from windlass.environments.decide.field_rules import Offence
from windlass.environments.decide.kinds import Stage
from windlass.environments.decide.marking import PRUNE, RECREATE
from windlass.environments.decide.marks import Marks
from windlass.objects.gvr import GVR
from windlass.objects.json import Object

__all__ = [
    "APPLIED_HASH",
    "PRUNE",
    "RECREATE",
    "Bundle",
    "BundleRefused",
    "Member",
    "Place",
    "assembled",
]

APPLIED_HASH = "catalyst.dev/applied-hash"

_NAMED_AT_MOST = 10
_ORDER = ("KindNotAllowed", "FieldNotAllowed", "NameReserved", "ConfigInvalid")


class BundleRefused(ValueError):
    """Objects that may not be applied; the message names all of them, up to a bound."""

    def __init__(self, offences: Iterable[Offence]) -> None:
        ranked = sorted(
            set(offences), key=lambda one: (_ORDER.index(one.reason), one.where, one.why)
        )
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
    notes = sorted(_notes(kept, place.namespace))
    return Bundle(tuple(members), tuple(sorted(dropped)), tuple(notes))


def _sorted_out(objects: Iterable[Object]) -> tuple[list[Object], set[str]]:
    kept: list[Object] = []
    dropped: set[str] = set()
    for obj in objects:
        if kinds.type_of(obj) in kinds.DROPPED:
            dropped.add(field_rules.describe(obj))
        else:
            kept.append(obj)
    return kept, dropped


def _offences(objects: Sequence[Object]) -> Iterator[Offence]:
    accounts = frozenset(
        field_rules.name_of(obj) for obj in objects if kinds.type_of(obj) == ("", "ServiceAccount")
    )
    seen: set[tuple[str, str, str]] = set()
    for obj in objects:
        identity = (*kinds.type_of(obj), field_rules.name_of(obj))
        if identity in seen:
            yield Offence(
                "ConfigInvalid", field_rules.describe(obj), "it stands in the manifests twice"
            )
        seen.add(identity)
        yield from _offences_of(obj, accounts)


def _offences_of(obj: Object, accounts: frozenset[str]) -> Iterator[Offence]:
    where = field_rules.describe(obj)
    group, kind = kinds.type_of(obj)
    if kinds.is_reserved(kind, field_rules.name_of(obj)):
        yield Offence("NameReserved", where, "the operator keeps an object of this name")
    elif kinds.allowed(obj) is None:
        text = f"a project may not bring objects of {field_rules.shown(kind)}"
        yield Offence("KindNotAllowed", where, f"{text} ({field_rules.shown(group or 'core')})")
    else:
        wrong = [
            Offence("ConfigInvalid", f"{where} {path}", why)
            for path, why in object_shapes.faults(obj)
        ]
        # The rules rely on the shape.
        yield from wrong or field_rules.offences(obj, accounts)


def _notes(objects: Iterable[Object], namespace: str) -> Iterator[str]:
    for obj in objects:
        there = obj["metadata"].get("namespace")
        if there and there != namespace:
            text = f"{field_rules.describe(obj)} named namespace {field_rules.shown(there)}"
            yield f"{text}; it was put into ours"


def _member(obj: Object, place: Place) -> Member:
    allowed = kinds.ALLOWED[kinds.type_of(obj)]
    wanted = marking.marked(_secured(_encoded(obj), place), place.marks, place.namespace)
    wanted.pop("status", None)
    wanted["metadata"]["annotations"][APPLIED_HASH] = _hash(wanted)
    return Member(allowed.gvr, allowed.stage, wanted)


def _encoded(obj: Object) -> Object:
    """A Secret as the server stores it: what it cannot show back cannot be compared."""
    if obj.get("kind") != "Secret" or "stringData" not in obj:
        return obj
    plain = {
        name: base64.b64encode((text or "").encode()).decode()
        for name, text in (obj["stringData"] or {}).items()
    }
    rest = {name: value for name, value in obj.items() if name != "stringData"}
    return {**rest, "data": {**(obj.get("data") or {}), **plain}}


def _secured(obj: Object, place: Place) -> Object:
    found = kinds.allowed(obj)
    if found is None or found.template is None:
        return obj
    secured: Object = marking.changed(
        obj,
        (*found.template, "spec"),
        lambda spec: pods.secured(spec, place.default_limits, restricted=place.restricted),
    )
    return secured


def _hash(obj: Object) -> str:
    return hashlib.sha256(msgspec.json.encode(obj, order="sorted")).hexdigest()[:16]
