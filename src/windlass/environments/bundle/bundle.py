"""Builds the bundle of a revision: objects as a project wrote them to objects as they are applied.

    objects ─▶ allowed kinds ─▶ shape ─▶ field rules ─▶ sanitizer ─▶ defaults ─▶ labels ─▶ order

`renderer` calls `build_bundle`; `apply.bundle_applier` applies the result.

A hook is applied at its phase in every revision. The pods of a hook that runs to completion
carry the digest of the bundle that it runs for: a changed bundle makes it a new Job or Pod, an
unchanged one leaves it as it is. It stays until then, also where it asks to be cleaned up: a
hook that is gone before its end was observed would run again and again.

Deterministic: equal objects give equal bytes, in whatever order they come. All violations are
found before anything is applied: a bundle is applied whole or not at all.

Pure.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from windlass.api.install.environment_objects import ALLOWED_KINDS, Stage
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
from windlass.environments.ownership import Ownership
from windlass.environments.render.manifests import ManifestObject, RenderRefused
from windlass.objects.names import GVR, JSON, Object

APPLIED_HASH = "catalyst.dev/applied-hash"
HOOK_OF = "catalyst.dev/hook-of"
"""On the pods of a hook: the digest of the bundle that it runs for."""

TEMPLATE_HASH = "catalyst.dev/template-hash"
"""On the pods of a ReplicationController, which keeps old ones when its template changes."""

_KEEPS_OLD_PODS = "ReplicationController"
_REMOVE_FROM_MANIFESTS = "remove it, or exclude its file"
_REMOVE_FROM_CHART = "disable it in the values, or remove it from the chart"
_TTL_FIELD = "ttlSecondsAfterFinished"
_HASH_CHARS = 16
_NAMED_AT_MOST = 10
# Reasons by importance; the first that occurs becomes the reason of the condition.
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
    """Objects that may not be applied; the message lists the violations, up to a bound."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        ranked = sorted(
            set(violations),
            key=lambda violation: (
                _ORDER.index(violation.reason),
                violation.where,
                violation.why,
                violation.file,
            ),
        )
        self.reason = ranked[0].reason
        self.violations = tuple(ranked)
        named = "; ".join(map(str, ranked[:_NAMED_AT_MOST]))
        rest = len(ranked) - _NAMED_AT_MOST
        super().__init__(f"{named}; and {rest} more" if rest > 0 else named)


@dataclass(frozen=True, slots=True)
class BundleTarget:
    """The namespace that a bundle is applied to, and the rules for its objects."""

    namespace: str  # of the Environment's workloads
    owner: Ownership  # labels and annotations of every object
    default_limits: Mapping[str, str]  # of a container without limits, by resource
    restricted: bool = True  # whether pods get the defaults of the Pod Security level `restricted`
    trusted: bool = True  # trust of the Environment
    placement: Object = field(default_factory=dict)  # fields of every pod spec; they always win
    # Storage classes, CSI drivers, schedulers and annotations that it may use.
    cluster_access: ClusterAccess = field(default_factory=ClusterAccess)
    max_limits: Mapping[str, str] = field(default_factory=dict)  # of one container, by resource


@dataclass(frozen=True, slots=True)
class Member:
    """One object to apply."""

    gvr: GVR
    stage: Stage
    object: Object
    file: str = ""  # where the project wrote it, for messages
    hook: Hook | None = None  # None where it is applied with its stage

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
    """All objects of one revision."""

    members: tuple[Member, ...]  # without hooks, in the order in which they are applied
    digest: str  # of all objects without their team label; equal bundles have equal digests
    dropped: tuple[str, ...] = ()  # what is not applied, for `status.unsupported`
    routes: tuple[str, ...] = ()  # dropped objects that would expose it outside the cluster
    # What is applied with changes, and hooks that do not run, for `status.unsupported`.
    notes: tuple[str, ...] = ()
    hooks: tuple[Member, ...] = ()  # in the order in which they run
    trusted: bool = True  # trust of the Environment, which decides what remedies there are

    @property
    def all_members(self) -> tuple[Member, ...]:
        """Members and hooks."""
        return (*self.members, *self.hooks)

    def hooks_at(self, when: HookPhase, *, is_upgrade: bool) -> tuple[Member, ...]:
        """The hooks of one phase of a revision, in the order in which they run."""
        return tuple(
            hook
            for hook in self.hooks
            if hook.hook is not None and hook.hook.when(is_upgrade=is_upgrade) == when
        )


