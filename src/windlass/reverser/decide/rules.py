"""Which scopes a rule selects, and why an entry of it selects none.

Rules are compiled against the catalogue; nothing is inferred from the text of a resource
name (RUL-1). What always holds: a WatchRule selects namespaced types of its own namespace
only; a never-mirrored or hard-excluded type is in no selection; an entry either selects a
type or stands once in `unresolved` with one reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import GVR, Key
from windlass.reverser.decide import preset
from windlass.reverser.decide.catalogue import Catalogue, Family, Type, TypeReason, preferred
from windlass.reverser.decide.transition import OPERATIONS, Operation

RuleKind = Literal["WatchRule", "ClusterWatchRule"]
Reach = Literal["Namespaced", "Cluster"]

_FOLLOWING = frozenset({"list", "watch"})
# Where an entry names several types and all are refused, the first of these is told.
_TELLING: tuple[TypeReason, ...] = (
    "ExcludedByFlag",
    "NeverMirrored",
    "ScopeMismatch",
    "MissingVerb",
    "KindNotUnique",
    "ExcludedByDefault",
)


@dataclass(frozen=True, slots=True)
class RuleItem:
    """One row of `spec.rules`; None, an empty tuple and `*` all mean "not narrowed"."""

    operations: frozenset[str] = frozenset()
    api_groups: tuple[str, ...] | None = None
    api_versions: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    include_owned: bool = False
    scope: Reach | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A WatchRule or ClusterWatchRule whose reference has been followed."""

    key: Key
    kind: RuleKind
    namespace: str
    destination: Key
    items: tuple[RuleItem, ...]


@dataclass(frozen=True, slots=True, order=True)
class Selection:
    """A scope and what is wanted of it; the namespace "" means all of them."""

    gvr: GVR
    namespace: str
    mask: frozenset[Operation]
    include_owned: bool


