"""Rules select what they may, and the plan finds what a naive search finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.objects.gvr import GVR
from windlass.objects.key import Key
from windlass.reverser.decide import preset, rules
from windlass.reverser.decide.catalogue import Catalogue, Type
from windlass.reverser.decide.plan import Plan
from windlass.reverser.decide.rules import Resolution, Rule, RuleItem, Selection
from windlass.reverser.decide.transition import OPERATIONS, Operation

GROUPS = ("", "apps", "batch", "example.com", "events.k8s.io")
PLURALS = ("pods", "events", "widgets", "deployments", "cronjobs")
VERSIONS = ("v1", "v1beta1", "v2")

names = st.tuples(st.sampled_from(GROUPS), st.sampled_from(VERSIONS), st.sampled_from(PLURALS))


@st.composite
def type_lists(draw: st.DrawFn) -> list[Type]:
    """Served types, each once; the scope of a plural is the same in all its versions."""
    cluster = draw(st.sets(st.sampled_from(PLURALS), max_size=2))
    verbs = st.sampled_from([frozenset({"list", "watch"}), frozenset({"list"})])
    return [
        Type(GVR(*name), name[2].title(), name[2] not in cluster, draw(verbs), draw(st.booleans()))
        for name in draw(st.lists(names, unique=True, max_size=12))
    ]


def some(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...] | None]:
    """A filter of a rule item: omitted, open or a list."""
    return st.none() | st.lists(st.sampled_from((*values, "*")), max_size=3).map(tuple)


operations = st.frozensets(st.sampled_from((*OPERATIONS, "*")))
scopes = st.sampled_from(["Namespaced", "Cluster"])
items = st.builds(
    RuleItem, operations, some(GROUPS), some(VERSIONS), some(PLURALS), st.booleans(), scopes
)
rule_lists = st.lists(items, min_size=1, max_size=3).map(tuple)
kinds = st.sampled_from(["WatchRule", "ClusterWatchRule"])
exclusions = st.frozensets(st.sampled_from(["widgets", "apps/deployments", "core/pods"]))


@given(type_lists(), kinds, rule_lists, st.booleans(), exclusions)
def test_selections_are_always_permitted(
    types: list[Type],
    kind: rules.RuleKind,
    listed: tuple[RuleItem, ...],
    watch_all: bool,
    excluded: frozenset[str],
) -> None:
    """RUL-4, RUL-6, 2.3: followable, not excluded, of the right scope, at home."""
    rule = Rule(Key("team", "r"), kind, "team", Key("d", "d"), listed)
    catalogue = Catalogue.of(types)
    found = rules.resolve(rule, catalogue, watch_all=watch_all, excluded=excluded)
    by_gvr = {one.gvr: one for one in types}
    for selection in found.scopes:
        one = by_gvr[selection.gvr]
        assert selection.mask
        assert one.verbs >= {"list", "watch"}
        assert not preset.never_mirrored(one.gvr)
        assert not preset.hard_excluded(one.gvr, excluded)
        assert selection.namespace == ("team" if kind == "WatchRule" else "")
        assert one.namespaced or kind == "ClusterWatchRule"
    assert found.scopes or found.unresolved
    assert len(set(found.unresolved)) == len(found.unresolved)


@given(type_lists(), st.sampled_from(PLURALS), some(GROUPS), st.data())
def test_named_resources_only_gain_from_more_types(
    types: list[Type], plural: str, groups: tuple[str, ...] | None, data: st.DataObject
) -> None:
    """RUL-1: types of other plurals or groups never take a named selection away."""
    families = sorted({(one.gvr.group, one.gvr.resource) for one in types})
    chosen = set(data.draw(st.lists(st.sampled_from(families))) if families else [])
    fewer = [one for one in types if (one.gvr.group, one.gvr.resource) in chosen]
    rule = Rule(
        Key("team", "r"),
        "WatchRule",
        "team",
        Key("d", "d"),
        (RuleItem(resources=(plural,), api_groups=groups),),
    )
    small, large = (
        rules.resolve(rule, Catalogue(tuple(some)), watch_all=False, excluded=frozenset())
        for some in (fewer, types)
    )
    assert set(small.scopes) <= set(large.scopes)


gvrs = [GVR("", "v1", "configmaps"), GVR("apps", "v1", "deployments")]
namespaces = st.sampled_from(["", "a", "b"])
masks = st.frozensets(st.sampled_from(OPERATIONS), min_size=1)
selections = st.builds(Selection, st.sampled_from(gvrs), namespaces, masks, st.booleans())
destinations = st.sampled_from([Key("x", "one"), Key("x", "two"), Key("y", "one")])
resolved = st.lists(
    st.tuples(destinations, st.lists(selections, max_size=3).map(tuple).map(Resolution)),
    max_size=6,
)


def naive(
    rules_given: list[tuple[Key, Resolution]], gvr: GVR, namespace: str
) -> dict[Key, tuple[frozenset[Operation], frozenset[Operation]]]:
    """The masks of each destination by asking every rule."""
    found: dict[Key, tuple[frozenset[Operation], frozenset[Operation]]] = {}
    for destination, resolution in rules_given:
        for one in resolution.scopes:
            if one.gvr == gvr and one.namespace in ("", namespace):
                mask, owned = found.get(destination, (frozenset(), frozenset()))
                more = one.mask if one.include_owned else frozenset()
                found[destination] = mask | one.mask, owned | more
    return found


@given(resolved)
def test_routes_equal_a_naive_search(given_rules: list[tuple[Key, Resolution]]) -> None:
    """RUL-8, RUL-10: the dictionary finds what asking every rule finds."""
    plan = Plan(given_rules)
    for gvr in gvrs:
        for namespace in ("", "a", "b", "c"):
            expected = naive(given_rules, gvr, namespace)
            routes = plan.routes(gvr, namespace)
            assert {one.destination: (one.mask, one.owned_mask) for one in routes} == expected
            assert len(routes) == len(expected)


@given(resolved)
def test_streams_are_all_that_is_needed_and_no_more(
    given_rules: list[tuple[Key, Resolution]],
) -> None:
    """ING-1: every selection has exactly one stream, every stream a selection."""
    plan = Plan(given_rules)
    wanted = {(one.gvr, one.namespace) for _, found in given_rules for one in found.scopes}
    for gvr, namespace in wanted:
        assert len({(gvr, namespace), (gvr, "")} & plan.scopes()) == 1
    assert plan.scopes() <= wanted