def build_bundle(
    manifests: Iterable[ManifestObject],
    target: BundleTarget,
    *,
    left_out: Iterable[str] = (),
    is_chart: bool = False,
) -> Bundle:
    """The bundle of some objects; BundleRefused lists every violation.

    `left_out` is what the render dropped already, for `Bundle.dropped`. RenderRefused where
    nothing remains.
    """
    applied, dropped, routes = _drop_kinds(manifests)
    dropped.update(left_out)
    violations = list(_violations(applied, target, is_chart=is_chart))
    if violations:
        raise BundleRefused(violations)
    if not applied:
        # An empty bundle would prune everything that runs.
        raise RenderRefused("RenderFailed", _nothing_left_message(dropped, is_chart=is_chart))
    notes = set(_notes(applied, target.namespace))
    applied = [_sanitize(manifest, target, notes) for manifest in applied]
    members = [_build_member(manifest, target) for manifest in applied if manifest.hook is None]
    members.sort(key=lambda member: (member.stage, member.kind, member.name))
    hooked = [_build_member(manifest, target) for manifest in applied if manifest.hook is not None]
    hooked.sort(key=_hook_order)
    digest = _digest((*members, *hooked))
    return Bundle(
        tuple(members),
        digest,
        tuple(sorted(dropped)),
        tuple(sorted(routes)),
        tuple(sorted(notes)),
        tuple(_bind_to_digest(hook, digest) for hook in hooked),
        target.trusted,
    )


def _drop_kinds(
    manifests: Iterable[ManifestObject],
) -> tuple[list[ManifestObject], set[str], set[str]]:
    """The objects to apply, the dropped ones, and the routes among those."""
    applied: list[ManifestObject] = []
    dropped: set[str] = set()
    routes: set[str] = set()
    for manifest in manifests:
        if kinds.group_kind(manifest.object) in kinds.DROPPED_KINDS:
            dropped.add(field_rules.describe(manifest.object))
        else:
            applied.append(manifest)
        if kinds.group_kind(manifest.object) in kinds.ROUTE_KINDS:
            routes.add(field_rules.describe(manifest.object))
    return applied, dropped, routes


def _nothing_left_message(dropped: set[str], *, is_chart: bool) -> str:
    named = ", ".join(sorted(dropped)[:_NAMED_AT_MOST])
    rest = len(dropped) - _NAMED_AT_MOST
    more = f" and {rest} more" if rest > 0 else ""
    remedy = "values" if is_chart else "path and exclude of the template"
    return f"nothing to apply, because everything is left out: {named}{more}; check the {remedy}"


def _violations(
    manifests: Sequence[ManifestObject], target: BundleTarget, *, is_chart: bool
) -> Iterator[Violation]:
    objects = [manifest.object for manifest in manifests]
    accounts = frozenset(
        field_rules.object_name(obj)
        for obj in objects
        if kinds.group_kind(obj) == ("", "ServiceAccount")
    )
    identities: set[tuple[str, str, str]] = set()
    for manifest in manifests:
        obj = manifest.object
        for violation in _object_violations(obj, accounts, target, is_chart=is_chart):
            yield replace(violation, file=manifest.file)
        identity = (*kinds.group_kind(obj), field_rules.object_name(obj))
        if identity in identities:
            where, why = field_rules.describe(obj), "duplicate object"
            yield Violation("ConfigInvalid", where, why, manifest.file)
        identities.add(identity)


def _object_violations(
    obj: Object, accounts: frozenset[str], target: BundleTarget, *, is_chart: bool
) -> Iterator[Violation]:
    where, allowed = field_rules.describe(obj), kinds.allowed_kind(obj)
    if kinds.is_reserved(kinds.group_kind(obj)[1], field_rules.object_name(obj)):
        text = "this name is reserved for the operator; rename the object"
        yield Violation("NameReserved", where, text)
    elif kinds.current_api_version(obj):
        yield _old_version_violation(obj, kinds.current_api_version(obj))
    elif allowed is None:
        yield _forbidden_kind_violation(
            obj, _REMOVE_FROM_CHART if is_chart else _REMOVE_FROM_MANIFESTS
        )
    elif allowed.is_trusted_only and not target.trusted:
        text = f"kind {allowed.kind} is not allowed in an untrusted Environment; remove it"
        yield Violation("KindNotAllowed", where, text)
    else:
        faults = [
            Violation("ConfigInvalid", f"{where} {path}", why)
            for path, why in shapes.shape_faults(obj)
        ]
        # The rules read fields without type checks, so they need an object without faults.
        yield from faults or (
            *field_rules.field_violations(
                obj, accounts, target.cluster_access, trusted=target.trusted
            ),
            *field_rules.container_violations(obj, target.max_limits),
        )


def _old_version_violation(obj: Object, current: str) -> Violation:
    # Another version has other fields; renaming the version could change the meaning.
    version = field_rules.escape(obj.get("apiVersion"))
    text = f"apiVersion {version} is not supported; rewrite the object for {current}"
    return Violation("ApiVersionNotSupported", field_rules.describe(obj), text)


def _forbidden_kind_violation(obj: Object, remedy: str) -> Violation:
    group, kind = (field_rules.escape(word) for word in kinds.group_kind(obj))
    where = field_rules.describe(obj)
    if not kinds.is_built_in(group):
        text = f"kind {kind} ({group}) is not supported: only built-in kinds are applied"
        return Violation("KindUnknown", where, f"{text}; {remedy}")
    text = f"kind {kind} ({group or 'core'}) is not allowed; {remedy}"
    return Violation("KindNotAllowed", where, text)


