"""Which files of a destination are still covered by a rule (SNP-7).

`RuleCoverage` is what the rules of one destination select at one moment. A file outside their
scopes is judged by the object that its content declares:

| The object's | then its file |
|---|---|
| namespace has a rule that could not be compiled, or such a cluster rule exists | stays |
| group could not be discovered | stays |
| scope is selected | stays |
| type is selected in another version | goes once every selected scope was listed |
| type would be selected if only it were served and could be watched | stays |
| type is none of these | goes |

So only the text of a rule, or its absence, removes a file: a rule that is broken, and a
type that is away for a moment, never do.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.names import GVR, Identity
from windlass.reverser.selection import rules
from windlass.reverser.selection.routes import ScopeKey
from windlass.reverser.selection.rules import RuleResolution, SelectionRule
from windlass.reverser.selection.type_catalog import ResourceType, TypeCatalog

NO_RULE = "no rule selects it"
OTHER_VERSION = "its type is mirrored in another version"
EXCLUDED = "its type is excluded by --discovery-exclude"

_REQUIRED_VERBS = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule, what it selects, and the generation of the object it was made from."""

    generation: int
    rule: SelectionRule
    resolution: RuleResolution


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """What the rules of one destination cover.

    `unsure` are the namespaces of WatchRules that could not be compiled: they cover files of
    their own namespace only, so nobody can hold up the files of others by a broken rule.
    `blind` says that rules are unknown whose reach nobody knows. `settled` says that every
    selected scope was seen completely, `grown` that the destination had time to get its rules:
    until then only files of this process count as uncovered, because whoever makes a
    destination anew makes its rules a moment later.
    """

    rules: tuple[CompiledRule, ...]
    catalog: TypeCatalog
    uncompiled_namespaces: frozenset[str] = frozenset()
    has_unknown_rules: bool = False
    all_scopes_synced: bool = False
    grace_expired: bool = True
    watch_all: bool = False
    excluded: frozenset[str] = frozenset()

    def scopes(self) -> frozenset[ScopeKey]:
        """Everything that is selected."""
        return frozenset(
            (one.gvr, one.namespace) for item in self.rules for one in item.resolution.scopes
        )

    def may_contain(self, gvr: GVR, kind: str) -> bool:
        """Whether objects of that kind have files under that plural, as far as anybody knows."""
        served = {
            one.gvr.resource
            for one in self.catalog.types
            if (one.gvr.group, one.kind) == (gvr.group, kind)
        }
        return not served or gvr.resource in served

    def removal_reason(self, identity: Identity, kind: str) -> str | None:
        """Why the file of `identity` goes, in words; None if it stays."""
        gvr, namespace = identity.gvr, identity.namespace
        if (
            self.has_unknown_rules
            or namespace in self.uncompiled_namespaces
            or gvr.group in self.catalog.failed_group_names
        ):
            return None
        selected = {one for one, where in self.scopes() if where in ("", namespace)}
        if gvr in selected:
            return None
        if any((one.group, one.resource) == (gvr.group, gvr.resource) for one in selected):
            return OTHER_VERSION if self.all_scopes_synced else None
        if self._would_select(identity, kind):
            return None
        return EXCLUDED if rules.is_excluded_by_flag(gvr, self.excluded) else NO_RULE

    def _would_select(self, identity: Identity, kind: str) -> bool:
        """Whether a rule wants the type, served or not."""
        namespace = identity.namespace
        one = ResourceType(identity.gvr, kind, bool(namespace), _REQUIRED_VERBS, preferred=True)
        only = TypeCatalog.from_types([one])
        return any(
            scope.namespace in ("", namespace)
            for item in self.rules
            for scope in rules.resolve(
                item.rule, only, watch_all=self.watch_all, excluded=self.excluded
            ).scopes
        )
