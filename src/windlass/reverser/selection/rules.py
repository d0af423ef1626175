"""Resolves a watch rule against the type catalog: selected scopes and unresolved entries.

Nothing is inferred from the text of a resource name (RUL-1). What always holds: a WatchRule
selects namespaced types of its own namespace only; a never-mirrored or flag-excluded type is in
no selection; an entry either selects a type or is listed once in `unresolved` with one reason.

Types that a rule does not name fall under three classes of exclusion (RUL-6):

| Class | Gives way to | Checked |
|---|---|---|
| excluded by flag (--discovery-exclude) | nothing: the administrator decides | first |
| never mirrored | nothing | second |
| excluded by default | a rule that names the plural | last |

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.api.kinds import watchrules
from windlass.kube.discovery import ApiTypes, ServedType, TypeFamily
from windlass.objects.names import GVR, Key
from windlass.reverser.file_operation import OPERATIONS, Operation

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
"""DSC-6: why an entry of a rule selects nothing, as its status reports it."""

_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?\Z")
_STABILITY = {"alpha": 0, "beta": 1, None: 2}
"""Rank of the stability in a version name; without a suffix it is stable."""

PRESET: tuple[tuple[str, str], ...] = tuple(
    (preset.group, preset.resource) for preset in watchrules.PRESET
)
"""RUL-5: what a rule item without `resources` means, as (group, plural)."""

EXCLUDED_BY_DEFAULT: frozenset[tuple[str, str]] = frozenset(
    {
        ("", "pods"),
        ("", "endpoints"),
        ("discovery.k8s.io", "endpointslices"),
        ("apps", "controllerrevisions"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
    }
)

NEVER_MIRRORED: frozenset[tuple[str, str]] = frozenset(
    {
        ("", "events"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
    }
)


def is_excluded_by_default(gvr: GVR) -> bool:
    """RUL-6 soft: not selected by `*` and --watch-all, but by its name."""
    return (gvr.group, gvr.resource) in EXCLUDED_BY_DEFAULT


def is_never_mirrored(gvr: GVR) -> bool:
    """RUL-6 never: heartbeats and expiring data, which have no desired state."""
    return (gvr.group, gvr.resource) in NEVER_MIRRORED


RuleKind = Literal["WatchRule", "ClusterWatchRule"]
TypeScope = Literal["Namespaced", "Cluster"]

_REQUIRED_VERBS = frozenset({"list", "watch"})
# Where an entry names several types and all are refused, the first of these is reported.
_REASON_PRECEDENCE: tuple[TypeReason, ...] = (
    "ExcludedByFlag",
    "NeverMirrored",
    "ScopeMismatch",
    "MissingVerb",
    "KindNotUnique",
    "ExcludedByDefault",
)


@dataclass(frozen=True, slots=True)
class RuleItem:
    """One item of `spec.rules`; None, an empty tuple and `*` all mean "not narrowed"."""

    operations: frozenset[str] = frozenset()  # CREATE, UPDATE, DELETE
    api_groups: tuple[str, ...] | None = None  # "" is the core group
    api_versions: tuple[str, ...] | None = None  # unset: the preferred version of each type
    resources: tuple[str, ...] | None = None  # plurals; unset: the preset, or all (--watch-all)
    include_owned: bool = False  # whether controller-owned objects are selected, too
    scope: TypeScope | None = None  # of a ClusterWatchRule only


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """A WatchRule or ClusterWatchRule whose destination reference is resolved."""

    key: Key
    kind: RuleKind
    namespace: str
    destination: Key
    items: tuple[RuleItem, ...]


@dataclass(frozen=True, slots=True, order=True)
class SelectedScope:
    """A type in a namespace ("" means all) with the selected operations."""

    gvr: GVR
    namespace: str
    mask: frozenset[Operation]
    include_owned: bool


@dataclass(frozen=True, slots=True, order=True)
class Unresolved:
    """An entry that selects nothing, as the rule spells it."""

    entry: str
    reason: TypeReason


@dataclass(frozen=True, slots=True)
class RuleResolution:
    """What a rule selects from the present catalog, and which entries select nothing."""

    scopes: tuple[SelectedScope, ...]
    unresolved: tuple[Unresolved, ...] = ()

    @property
    def watched(self) -> tuple[tuple[GVR, str], ...]:
        """The selected types with their namespaces, each once.

        Items with and without includeOwned select scopes of their own for the same type.
        """
        return tuple(dict.fromkeys((scope.gvr, scope.namespace) for scope in self.scopes))


def resolve(
    rule: SelectionRule, catalog: ApiTypes, *, watch_all: bool, excluded: frozenset[str]
) -> RuleResolution:
    """The scopes of a rule: RUL-1 to RUL-6; the items are alternatives of each other."""
    masks: dict[tuple[GVR, bool], frozenset[Operation]] = {}
    unresolved: dict[Unresolved, None] = {}
    for item in rule.items:
        resolver = _ItemResolver(item, _type_scope(rule, item), catalog, excluded)
        selected, missing = resolver.resolve(watch_all)
        for selected_type in selected:
            key = (selected_type.gvr, item.include_owned)
            masks[key] = masks.get(key, frozenset()) | operation_mask(item.operations)
        unresolved.update(dict.fromkeys(missing))
    namespace = rule.namespace if rule.kind == "WatchRule" else ""
    scopes = (
        SelectedScope(gvr, namespace, operations, owned)
        for (gvr, owned), operations in sorted(masks.items(), key=lambda row: row[0])
    )
    return RuleResolution(tuple(scopes), tuple(unresolved))


def operation_mask(operations: Iterable[str]) -> frozenset[Operation]:
    """The operations of an item; none or `*` means all three (RUL-7)."""
    named = frozenset(operations)
    if not named or "*" in named:
        return frozenset(OPERATIONS)
    return frozenset(operation for operation in OPERATIONS if operation in named)


def refusal_reason(
    candidate: ServedType,
    *,
    named: bool,
    scope: TypeScope | None,
    catalog: ApiTypes,
    excluded: frozenset[str],
) -> TypeReason | None:
    """Why a served type is not selected (RUL-4, RUL-6, DSC-6); None means it is.

    `named` says that the rule names its plural, instead of selecting it by `*`.
    """
    checks: tuple[tuple[bool, TypeReason], ...] = (
        (candidate.gvr.is_named_in(excluded), "ExcludedByFlag"),
        (is_never_mirrored(candidate.gvr), "NeverMirrored"),
        (scope != ("Namespaced" if candidate.namespaced else "Cluster"), "ScopeMismatch"),
        (not candidate.verbs >= _REQUIRED_VERBS, "MissingVerb"),
        (candidate.gvk in catalog.shared_kinds, "KindNotUnique"),
        (not named and is_excluded_by_default(candidate.gvr), "ExcludedByDefault"),
    )
    return next((reason for refused, reason in checks if refused), None)


def _type_scope(rule: SelectionRule, item: RuleItem) -> TypeScope | None:
    return "Namespaced" if rule.kind == "WatchRule" else item.scope


def _is_unrestricted(names: Sequence[str] | None) -> bool:
    return not names or "*" in names


def _matches(names: Sequence[str] | None, name: str) -> bool:
    return _is_unrestricted(names) or name in (names or ())


def select_versions(family: TypeFamily, versions: Sequence[str] | None) -> TypeFamily:
    """RUL-3: each listed version, or else the preferred one, so that an object has one file."""
    if _is_unrestricted(versions):
        return (preferred_version(family),)
    return tuple(served for served in family if served.gvr.version in (versions or ()))


@dataclass(frozen=True, slots=True)
class _ItemResolver:
    """Resolves one rule item: the types it selects, and its entries that select none."""

    item: RuleItem
    scope: TypeScope | None
    catalog: ApiTypes
    excluded: frozenset[str]

    def resolve(self, watch_all: bool) -> tuple[list[ServedType], list[Unresolved]]:
        if not self.item.resources:
            return self._all_types("*") if watch_all else self._preset()
        selected: list[ServedType] = []
        unresolved: list[Unresolved] = []
        for entry in self.item.resources:
            types, rows = self._all_types(entry) if entry == "*" else self._named_type(entry)
            selected += types
            unresolved += rows
        return selected, unresolved

    def _named_type(self, entry: str) -> tuple[list[ServedType], list[Unresolved]]:
        selected, reasons = self._select(self.catalog.families(entry), named=True)
        if selected:
            return selected, []
        if reason := _most_specific(reasons):
            return [], [Unresolved(self._entry_text(entry), reason)]
        return [], [self._not_served(entry)]

    def _all_types(self, entry: str) -> tuple[list[ServedType], list[Unresolved]]:
        selected, reasons = self._select(self.catalog.all_families(), named=False)
        return selected, self._gaps(selected, reasons, self._entry_text(entry), lambda group: True)

    def _preset(self) -> tuple[list[ServedType], list[Unresolved]]:
        families = (
            family
            for group, plural in PRESET
            for family in self.catalog.families(plural)
            if family[0].gvr.group == group
        )
        selected, reasons = self._select(families, named=True)
        groups = {group for group, _ in PRESET}
        return selected, self._gaps(selected, reasons, "preset", groups.__contains__)

    def _select(
        self, families: Iterable[TypeFamily], *, named: bool
    ) -> tuple[list[ServedType], set[TypeReason]]:
        """The types of `families` that are selected, and why the others are not."""
        selected: list[ServedType] = []
        reasons: set[TypeReason] = set()
        for family in families:
            if not _matches(self.item.api_groups, family[0].gvr.group):
                continue
            for candidate in select_versions(family, self.item.api_versions):
                reason = self._refusal(candidate, named)
                if reason is None:
                    selected.append(candidate)
                else:
                    reasons.add(reason)
        return selected, reasons

    def _refusal(self, candidate: ServedType, named: bool) -> TypeReason | None:
        return refusal_reason(
            candidate,
            named=named,
            scope=self.scope,
            catalog=self.catalog,
            excluded=self.excluded,
        )

    def _gaps(
        self,
        selected: list[ServedType],
        reasons: set[TypeReason],
        entry: str,
        is_relevant: Callable[[str], bool],
    ) -> list[Unresolved]:
        """What an open entry may miss: a failed group hides types whose names are unknown."""
        hidden = [group for group in sorted(self._failed_groups()) if is_relevant(group)]
        rows = [Unresolved(f"{group or 'core'}/*", "DiscoveryDegraded") for group in hidden]
        if not selected and not rows:
            rows.append(Unresolved(entry, _most_specific(reasons) or "NotServed"))
        return rows

    def _not_served(self, entry: str) -> Unresolved:
        """Why no served type has that plural."""
        if "/" in entry or self._is_subresource_only(entry):
            return Unresolved(self._entry_text(entry), "SubresourceOnly")
        # Without a named group any failed one might serve it, and every typo would be blamed on
        # discovery.
        failed = () if _is_unrestricted(self.item.api_groups) else sorted(self._failed_groups())
        if failed:
            return Unresolved(f"{failed[0] or 'core'}/{entry}", "DiscoveryDegraded")
        return Unresolved(self._entry_text(entry), "NotServed")

    def _is_subresource_only(self, entry: str) -> bool:
        return any(
            gvr.resource.lower() == entry.lower() and _matches(self.item.api_groups, gvr.group)
            for gvr in self.catalog.subresource_only
        )

    def _failed_groups(self) -> set[str]:
        return {
            group
            for group in self.catalog.failed_group_names
            if _matches(self.item.api_groups, group)
        }

    def _entry_text(self, entry: str) -> str:
        """The entry for the status, with its group where the item names exactly one."""
        groups = self.item.api_groups
        if groups and len(groups) == 1 and groups[0] not in ("", "*"):
            return f"{groups[0]}/{entry}"
        return entry


def _most_specific(reasons: set[TypeReason]) -> TypeReason | None:
    return next((reason for reason in _REASON_PRECEDENCE if reason in reasons), None)


def preferred_version(family: TypeFamily) -> ServedType:
    """RUL-3: the version in which a plural is mirrored unless a rule names others.

    Discovery prefers a version of the group; a plural which that version lacks is taken in
    its most stable and newest one, as Kubernetes ranks versions.
    """
    preferred = next((version for version in family if version.preferred), None)
    return preferred or max(family, key=lambda version: _version_rank(version.gvr.version))


def _version_rank(version: str) -> tuple[int, int, int]:
    match = _VERSION.match(version)
    if match is None:
        return -1, 0, 0
    major, stability, minor = match.groups()
    return _STABILITY[stability], int(major), int(minor or 0)
