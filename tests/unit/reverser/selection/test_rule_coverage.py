"""Which files no rule covers any more, and which only seem uncovered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.reverser.selection.test_rules import CLUSTER, cluster_rule, served, watch_rule
from windlass.kube.discovery import ApiTypes, ServedType
from windlass.objects.names import GVR, Identity
from windlass.reverser.selection import rule_coverage as selection
from windlass.reverser.selection import rules
from windlass.reverser.selection.rule_coverage import CompiledRule, RuleCoverage
from windlass.reverser.selection.rules import RuleItem, SelectionRule

pytestmark = pytest.mark.scenario("A27")

MAPS = GVR("", "v1", "configmaps")
SERVICES = GVR("", "v1", "services")
WIDGETS = GVR("example.com", "v1", "widgets")
OLD_WIDGETS = GVR("example.com", "v1beta1", "widgets")
GADGETS = GVR("gone.example.com", "v1", "gadgets")
NAMESPACES = GVR("", "v1", "namespaces")
PODS = GVR("", "v1", "pods")


def covering(
    *given: SelectionRule,
    types: tuple[ServedType, ...] = CLUSTER,
    failed: tuple[str, ...] = (),
    excluded: tuple[str, ...] = (),
) -> RuleCoverage:
    """The selected of rules that were compiled against `types`."""
    api_types, hidden = ApiTypes.from_types(types, failed), frozenset(excluded)
    compiled = tuple(
        CompiledRule(1, rule, rules.resolve(rule, api_types, watch_all=False, excluded=hidden))
        for rule in given
    )
    return RuleCoverage(compiled, api_types, excluded=hidden, all_scopes_synced=True)


def named(*resources: str, **more: tuple[str, ...]) -> SelectionRule:
    """A WatchRule of namespace team-a."""
    return watch_rule(RuleItem(resources=resources, **more))  # type: ignore[arg-type]


def why(selected: RuleCoverage, gvr: GVR, namespace: str = "team-a") -> str | None:
    """Why the file of an object called x goes."""
    return selected.removal_reason(Identity(gvr, namespace, "x"), gvr.resource.title())


def test_a_selected_scope_is_covered_and_nothing_else() -> None:
    """A WatchRule covers its own namespace; a cluster rule every one."""
    coverage = covering(named("configmaps"))
    assert why(coverage, MAPS) is None
    assert why(coverage, MAPS, "team-b") == selection.NO_RULE
    assert why(coverage, SERVICES) == selection.NO_RULE
    everywhere = cluster_rule(RuleItem(resources=("services",), scope="Namespaced"))
    assert why(covering(everywhere), SERVICES, "team-b") is None
    assert why(covering(everywhere), NAMESPACES, "") == selection.NO_RULE
    assert why(covering(), MAPS) == selection.NO_RULE


def test_a_rule_that_is_broken_holds_the_files_it_may_cover() -> None:
    """SNP-7: those of its namespace; a cluster rule, or an undecodable one, holds all."""
    unsure = replace(covering(named("configmaps")), uncompiled_namespaces=frozenset({"team-b"}))
    assert why(unsure, SERVICES, "team-b") is None
    assert why(unsure, SERVICES, "team-a") == selection.NO_RULE
    assert why(unsure, NAMESPACES, "") == selection.NO_RULE
    assert why(replace(unsure, has_unknown_rules=True), NAMESPACES, "") is None


def test_a_type_that_is_away_keeps_its_files_as_long_as_a_rule_wants_it() -> None:
    """Not served, or not watchable: the rule still selects it; without the rule the files go."""
    for rule in (named("gadgets"), named("*"), named("gadgets", api_groups=("gone.example.com",))):
        assert why(covering(rule), GADGETS) is None
    assert why(covering(named("configmaps")), GADGETS) == selection.NO_RULE
    assert why(covering(named("gadgets", api_groups=("apps",))), GADGETS) == selection.NO_RULE
    mute = tuple(type_ for type_ in CLUSTER if type_.gvr not in (WIDGETS, OLD_WIDGETS))
    bare = served("example.com/v1/widgets", verbs=frozenset({"get"}))
    assert why(covering(named("widgets"), types=(*mute, bare)), WIDGETS) is None


def test_a_failed_group_proves_nothing() -> None:
    """DSC-1: its files stay, whatever the rules say."""
    failed = covering(named("configmaps"), failed=("gone.example.com/v1",))
    assert why(failed, GADGETS) is None
    assert why(failed, SERVICES) == selection.NO_RULE


def test_files_of_the_old_version_go_once_the_new_one_is_synced() -> None:
    """DSC-5: the files of the old version stay until those of the new one can be there."""
    coverage = covering(named("widgets"))
    assert why(coverage, OLD_WIDGETS) == selection.OTHER_VERSION
    assert why(replace(coverage, all_scopes_synced=False), OLD_WIDGETS) is None
    both = covering(named("widgets", api_versions=("v1", "v1beta1")))
    assert why(both, OLD_WIDGETS) is None


def test_exclusion_has_its_own_reason() -> None:
    """RUL-6: hard exclusion goes although a rule names it; a soft one goes under `*`."""
    coverage = covering(named("configmaps", "services"), excluded=("services",))
    assert why(coverage, SERVICES) == selection.EXCLUDED
    assert why(covering(named("*")), PODS) == selection.NO_RULE
    assert why(covering(named("pods")), PODS) is None


def test_a_kind_that_is_served_is_known_by_its_plurals() -> None:
    """SNP-3: the plural in a path is free only where the kind is not served."""
    coverage = covering(named("configmaps"))
    assert coverage.may_contain(SERVICES, "Services")
    assert not coverage.may_contain(GVR("", "v1", "notes"), "Services")
    assert coverage.may_contain(GADGETS, "Gadgets")
