"""Rules select what they may, and the plan equals a naive search."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies.batched import balanced_column, choices, row, rows
from windlass.kube.discovery import ApiTypes, ServedType
from windlass.objects.names import GVR, Key
from windlass.reverser.file_operation import OPERATIONS, Operation
from windlass.reverser.selection import rules
from windlass.reverser.selection.routes import RoutePlan
from windlass.reverser.selection.rules import RuleItem, RuleResolution, SelectedScope, SelectionRule

GROUPS = ("", "apps", "batch", "example.com", "events.k8s.io")
PLURALS = ("pods", "events", "widgets", "deployments", "cronjobs")
VERSIONS = ("v1", "v1beta1", "v2")

VERBS = (frozenset({"list", "watch"}), frozenset({"list"}))


def _types(drawn: list[tuple[Any, ...]], cluster: list[str]) -> list[ServedType]:
    """Served types, each once; the scope of a plural is the same in all its versions."""
    served = {(group, version, plural): selected for group, version, plural, *selected in drawn}
    return [
        ServedType(GVR(*name), name[2].title(), name[2] not in cluster, *selected)
        for name, selected in served.items()
    ]


type_lists = st.builds(
    _types,
    rows(GROUPS, VERSIONS, PLURALS, VERBS, (False, True), max_size=12),
    choices(PLURALS, max_size=2),
)


def some(values: tuple[str, ...]) -> tuple[tuple[str, ...] | None, ...]:
    """The filters of a rule item: omitted, open or a list."""
    lists = [list(product((*values, "*"), repeat=count)) for count in range(4)]
    return tuple(balanced_column([None], *lists))


OPERATION_SETS = [
    frozenset(chosen)
    for count in range(len(OPERATIONS) + 2)
    for chosen in combinations((*OPERATIONS, "*"), count)
]
rule_lists = rows(
    OPERATION_SETS,
    some(GROUPS),
    some(VERSIONS),
    some(PLURALS),
    (False, True),
    ("Namespaced", "Cluster"),
    min_size=1,
    max_size=3,
    usual=1,
).map(lambda drawn: tuple(RuleItem(*selected) for selected in drawn))
kinds = st.sampled_from(["WatchRule", "ClusterWatchRule"])
exclusions = choices(["widgets", "apps/deployments", "core/pods"], max_size=3).map(frozenset)


@given(type_lists, kinds, rule_lists, st.booleans(), exclusions)
def test_selections_are_always_permitted(
    types: list[ServedType],
    kind: rules.RuleKind,
    listed: tuple[RuleItem, ...],
    watch_all: bool,
    excluded: frozenset[str],
) -> None:
    """RUL-4, RUL-6, 2.3: watchable, not excluded, of the right scope, in the right namespace."""
    rule = SelectionRule(Key("team", "r"), kind, "team", Key("d", "d"), listed)
    catalog = ApiTypes.from_types(types)
    actual = rules.resolve(rule, catalog, watch_all=watch_all, excluded=excluded)
    by_gvr = {one.gvr: one for one in types}
    for selection in actual.scopes:
        one = by_gvr[selection.gvr]
        assert selection.mask
        assert one.verbs >= {"list", "watch"}
        assert not rules.is_never_mirrored(one.gvr)
        assert not one.gvr.is_named_in(excluded)
        assert selection.namespace == ("team" if kind == "WatchRule" else "")
        assert one.namespaced or kind == "ClusterWatchRule"
    assert actual.scopes or actual.unresolved
    assert len(set(actual.unresolved)) == len(actual.unresolved)


@given(type_lists, row(PLURALS, some(GROUPS)), choices(range(60), max_size=12))
def test_named_resources_only_gain_from_more_types(
    types: list[ServedType], selected: tuple[str, tuple[str, ...] | None], numbers: list[int]
) -> None:
    """RUL-1: types of other plurals or groups never remove a named selection."""
    families = sorted({(one.gvr.group, one.gvr.resource) for one in types})
    chosen = {families[number % len(families)] for number in numbers if families}
    plural, groups = selected
    fewer = [one for one in types if (one.gvr.group, one.gvr.resource) in chosen]
    rule = SelectionRule(
        Key("team", "r"),
        "WatchRule",
        "team",
        Key("d", "d"),
        (RuleItem(resources=(plural,), api_groups=groups),),
    )
    small, large = (
        rules.resolve(rule, ApiTypes(tuple(some)), watch_all=False, excluded=frozenset())
        for some in (fewer, types)
    )
    assert set(small.scopes) <= set(large.scopes)


gvrs = [GVR("", "v1", "configmaps"), GVR("apps", "v1", "deployments")]
MASKS = [
    frozenset(chosen)
    for count in range(1, len(OPERATIONS) + 1)
    for chosen in combinations(OPERATIONS, count)
]
DESTINATIONS = (Key("x", "one"), Key("x", "two"), Key("y", "one"))


def _resolved(drawn: list[tuple[Any, ...]]) -> list[tuple[Key, RuleResolution]]:
    return [
        (
            destination,
            RuleResolution(tuple(SelectedScope(*one) for one in batched(selected, 4))[:count]),
        )
        for destination, count, *selected in drawn
    ]


def batched(selected: list[Any], size: int) -> list[list[Any]]:
    """What belongs together."""
    return [selected[at : at + size] for at in range(0, len(selected), size)]


SELECTION = (gvrs, ("", "a", "b"), MASKS, (False, True))
resolved = rows(DESTINATIONS, range(4), *SELECTION * 3, max_size=6).map(_resolved)


def naive(
    rules_given: list[tuple[Key, RuleResolution]], gvr: GVR, namespace: str
) -> dict[Key, tuple[frozenset[Operation], frozenset[Operation]]]:
    """The masks of each destination by evaluating every rule."""
    actual: dict[Key, tuple[frozenset[Operation], frozenset[Operation]]] = {}
    for destination, resolution in rules_given:
        for one in resolution.scopes:
            if one.gvr == gvr and one.namespace in ("", namespace):
                mask, owned = actual.get(destination, (frozenset(), frozenset()))
                more = one.mask if one.include_owned else frozenset()
                actual[destination] = mask | one.mask, owned | more
    return actual


@given(resolved)
def test_routes_equal_a_naive_search(given_rules: list[tuple[Key, RuleResolution]]) -> None:
    """RUL-8, RUL-10: the dictionary equals evaluating every rule."""
    plan = RoutePlan(given_rules)
    for gvr in gvrs:
        for namespace in ("", "a", "b", "c"):
            expected = naive(given_rules, gvr, namespace)
            routes = plan.routes(gvr, namespace)
            assert {one.destination: (one.mask, one.owned_mask) for one in routes} == expected
            assert len(routes) == len(expected)


@given(resolved)
def test_streams_are_all_that_is_needed_and_no_more(
    given_rules: list[tuple[Key, RuleResolution]],
) -> None:
    """ING-1: every selection has exactly one stream, every stream a selection."""
    plan = RoutePlan(given_rules)
    needed = {(one.gvr, one.namespace) for _, actual in given_rules for one in actual.scopes}
    for gvr, namespace in needed:
        assert len({(gvr, namespace), (gvr, "")} & plan.scopes()) == 1
    assert plan.scopes() <= needed