def _notes(manifests: Iterable[ManifestObject], namespace: str) -> Iterator[str]:
    for obj in (manifest.object for manifest in manifests):
        named = obj["metadata"].get("namespace")
        if named and named != namespace:
            text = f"{field_rules.describe(obj)} names namespace {field_rules.escape(named)}"
            yield f"{text}; it is applied to the namespace of the Environment instead"


def _sanitize(manifest: ManifestObject, target: BundleTarget, notes: set[str]) -> ManifestObject:
    """The manifest without what it may not contain; a note about that is added to `notes`."""
    obj, note = sanitizer.sanitize_object(
        manifest.object, target.cluster_access, trusted=target.trusted
    )
    if note:
        notes.add(note)
    return replace(manifest, object=obj)


def _build_member(manifest: ManifestObject, target: BundleTarget) -> Member:
    obj = manifest.object
    allowed = ALLOWED_KINDS[kinds.group_kind(obj)]
    desired = labeling.label_object(
        _with_pod_defaults(_encode_secret(obj), target), target.owner, target.namespace
    )
    desired.pop("status", None)
    if desired["kind"] == _KEEPS_OLD_PODS:
        desired = _with_template_hash(desired)
    return Member(
        allowed.gvr, allowed.stage, _with_applied_hash(desired), manifest.file, manifest.hook
    )


def replaces_pods(desired: Object, live: Object) -> bool:
    """Whether a live object has to be recreated, because it keeps pods of an older template."""
    if desired["kind"] != _KEEPS_OLD_PODS:
        return False
    path = ("spec", "template", "metadata", "annotations")
    hashes = [(kinds.map_at(obj, path) or {}).get(TEMPLATE_HASH) for obj in (desired, live)]
    return hashes[0] != hashes[1]


def _with_template_hash(obj: Object) -> Object:
    digest = _hash(obj["spec"]["template"])[:_HASH_CHARS]
    path = ("spec", "template", "metadata", "annotations")
    hashed: Object = labeling.edit_at(
        obj, path, lambda annotations: {**annotations, TEMPLATE_HASH: digest}
    )
    return hashed


def _hook_order(hook: Member) -> tuple[int, Stage, str, str]:
    weight = hook.hook.weight if hook.hook is not None else 0
    # Jobs and Pods by name alone; objects of an earlier stage come first, they may need those.
    kind = "" if hooks.runs_to_completion(hook.object) else hook.kind
    return weight, hook.stage, kind, hook.name


def _bind_to_digest(hook: Member, digest: str) -> Member:
    """The hook with the digest of its bundle on its pods, so that it runs once per bundle."""
    if not hooks.runs_to_completion(hook.object):
        return hook
    binding = {HOOK_OF: digest[:_HASH_CHARS]}
    path = (
        *(ALLOWED_KINDS[kinds.group_kind(hook.object)].template or ()),
        "metadata",
        "annotations",
    )
    spec = {name: value for name, value in hook.object["spec"].items() if name != _TTL_FIELD}
    without_ttl = {**hook.object, "spec": spec}
    return replace(
        hook,
        object=_with_applied_hash(
            labeling.edit_at(without_ttl, path, lambda annotations: {**annotations, **binding})
        ),
    )


def _with_applied_hash(obj: Object) -> Object:
    metadata = obj["metadata"]
    annotations = {
        name: text for name, text in metadata["annotations"].items() if name != APPLIED_HASH
    }
    plain = {**obj, "metadata": {**metadata, "annotations": annotations}}
    applied = {**annotations, APPLIED_HASH: _hash(_without_team(plain))[:_HASH_CHARS]}
    return {**obj, "metadata": {**metadata, "annotations": applied}}


def _encode_secret(obj: Object) -> Object:
    """A Secret with `data` alone, as the server returns it: drift is found by comparison."""
    if obj.get("kind") != "Secret" or "stringData" not in obj:
        return obj
    plain = {
        name: base64.b64encode((text or "").encode()).decode()
        for name, text in (obj["stringData"] or {}).items()
    }
    rest = {name: value for name, value in obj.items() if name != "stringData"}
    return {**rest, "data": {**(obj.get("data") or {}), **plain}}


def _with_pod_defaults(obj: Object, target: BundleTarget) -> Object:
    allowed = kinds.allowed_kind(obj)
    if allowed is None or allowed.template is None:
        return obj
    filled: Object = labeling.edit_at(
        obj,
        (*allowed.template, "spec"),
        lambda spec: pod_defaults.apply_pod_defaults(
            spec, target.default_limits, restricted=target.restricted, placement=target.placement
        ),
    )
    return filled


def _digest(members: Sequence[Member]) -> str:
    return _hash([_without_team(member.object) for member in members])


def _hash(value: JSON) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _without_team(obj: Object) -> Object:
    """The object without its team label: another team restarts nothing."""
    metadata = obj["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name != ownership.TEAM}
    return {**obj, "metadata": {**metadata, "labels": labels}}