@dataclass(frozen=True, slots=True, order=True)
class Unresolved:
    """An entry that selects nothing, as its author wrote it."""

    entry: str
    reason: TypeReason


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a rule means today."""

    scopes: tuple[Selection, ...]
    unresolved: tuple[Unresolved, ...] = ()


def resolve(
    rule: Rule, catalogue: Catalogue, *, watch_all: bool, excluded: frozenset[str]
) -> Resolution:
    """The scopes of a rule: RUL-1 to RUL-6; the items are alternatives of each other."""
    masks: dict[tuple[GVR, bool], frozenset[Operation]] = {}
    unresolved: dict[Unresolved, None] = {}
    for item in rule.items:
        compiler = _Compiler(item, _reach(rule, item), catalogue, excluded)
        found, missing = compiler.compiled(watch_all)
        for one in found:
            key = (one.gvr, item.include_owned)
            masks[key] = masks.get(key, frozenset()) | mask(item.operations)
        unresolved.update(dict.fromkeys(missing))
    namespace = rule.namespace if rule.kind == "WatchRule" else ""
    scopes = (
        Selection(gvr, namespace, operations, owned)
        for (gvr, owned), operations in sorted(masks.items(), key=lambda row: row[0])
    )
    return Resolution(tuple(scopes), tuple(unresolved))


def mask(operations: Iterable[str]) -> frozenset[Operation]:
    """The operations of an item; none or `*` means all three (RUL-7)."""
    named = frozenset(operations)
    if not named or "*" in named:
        return frozenset(OPERATIONS)
    return frozenset(one for one in OPERATIONS if one in named)


def refusal(
    one: Type,
    *,
    named: bool,
    reach: Reach | None,
    catalogue: Catalogue,
    excluded: frozenset[str],
) -> TypeReason | None:
    """Why a served type is not selected (RUL-4, RUL-6, DSC-6); None means it is."""
    checks: tuple[tuple[bool, TypeReason], ...] = (
        (preset.hard_excluded(one.gvr, excluded), "ExcludedByFlag"),
        (preset.never_mirrored(one.gvr), "NeverMirrored"),
        (reach != ("Namespaced" if one.namespaced else "Cluster"), "ScopeMismatch"),
        (not one.verbs >= _FOLLOWING, "MissingVerb"),
        (one.gvk in catalogue.ambiguous_kinds, "KindNotUnique"),
        (not named and preset.softly_excluded(one.gvr), "ExcludedByDefault"),
    )
    return next((reason for refused, reason in checks if refused), None)


def _reach(rule: Rule, item: RuleItem) -> Reach | None:
    return "Namespaced" if rule.kind == "WatchRule" else item.scope


def _open(names: Sequence[str] | None) -> bool:
    return not names or "*" in names


def _wants(names: Sequence[str] | None, name: str) -> bool:
    return _open(names) or name in (names or ())


def versions(family: Family, wanted: Sequence[str] | None) -> Family:
    """RUL-3: the preferred version, or each listed one; one object, one file otherwise."""
    if _open(wanted):
        return (preferred(family),)
    return tuple(one for one in family if one.gvr.version in (wanted or ()))


@dataclass(frozen=True, slots=True)
class _Compiler:
    item: RuleItem
    reach: Reach | None
    catalogue: Catalogue
    excluded: frozenset[str]

    def compiled(self, watch_all: bool) -> tuple[list[Type], list[Unresolved]]:
        if not self.item.resources:
            return self._everything("*") if watch_all else self._preset()
        found: list[Type] = []
        missing: list[Unresolved] = []
        for entry in self.item.resources:
            types, rows = self._everything(entry) if entry == "*" else self._named(entry)
            found += types
            missing += rows
        return found, missing

    def _named(self, entry: str) -> tuple[list[Type], list[Unresolved]]:
        found, reasons = self._chosen(self.catalogue.families(entry), named=True)
        if found:
            return found, []
        if told := _most_telling(reasons):
            return [], [Unresolved(self._text(entry), told)]
        return [], [self._absence(entry)]

    def _everything(self, entry: str) -> tuple[list[Type], list[Unresolved]]:
        found, reasons = self._chosen(self.catalogue.every_family(), named=False)
        return found, self._gaps(found, reasons, self._text(entry), lambda group: True)

    def _preset(self) -> tuple[list[Type], list[Unresolved]]:
        families = (
            family
            for group, plural in preset.PRESET
            for family in self.catalogue.families(plural)
            if family[0].gvr.group == group
        )
        found, reasons = self._chosen(families, named=True)
        groups = {group for group, _ in preset.PRESET}
        return found, self._gaps(found, reasons, "preset", groups.__contains__)

    def _chosen(
        self, families: Iterable[Family], *, named: bool
    ) -> tuple[list[Type], set[TypeReason]]:
        found: list[Type] = []
        reasons: set[TypeReason] = set()
        for family in families:
            if not _wants(self.item.api_groups, family[0].gvr.group):
                continue
            for one in versions(family, self.item.api_versions):
                reason = self._refusal(one, named)
                if reason is None:
                    found.append(one)
                else:
                    reasons.add(reason)
        return found, reasons

    def _refusal(self, one: Type, named: bool) -> TypeReason | None:
        return refusal(
            one,
            named=named,
            reach=self.reach,
            catalogue=self.catalogue,
            excluded=self.excluded,
        )

    def _gaps(
        self,
        found: list[Type],
        reasons: set[TypeReason],
        entry: str,
        concerns: Callable[[str], bool],
    ) -> list[Unresolved]:
        """What an open entry may miss: failed groups hide types nobody can name."""
        hidden = [group for group in sorted(self._failed_groups()) if concerns(group)]
        rows = [Unresolved(f"{group or 'core'}/*", "DiscoveryDegraded") for group in hidden]
        if not found and not rows:
            rows.append(Unresolved(entry, _most_telling(reasons) or "NotServed"))
        return rows

    def _absence(self, entry: str) -> Unresolved:
        if "/" in entry or self._below_parent_only(entry):
            return Unresolved(self._text(entry), "SubresourceOnly")
        # Without a named group every failed one might serve it, and every typo would be its fault.
        named = () if _open(self.item.api_groups) else sorted(self._failed_groups())
        if named:
            return Unresolved(f"{named[0] or 'core'}/{entry}", "DiscoveryDegraded")
        return Unresolved(self._text(entry), "NotServed")

    def _below_parent_only(self, entry: str) -> bool:
        return any(
            gvr.resource.lower() == entry.lower() and _wants(self.item.api_groups, gvr.group)
            for gvr in self.catalogue.subresource_only
        )

    def _failed_groups(self) -> set[str]:
        return {one for one in self.catalogue.failed if _wants(self.item.api_groups, one)}

    def _text(self, entry: str) -> str:
        groups = self.item.api_groups
        if groups and len(groups) == 1 and groups[0] not in ("", "*"):
            return f"{groups[0]}/{entry}"
        return entry


def _most_telling(reasons: set[TypeReason]) -> TypeReason | None:
    return next((reason for reason in _TELLING if reason in reasons), None)
