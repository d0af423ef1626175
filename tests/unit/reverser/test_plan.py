"""What the compiled plan streams and where it sends objects."""

from __future__ import annotations

from windlass.objects.gvr import GVR
from windlass.objects.key import Key
from windlass.reverser.decide.plan import Plan, Route
from windlass.reverser.decide.rules import Resolution, Selection
from windlass.reverser.decide.transition import Operation

CONFIGMAPS = GVR("", "v1", "configmaps")
ROLES = GVR("rbac.authorization.k8s.io", "v1", "clusterroles")
ONE, TWO = Key("platform", "one"), Key("team", "two")
ALL: frozenset[Operation] = frozenset({"CREATE", "UPDATE", "DELETE"})
CREATE: frozenset[Operation] = frozenset({"CREATE"})
DELETE: frozenset[Operation] = frozenset({"DELETE"})


def scope(
    namespace: str, mask: frozenset[Operation] = ALL, *, owned: bool = False, gvr: GVR = CONFIGMAPS
) -> Resolution:
    """A resolution of one scope."""
    return Resolution((Selection(gvr, namespace, mask, owned),))


def test_cluster_wide_stream_replaces_those_of_namespaces() -> None:
    """ING-1, RUL-10: one stream serves both rules, and neither hides the other."""
    plan = Plan([(ONE, scope("a")), (TWO, scope(""))])
    assert plan.scopes() == {(CONFIGMAPS, "")}
    assert [route.destination for route in plan.routes(CONFIGMAPS, "a")] == [ONE, TWO]
    assert [route.destination for route in plan.routes(CONFIGMAPS, "b")] == [TWO]


def test_namespaces_have_streams_of_their_own() -> None:
    """ING-1: without a cluster-wide need each namespace has its stream."""
    plan = Plan([(ONE, scope("a")), (TWO, scope("b")), (TWO, scope("a"))])
    assert plan.scopes() == {(CONFIGMAPS, "a"), (CONFIGMAPS, "b")}
    assert plan.routes(CONFIGMAPS, "c") == ()


def test_many_namespaces_collapse_where_allowed() -> None:
    """ING-2: above the limit one stream takes over, if we may list everywhere."""
    rules = [(ONE, scope(name)) for name in "abc"]
    wide = frozenset({CONFIGMAPS})
    assert Plan(rules, collapse_above=2, cluster_wide=wide).scopes() == {(CONFIGMAPS, "")}
    assert len(Plan(rules, collapse_above=3, cluster_wide=wide).scopes()) == 3
    assert len(Plan(rules, collapse_above=2).scopes()) == 3


def test_collapsed_stream_does_not_widen_routes() -> None:
    """ING-2: objects of a namespace nobody selected go nowhere."""
    rules = [(ONE, scope(name)) for name in "abc"]
    plan = Plan(rules, collapse_above=1, cluster_wide=frozenset({CONFIGMAPS}))
    assert plan.routes(CONFIGMAPS, "z") == ()


def test_masks_of_one_destination_are_united() -> None:
    """RUL-7: several rules on one object make one route with all their operations."""
    plan = Plan([(ONE, scope("a", CREATE)), (ONE, scope("", DELETE))])
    assert plan.routes(CONFIGMAPS, "a") == (Route(ONE, CREATE | DELETE),)
    assert plan.routes(CONFIGMAPS, "b") == (Route(ONE, DELETE),)


def test_owned_objects_have_the_masks_of_rules_that_include_them() -> None:
    """SAN-9: only rules with includeOwned speak for owned objects."""
    (route,) = Plan([(ONE, scope("a", CREATE, owned=True)), (ONE, scope("a", DELETE))]).routes(
        CONFIGMAPS, "a"
    )
    assert route.include_owned
    assert route.mask_for(owned=True) == CREATE
    assert route.mask_for(owned=False) == CREATE | DELETE


def test_destination_without_include_owned_has_no_mask_for_them() -> None:
    """SAN-9: owned objects are skipped by default."""
    (route,) = Plan([(ONE, scope("a"))]).routes(CONFIGMAPS, "a")
    assert not route.include_owned
    assert route.mask_for(owned=True) == frozenset()


def test_difference_names_only_what_changed() -> None:
    """RUL-9: scopes that stay are in neither part."""
    before = Plan([(ONE, scope("a")), (ONE, scope("", gvr=ROLES))])
    after = Plan([(ONE, scope("b")), (TWO, scope("", gvr=ROLES))])
    assert after.difference(before) == (
        frozenset({(CONFIGMAPS, "b")}),
        frozenset({(CONFIGMAPS, "a")}),
    )
    assert after.difference(after) == (frozenset(), frozenset())


def test_cover_is_by_destination_and_namespace() -> None:
    """SNP-7: a scope is covered if any rule of that destination selects it."""
    plan = Plan([(ONE, scope("a", CREATE)), (TWO, scope(""))])
    assert plan.covers(ONE, CONFIGMAPS, "a")
    assert not plan.covers(ONE, CONFIGMAPS, "b")
    assert plan.covers(TWO, CONFIGMAPS, "b")
    assert not plan.covers(TWO, ROLES, "")


def test_sweeps_of_a_shared_stream_are_per_namespace() -> None:
    """ING-2: snapshots and sweeps remain per (type, namespace) on a cluster-wide stream."""
    plan = Plan([(ONE, scope("a", CREATE)), (TWO, scope("")), (ONE, scope("b"))])
    assert plan.covered(CONFIGMAPS, "") == (
        (TWO, "", ALL),
        (ONE, "a", CREATE),
        (ONE, "b", ALL),
    )
    assert plan.covered(CONFIGMAPS, "a") == ((ONE, "a", CREATE),)
    assert plan.covered(ROLES, "") == ()


def test_destinations_know_their_scopes() -> None:
    """RUL-8: what one destination needs is found without looking at the others."""
    plan = Plan([(ONE, scope("a")), (TWO, scope(""))])
    assert plan.destinations() == {ONE, TWO}
    assert plan.selected(ONE) == {(CONFIGMAPS, "a")}
    assert plan.selected(Key("x", "y")) == frozenset()
