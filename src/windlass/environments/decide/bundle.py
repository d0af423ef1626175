"""From objects as a project wrote them to objects as they are applied.

    objects ─▶ allowed kinds ─▶ shape ─▶ field rules ─▶ defaults ─▶ our namespace, marks ─▶ order

A hook is applied at its moment in every revision. The pods of one that runs to an end carry
the digest of everything that it runs for, so with anything new it is a new Job or Pod, and
else the same. It stays until then, also where it asks to be cleaned up: one that is gone
before anybody saw it end would run again and again.

Pure and deterministic: equal objects give equal bytes, in whatever order they come. All
offenders are found before anything is applied, and then nothing is: a bundle is taken
whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from windlass.environments.decide import (
    container_rules,
    field_rules,
    hooks,
    kinds,
    marking,
    marks,
    object_shapes,
    omissions,
    pods,
)
from windlass.environments.decide.field_rules import Offence
from windlass.environments.decide.hooks import Hook, When
from windlass.environments.decide.kinds import Stage
from windlass.environments.decide.manifests import Manifest
from windlass.environments.decide.marking import PRUNE, RECREATE
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.reach import Reach
from windlass.objects.names import GVR, JSON, Object

__all__ = [
    "APPLIED_HASH",
    "HOOK_OF",
    "PRUNE",
    "RECREATE",
    "TEMPLATE_HASH",
    "Bundle",
    "BundleRefused",
    "Member",
    "Place",
    "assembled",
    "replaces_pods",
]

APPLIED_HASH = "catalyst.dev/applied-hash"
HOOK_OF = "catalyst.dev/hook-of"
"""On the pods of a hook: the digest of the bundle that it runs for."""

TEMPLATE_HASH = "catalyst.dev/template-hash"
"""On the pods of a ReplicationController, which keeps old ones when its template changes."""

_KEEPS_PODS = "ReplicationController"
_REMOVE = "remove it, or leave its file out"
_CLEANED_UP = "ttlSecondsAfterFinished"
_HASH_CHARS = 16
_NAMED_AT_MOST = 10
_ORDER = (
    "KindNotAllowed",
    "KindUnknown",
    "ApiVersionNotSupported",
    "FieldNotAllowed",
    "TokenNotAllowed",
    "LimitAboveMaximum",
    "NameReserved",
    "ImageMissing",
    "ConfigInvalid",
)


class BundleRefused(ValueError):
    """Objects that may not be applied; the message names all of them, up to a bound."""

    def __init__(self, offences: Iterable[Offence]) -> None:
        ranked = sorted(
            set(offences),
            key=lambda one: (_ORDER.index(one.reason), one.where, one.why, one.file),
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
    trusted: bool = True
    placement: Object = field(default_factory=dict)
    reach: Reach = field(default_factory=Reach)
    max_limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """One object to apply, the file that it comes from, and when it runs if it is a hook."""

    gvr: GVR
    stage: Stage
    object: Object
    file: str = ""
    hook: Hook | None = None

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
    """Everything of one revision, in the order in which it is applied; hooks by themselves.

    `digest` changes with anything that is applied but the team, and with nothing else.
    `routes` are those of the dropped objects that would have given it an address.
    """

    members: tuple[Member, ...]
    digest: str
    dropped: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hooks: tuple[Member, ...] = ()

    @property
    def everything(self) -> tuple[Member, ...]:
        """Members and hooks."""
        return (*self.members, *self.hooks)

    def due(self, when: When, *, is_upgrade: bool) -> tuple[Member, ...]:
        """The hooks of one moment of a revision, in the order in which they run."""
        return tuple(
            hook
            for hook in self.hooks
            if hook.hook is not None and hook.hook.when(is_upgrade=is_upgrade) == when
        )


def assembled(
    manifests: Iterable[Manifest], place: Place, *, left_out: Iterable[str] = ()
) -> Bundle:
    """The bundle of some objects; BundleRefused names every offender."""
    kept, dropped, routes = _sorted_out(manifests)
    offences = list(_offences(kept, place))
    if offences:
        raise BundleRefused(offences)
    notes = set(_notes(kept, place.namespace))
    kept = [_cleaned(written, place, notes) for written in kept]
    members = [_member(written, place) for written in kept if written.hook is None]
    members.sort(key=lambda member: (member.stage, member.kind, member.name))
    hooked = [_member(written, place) for written in kept if written.hook is not None]
    hooked.sort(key=_hook_order)
    digest = _digest((*members, *hooked))
    return Bundle(
        tuple(members),
        digest,
        tuple(sorted({*dropped, *left_out})),
        tuple(sorted(routes)),
        tuple(sorted(notes)),
        tuple(_run_for(hook, digest) for hook in hooked),
    )


def _sorted_out(manifests: Iterable[Manifest]) -> tuple[list[Manifest], set[str], set[str]]:
    """What is kept, what is dropped, and which of that would have been a route."""
    kept: list[Manifest] = []
    dropped: set[str] = set()
    routes: set[str] = set()
    for written in manifests:
        if kinds.type_of(written.object) in kinds.DROPPED:
            dropped.add(field_rules.describe(written.object))
        else:
            kept.append(written)
        if kinds.type_of(written.object) in kinds.ROUTES:
            routes.add(field_rules.describe(written.object))
    return kept, dropped, routes


def _offences(manifests: Sequence[Manifest], place: Place) -> Iterator[Offence]:
    objects = [written.object for written in manifests]
    accounts = frozenset(
        field_rules.name_of(obj) for obj in objects if kinds.type_of(obj) == ("", "ServiceAccount")
    )
    seen: set[tuple[str, str, str]] = set()
    for written in manifests:
        obj = written.object
        for found in _offences_of(obj, accounts, place):
            yield replace(found, file=written.file)
        identity = (*kinds.type_of(obj), field_rules.name_of(obj))
        if identity in seen:
            where, why = field_rules.describe(obj), "duplicate object"
            yield Offence("ConfigInvalid", where, why, written.file)
        seen.add(identity)


def _offences_of(obj: Object, accounts: frozenset[str], place: Place) -> Iterator[Offence]:
    where = field_rules.describe(obj)
    if kinds.is_reserved(kinds.type_of(obj)[1], field_rules.name_of(obj)):
        yield Offence("NameReserved", where, "the operator keeps an object of this name")
    elif kinds.successor(obj):
        yield _old_version(obj, kinds.successor(obj))
    elif kinds.allowed(obj) is None:
        yield _forbidden_kind(obj)
    elif not place.trusted and kinds.type_of(obj) in kinds.TRUSTED_ONLY:
        text = f"kind {kinds.type_of(obj)[1]} is not allowed in an untrusted Environment; remove it"
        yield Offence("KindNotAllowed", where, text)
    else:
        wrong = [
            Offence("ConfigInvalid", f"{where} {path}", why)
            for path, why in object_shapes.faults(obj)
        ]
        # The rules rely on the shape.
        yield from wrong or (
            *field_rules.offences(obj, accounts, place.reach, trusted=place.trusted),
            *container_rules.offences(obj, place.max_limits),
        )


def _old_version(obj: Object, now: str) -> Offence:
    # Another version has other fields; to apply it under a new name would change it.
    was = field_rules.shown(obj.get("apiVersion"))
    text = f"apiVersion {was} is not supported; rewrite the object for {now}"
    return Offence("ApiVersionNotSupported", field_rules.describe(obj), text)


def _forbidden_kind(obj: Object) -> Offence:
    group, kind = (field_rules.shown(word) for word in kinds.type_of(obj))
    where = field_rules.describe(obj)
    if not kinds.is_built_in(group):
        text = f"kind {kind} of {group} is unknown: only kinds of Kubernetes itself are applied"
        return Offence("KindUnknown", where, f"{text}; {_REMOVE}")
    text = f"kind {kind} ({group or 'core'}) is not allowed; {_REMOVE}"
    return Offence("KindNotAllowed", where, text)


def _notes(manifests: Iterable[Manifest], namespace: str) -> Iterator[str]:
    for obj in (written.object for written in manifests):
        there = obj["metadata"].get("namespace")
        if there and there != namespace:
            text = f"{field_rules.describe(obj)} named namespace {field_rules.shown(there)}"
            yield f"{text}; it was put into ours"


def _cleaned(written: Manifest, place: Place, notes: set[str]) -> Manifest:
    """A manifest without what is left out of it; `notes` hears what that is."""
    obj, note = omissions.left_out(written.object, place.reach, trusted=place.trusted)
    if note:
        notes.add(note)
    return replace(written, object=obj)


def _member(written: Manifest, place: Place) -> Member:
    obj = written.object
    allowed = kinds.ALLOWED[kinds.type_of(obj)]
    wanted = marking.marked(_secured(_encoded(obj), place), place.marks, place.namespace)
    wanted.pop("status", None)
    if wanted["kind"] == _KEEPS_PODS:
        wanted = _with_template_hash(wanted)
    return Member(allowed.gvr, allowed.stage, _hashed(wanted), written.file, written.hook)


def replaces_pods(wanted: Object, live: Object) -> bool:
    """Whether a live object has to be made anew for its pods to be those that are wanted."""
    if wanted["kind"] != _KEEPS_PODS:
        return False
    path = ("spec", "template", "metadata", "annotations")
    hashes = [(kinds.at(obj, path) or {}).get(TEMPLATE_HASH) for obj in (wanted, live)]
    return hashes[0] != hashes[1]


def _with_template_hash(obj: Object) -> Object:
    digest = _hash(obj["spec"]["template"])[:_HASH_CHARS]
    path = ("spec", "template", "metadata", "annotations")
    told: Object = marking.changed(obj, path, lambda said: {**said, TEMPLATE_HASH: digest})
    return told


def _hook_order(hook: Member) -> tuple[int, Stage, str, str]:
    weight = hook.hook.weight if hook.hook is not None else 0
    # Jobs and Pods by name alone; what comes in an earlier stage may be what they need.
    kind = "" if hooks.is_waited_for(hook.object) else hook.kind
    return weight, hook.stage, kind, hook.name


def _run_for(hook: Member, digest: str) -> Member:
    """A hook that is another one in every other bundle; pods of a Job cannot be changed."""
    if not hooks.is_waited_for(hook.object):
        return hook
    told = {HOOK_OF: digest[:_HASH_CHARS]}
    path = (*(kinds.ALLOWED[kinds.type_of(hook.object)].template or ()), "metadata", "annotations")
    spec = {name: value for name, value in hook.object["spec"].items() if name != _CLEANED_UP}
    kept = {**hook.object, "spec": spec}
    return replace(hook, object=_hashed(marking.changed(kept, path, lambda said: {**said, **told})))


def _hashed(obj: Object) -> Object:
    metadata = obj["metadata"]
    said = {name: text for name, text in metadata["annotations"].items() if name != APPLIED_HASH}
    plain = {**obj, "metadata": {**metadata, "annotations": said}}
    applied = {**said, APPLIED_HASH: _hash(_teamless(plain))[:_HASH_CHARS]}
    return {**obj, "metadata": {**metadata, "annotations": applied}}


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
        lambda spec: pods.secured(
            spec, place.default_limits, restricted=place.restricted, placement=place.placement
        ),
    )
    return secured


def _digest(members: Sequence[Member]) -> str:
    return _hash([_teamless(member.object) for member in members])


def _hash(value: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _teamless(obj: Object) -> Object:
    """Who is told to own an object makes it no other object: nothing runs anew for that."""
    metadata = obj["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name != marks.TEAM}
    return {**obj, "metadata": {**metadata, "labels": labels}}
