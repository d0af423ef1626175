"""What the compiled plan streams and where it sends objects."""

from __future__ import annotations

from windlass.objects.names import GVR, Key
from windlass.reverser.file_operation import Operation
from windlass.reverser.selection.routes import Route, RoutePlan
from windlass.reverser.selection.rules import RuleResolution, SelectedScope

CONFIGMAPS = GVR("", "v1", "configmaps")
ROLES = GVR("rbac.authorization.k8s.io", "v1", "clusterroles")
ONE, TWO = Key("platform", "one"), Key("team", "two")
ALL: frozenset[Operation] = frozenset({"CREATE", "UPDATE", "DELETE"})
CREATE: frozenset[Operation] = frozenset({"CREATE"})
DELETE: frozenset[Operation] = frozenset({"DELETE"})


def scope(
    namespace: str, mask: frozenset[Operation] = ALL, *, owned: bool = False, gvr: GVR = CONFIGMAPS
) -> RuleResolution:
    """A resolution of one scope."""
    return RuleResolution((SelectedScope(gvr, namespace, mask, owned),))


def test_cluster_wide_stream_replaces_those_of_namespaces() -> None:
    """ING-1, RUL-10: one stream serves both rules, and neither hides the other."""
    plan = RoutePlan([(ONE, scope("a")), (TWO, scope(""))])
    assert plan.scopes() == {(CONFIGMAPS, "")}
    assert [route.destination for route in plan.routes(CONFIGMAPS, "a")] == [ONE, TWO]
    assert [route.destination for route in plan.routes(CONFIGMAPS, "b")] == [TWO]


def test_namespaces_have_streams_of_their_own() -> None:
    """ING-1: without a cluster-wide need each namespace has its stream."""
    plan = RoutePlan([(ONE, scope("a")), (TWO, scope("b")), (TWO, scope("a"))])
    assert plan.scopes() == {(CONFIGMAPS, "a"), (CONFIGMAPS, "b")}
    assert plan.routes(CONFIGMAPS, "c") == ()


def test_masks_of_one_destination_are_united() -> None:
    """RUL-7: several rules on one object make one route with all their operations."""
    plan = RoutePlan([(ONE, scope("a", CREATE)), (ONE, scope("", DELETE))])
    assert plan.routes(CONFIGMAPS, "a") == (Route(ONE, CREATE | DELETE),)
    assert plan.routes(CONFIGMAPS, "b") == (Route(ONE, DELETE),)


def test_owned_objects_have_the_masks_of_rules_that_include_them() -> None:
    """SAN-9: only rules with includeOwned speak for owned objects."""
    (route,) = RoutePlan([(ONE, scope("a", CREATE, owned=True)), (ONE, scope("a", DELETE))]).routes(
        CONFIGMAPS, "a"
    )
    assert route.include_owned
    assert route.mask_for(owned=True) == CREATE
    assert route.mask_for(owned=False) == CREATE | DELETE


def test_destination_without_include_owned_has_no_mask_for_them() -> None:
    """SAN-9: owned objects are skipped by default."""
    (route,) = RoutePlan([(ONE, scope("a"))]).routes(CONFIGMAPS, "a")
    assert not route.include_owned
    assert route.mask_for(owned=True) == frozenset()


def test_destinations_know_their_scopes() -> None:
    """RUL-8: what one destination needs is found without looking at the others."""
    plan = RoutePlan([(ONE, scope("a")), (TWO, scope(""))])
    assert plan.destinations() == {ONE, TWO}
    assert plan.scopes_for(ONE) == {(CONFIGMAPS, "a")}
    assert plan.scopes_for(Key("x", "y")) == frozenset()
