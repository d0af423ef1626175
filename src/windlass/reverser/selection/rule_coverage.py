"""Which files of a destination are still covered by a rule (SNP-7).

`FolderReviews` builds a `RuleCoverage` of what the rules of one destination select at one moment;
the branch worker removes the files that it does not cover. A file outside the selected scopes is
judged by the object that its content declares:

| The object's | then its file |
|---|---|
| namespace has a rule that could not be compiled, or such a cluster rule exists | stays |
| group could not be discovered | stays |
| scope is selected | stays |
| type is selected in another version | is removed once every selected scope was listed |
| type would be selected if only it were served and could be watched | stays |
| type is none of these | is removed |

So only the spec of a rule, or its deletion, removes a file: a broken rule and a type that is
temporarily not served never do.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.kube.discovery import ApiTypes, ServedType
from windlass.objects.names import GVR, Identity
from windlass.reverser.selection import rules
from windlass.reverser.selection.routes import ScopeKey
from windlass.reverser.selection.rules import RuleResolution, SelectionRule

NO_RULE = "not selected by any rule"
OTHER_VERSION = "mirrored in another API version"
EXCLUDED = "type excluded by --discovery-exclude"

_REQUIRED_VERBS = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule, what it selects, and the generation of the object it was compiled from."""

    generation: int
    rule: SelectionRule
    resolution: RuleResolution


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """What the rules of one destination cover."""

    rules: tuple[CompiledRule, ...]  # of this destination, compiled
    catalog: ApiTypes  # that they were compiled against
    # Namespaces of WatchRules that could not be compiled. Such a rule protects files of its own
    # namespace only, so that it cannot block the removal of files elsewhere.
    uncompiled_namespaces: frozenset[str] = frozenset()
    # Whether a rule could not be compiled that may select anything; then no file is removed.
    has_unknown_rules: bool = False
    # Whether every selected scope has a complete snapshot.
    all_scopes_synced: bool = False
    # Whether the destination had time to get its rules. Until then only files that this process
    # wrote count as uncovered, because a recreated destination gets its rules a moment later.
    grace_expired: bool = True
    watch_all: bool = False  # --watch-all
    excluded: frozenset[str] = frozenset()  # --discovery-exclude

    def scopes(self) -> frozenset[ScopeKey]:
        """All selected scopes."""
        return frozenset(
            (scope.gvr, scope.namespace)
            for compiled in self.rules
            for scope in compiled.resolution.scopes
        )

    def may_contain(self, gvr: GVR, kind: str) -> bool:
        """Whether objects of that kind may be files of that plural; True for unserved kinds."""
        plurals = {
            served.gvr.resource
            for served in self.catalog.types
            if (served.gvr.group, served.kind) == (gvr.group, kind)
        }
        return not plurals or gvr.resource in plurals

    def removal_reason(self, identity: Identity, kind: str) -> str | None:
        """Why the file of `identity` is removed, for the commit body; None if it stays."""
        gvr, namespace = identity.gvr, identity.namespace
        if (
            self.has_unknown_rules
            or namespace in self.uncompiled_namespaces
            or gvr.group in self.catalog.failed_group_names
        ):
            return None
        selected = {
            selected_gvr
            for selected_gvr, selected_namespace in self.scopes()
            if selected_namespace in ("", namespace)
        }
        if gvr in selected:
            return None
        if any((other.group, other.resource) == (gvr.group, gvr.resource) for other in selected):
            # Without a snapshot the file in the other version may not be written yet.
            return OTHER_VERSION if self.all_scopes_synced else None
        if self._would_select(identity, kind):
            return None
        return EXCLUDED if gvr.is_named_in(self.excluded) else NO_RULE

    def _would_select(self, identity: Identity, kind: str) -> bool:
        """Whether a rule would select the type if it were served and could be watched."""
        namespace = identity.namespace
        served = ServedType(identity.gvr, kind, bool(namespace), _REQUIRED_VERBS, preferred=True)
        catalog = ApiTypes.from_types([served])
        return any(
            scope.namespace in ("", namespace)
            for compiled in self.rules
            for scope in rules.resolve(
                compiled.rule, catalog, watch_all=self.watch_all, excluded=self.excluded
            ).scopes
        )
