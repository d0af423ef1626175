"""Builds the bundle of a revision: objects as a project wrote them to objects as they are applied.

    objects ─▶ allowed kinds ─▶ shape ─▶ field rules ─▶ sanitizer ─▶ defaults ─▶ labels ─▶ order

A hook is applied at its phase in every revision. The pods of one that runs to completion carry
the digest of everything that it runs for, so with anything new it is a new Job or Pod, and
else the same. It stays until then, also where it asks to be cleaned up: one that is gone
before its end was observed would run again and again.

Deterministic: equal objects give equal bytes, in whatever order they come. All violations are
found before anything is applied, and then nothing is: a bundle is taken whole or not at all.

Pure.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from windlass.environments import ownership
from windlass.environments.bundle import (
    field_rules,
    hooks,
    kinds,
    labeling,
    pod_defaults,
    sanitizer,
    shapes,
)
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.bundle.field_rules import Violation
from windlass.environments.bundle.hooks import Hook, HookPhase
from windlass.environments.bundle.kinds import Stage
from windlass.environments.ownership import Ownership
from windlass.environments.render.manifests import ManifestObject
from windlass.objects.names import GVR, JSON, Object

APPLIED_HASH = "catalyst.dev/applied-hash"
HOOK_OF = "catalyst.dev/hook-of"
"""On the pods of a hook: the digest of the bundle that it runs for."""

TEMPLATE_HASH = "catalyst.dev/template-hash"
"""On the pods of a ReplicationController, which keeps old ones when its template changes."""

_KEEPS_OLD_PODS = "ReplicationController"
_REMOVE = "remove it, or leave its file out"
_TTL_FIELD = "ttlSecondsAfterFinished"
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

    def __init__(self, offences: Iterable[Violation]) -> None:
        ranked = sorted(
            set(offences),
            key=lambda one: (_ORDER.index(one.reason), one.where, one.why, one.file),
        )
        self.reason = ranked[0].reason
        self.violations = tuple(ranked)
        named = "; ".join(map(str, ranked[:_NAMED_AT_MOST]))
        rest = len(ranked) - _NAMED_AT_MOST
        super().__init__(f"{named}; and {rest} more" if rest > 0 else named)


@dataclass(frozen=True, slots=True)
class BundleTarget:
    """Where a bundle goes and what everything in it gets."""

    namespace: str
    owner: Ownership
    default_limits: Mapping[str, str]
    restricted: bool = True
    trusted: bool = True
    placement: Object = field(default_factory=dict)
    cluster_access: ClusterAccess = field(default_factory=ClusterAccess)
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
    def all_members(self) -> tuple[Member, ...]:
        """Members and hooks."""
        return (*self.members, *self.hooks)

    def hooks_at(self, when: HookPhase, *, is_upgrade: bool) -> tuple[Member, ...]:
        """The hooks of one moment of a revision, in the order in which they run."""
        return tuple(
            hook
            for hook in self.hooks
            if hook.hook is not None and hook.hook.when(is_upgrade=is_upgrade) == when
        )


def build_bundle(
    manifests: Iterable[ManifestObject], place: BundleTarget, *, left_out: Iterable[str] = ()
) -> Bundle:
    """The bundle of some objects; BundleRefused names every offender."""
    kept, dropped, routes = _drop_kinds(manifests)
    offences = list(_violations(kept, place))
    if offences:
        raise BundleRefused(offences)
    notes = set(_notes(kept, place.namespace))
    kept = [_sanitize(written, place, notes) for written in kept]
    members = [_build_member(written, place) for written in kept if written.hook is None]
    members.sort(key=lambda member: (member.stage, member.kind, member.name))
    hooked = [_build_member(written, place) for written in kept if written.hook is not None]
    hooked.sort(key=_hook_order)
    digest = _digest((*members, *hooked))
    return Bundle(
        tuple(members),
        digest,
        tuple(sorted({*dropped, *left_out})),
        tuple(sorted(routes)),
        tuple(sorted(notes)),
        tuple(_bind_to_digest(hook, digest) for hook in hooked),
    )


def _drop_kinds(
    manifests: Iterable[ManifestObject],
) -> tuple[list[ManifestObject], set[str], set[str]]:
    """What is kept, what is dropped, and which of that would have been a route."""
    kept: list[ManifestObject] = []
    dropped: set[str] = set()
    routes: set[str] = set()
    for written in manifests:
        if kinds.group_kind(written.object) in kinds.DROPPED_KINDS:
            dropped.add(field_rules.describe(written.object))
        else:
            kept.append(written)
        if kinds.group_kind(written.object) in kinds.ROUTE_KINDS:
            routes.add(field_rules.describe(written.object))
    return kept, dropped, routes


def _violations(manifests: Sequence[ManifestObject], place: BundleTarget) -> Iterator[Violation]:
    objects = [written.object for written in manifests]
    accounts = frozenset(
        field_rules.object_name(obj)
        for obj in objects
        if kinds.group_kind(obj) == ("", "ServiceAccount")
    )
    seen: set[tuple[str, str, str]] = set()
    for written in manifests:
        obj = written.object
        for found in _object_violations(obj, accounts, place):
            yield replace(found, file=written.file)
        identity = (*kinds.group_kind(obj), field_rules.object_name(obj))
        if identity in seen:
            where, why = field_rules.describe(obj), "duplicate object"
            yield Violation("ConfigInvalid", where, why, written.file)
        seen.add(identity)


def _object_violations(
    obj: Object, accounts: frozenset[str], place: BundleTarget
) -> Iterator[Violation]:
    where = field_rules.describe(obj)
    if kinds.is_reserved(kinds.group_kind(obj)[1], field_rules.object_name(obj)):
        yield Violation("NameReserved", where, "the operator keeps an object of this name")
    elif kinds.current_api_version(obj):
        yield _old_version_violation(obj, kinds.current_api_version(obj))
    elif kinds.allowed_kind(obj) is None:
        yield _forbidden_kind_violation(obj)
    elif not place.trusted and kinds.group_kind(obj) in kinds.TRUSTED_ONLY:
        text = (
            f"kind {kinds.group_kind(obj)[1]} is not allowed in an untrusted Environment; remove it"
        )
        yield Violation("KindNotAllowed", where, text)
    else:
        wrong = [
            Violation("ConfigInvalid", f"{where} {path}", why)
            for path, why in shapes.shape_faults(obj)
        ]
        # The rules rely on the shape.
        yield from wrong or (
            *field_rules.field_violations(
                obj, accounts, place.cluster_access, trusted=place.trusted
            ),
            *field_rules.container_violations(obj, place.max_limits),
        )


def _old_version_violation(obj: Object, now: str) -> Violation:
    # Another version has other fields; to apply it under a new name would change it.
    was = field_rules.escape(obj.get("apiVersion"))
    text = f"apiVersion {was} is not supported; rewrite the object for {now}"
    return Violation("ApiVersionNotSupported", field_rules.describe(obj), text)


def _forbidden_kind_violation(obj: Object) -> Violation:
    group, kind = (field_rules.escape(word) for word in kinds.group_kind(obj))
    where = field_rules.describe(obj)
    if not kinds.is_built_in(group):
        text = f"kind {kind} of {group} is unknown: only kinds of Kubernetes itself are applied"
        return Violation("KindUnknown", where, f"{text}; {_REMOVE}")
    text = f"kind {kind} ({group or 'core'}) is not allowed; {_REMOVE}"
    return Violation("KindNotAllowed", where, text)


def _notes(manifests: Iterable[ManifestObject], namespace: str) -> Iterator[str]:
    for obj in (written.object for written in manifests):
        there = obj["metadata"].get("namespace")
        if there and there != namespace:
            text = f"{field_rules.describe(obj)} named namespace {field_rules.escape(there)}"
            yield f"{text}; it was put into ours"


def _sanitize(written: ManifestObject, place: BundleTarget, notes: set[str]) -> ManifestObject:
    """A manifest without what is left out of it; `notes` hears what that is."""
    obj, note = sanitizer.sanitize_object(
        written.object, place.cluster_access, trusted=place.trusted
    )
    if note:
        notes.add(note)
    return replace(written, object=obj)


def _build_member(written: ManifestObject, place: BundleTarget) -> Member:
    obj = written.object
    allowed = kinds.ALLOWED_KINDS[kinds.group_kind(obj)]
    wanted = labeling.label_object(
        _with_pod_defaults(_encode_secret(obj), place), place.owner, place.namespace
    )
    wanted.pop("status", None)
    if wanted["kind"] == _KEEPS_OLD_PODS:
        wanted = _with_template_hash(wanted)
    return Member(
        allowed.gvr, allowed.stage, _with_applied_hash(wanted), written.file, written.hook
    )


def replaces_pods(wanted: Object, live: Object) -> bool:
    """Whether a live object has to be made anew for its pods to be those that are wanted."""
    if wanted["kind"] != _KEEPS_OLD_PODS:
        return False
    path = ("spec", "template", "metadata", "annotations")
    hashes = [(kinds.map_at(obj, path) or {}).get(TEMPLATE_HASH) for obj in (wanted, live)]
    return hashes[0] != hashes[1]


def _with_template_hash(obj: Object) -> Object:
    digest = _hash(obj["spec"]["template"])[:_HASH_CHARS]
    path = ("spec", "template", "metadata", "annotations")
    told: Object = labeling.edit_at(obj, path, lambda said: {**said, TEMPLATE_HASH: digest})
    return told


def _hook_order(hook: Member) -> tuple[int, Stage, str, str]:
    weight = hook.hook.weight if hook.hook is not None else 0
    # Jobs and Pods by name alone; what comes in an earlier stage may be what they need.
    kind = "" if hooks.runs_to_completion(hook.object) else hook.kind
    return weight, hook.stage, kind, hook.name


def _bind_to_digest(hook: Member, digest: str) -> Member:
    """A hook that is another one in every other bundle; pods of a Job cannot be changed."""
    if not hooks.runs_to_completion(hook.object):
        return hook
    told = {HOOK_OF: digest[:_HASH_CHARS]}
    path = (
        *(kinds.ALLOWED_KINDS[kinds.group_kind(hook.object)].template or ()),
        "metadata",
        "annotations",
    )
    spec = {name: value for name, value in hook.object["spec"].items() if name != _TTL_FIELD}
    kept = {**hook.object, "spec": spec}
    return replace(
        hook, object=_with_applied_hash(labeling.edit_at(kept, path, lambda said: {**said, **told}))
    )


def _with_applied_hash(obj: Object) -> Object:
    metadata = obj["metadata"]
    said = {name: text for name, text in metadata["annotations"].items() if name != APPLIED_HASH}
    plain = {**obj, "metadata": {**metadata, "annotations": said}}
    applied = {**said, APPLIED_HASH: _hash(_without_team(plain))[:_HASH_CHARS]}
    return {**obj, "metadata": {**metadata, "annotations": applied}}


def _encode_secret(obj: Object) -> Object:
    """A Secret as the server stores it: what it cannot show back cannot be compared."""
    if obj.get("kind") != "Secret" or "stringData" not in obj:
        return obj
    plain = {
        name: base64.b64encode((text or "").encode()).decode()
        for name, text in (obj["stringData"] or {}).items()
    }
    rest = {name: value for name, value in obj.items() if name != "stringData"}
    return {**rest, "data": {**(obj.get("data") or {}), **plain}}


def _with_pod_defaults(obj: Object, place: BundleTarget) -> Object:
    found = kinds.allowed_kind(obj)
    if found is None or found.template is None:
        return obj
    secured: Object = labeling.edit_at(
        obj,
        (*found.template, "spec"),
        lambda spec: pod_defaults.apply_pod_defaults(
            spec, place.default_limits, restricted=place.restricted, placement=place.placement
        ),
    )
    return secured


def _digest(members: Sequence[Member]) -> str:
    return _hash([_without_team(member.object) for member in members])


def _hash(value: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _without_team(obj: Object) -> Object:
    """Who is told to own an object makes it no other object: nothing runs anew for that."""
    metadata = obj["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name != ownership.TEAM}
    return {**obj, "metadata": {**metadata, "labels": labels}}
