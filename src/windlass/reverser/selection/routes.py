"""The route plan: which scopes are watched, and to which destinations their objects go.

The plan is a dictionary, so finding the routes of an event costs as much as there are
destinations for that type in that namespace, however many rules exist (RUL-8). A rule for
one namespace and a rule for all never hide each other (RUL-10): the routes of a namespace
are already merged with those of `*` when the plan is built.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.objects.names import GVR, Key
from windlass.reverser.file_operation import Operation
from windlass.reverser.selection.rules import RuleResolution

ScopeKey: TypeAlias = tuple[GVR, str]
_RoutesByDestination: TypeAlias = dict[Key, "Route"]
_NO_OPERATIONS: frozenset[Operation] = frozenset()


@dataclass(frozen=True, slots=True)
class Route:
    """One destination of an object: the masks of all rules that select it, united (RUL-7).

    Controller-owned objects are selected only by rules with `includeOwned` (SAN-9), so they
    have a mask of their own.
    """

    destination: Key
    mask: frozenset[Operation]
    owned_mask: frozenset[Operation] = _NO_OPERATIONS

    @property
    def include_owned(self) -> bool:
        return bool(self.owned_mask)

    def mask_for(self, *, owned: bool) -> frozenset[Operation]:
        return self.owned_mask if owned else self.mask

    def merge(self, other: Route) -> Route:
        return Route(self.destination, self.mask | other.mask, self.owned_mask | other.owned_mask)


class RoutePlan:
    """Which scopes are watched for which destinations; immutable."""

    def __init__(self, resolved: Iterable[tuple[Key, RuleResolution]] = ()) -> None:
        table = _merge_routes(resolved)
        # Each selected (type, namespace) -> its routes, those of all namespaces merged in.
        self._routes = _routes_by_scope(table)
        # Destination -> the scopes that its rules select, as the rules state them.
        self._selected = _scopes_by_destination(table)
        # The scopes that need a stream.
        self._scopes = frozenset(
            scope for gvr, namespaces in table.items() for scope in _stream_scopes(gvr, namespaces)
        )

    def scopes(self) -> frozenset[ScopeKey]:
        """The streams: a cluster-wide one replaces those of namespaces (ING-1)."""
        return self._scopes

    def routes(self, gvr: GVR, namespace: str) -> tuple[Route, ...]:
        """The routes of objects of that type in that namespace, one per destination."""
        routes = self._routes.get((gvr, namespace))
        return routes if routes is not None else self._routes.get((gvr, ""), ())

    def scopes_for(self, destination: Key) -> frozenset[ScopeKey]:
        """The scopes that the rules of one destination select."""
        return self._selected.get(destination, frozenset())

    def destinations(self) -> frozenset[Key]:
        return frozenset(self._selected)


def _merge_routes(
    resolved: Iterable[tuple[Key, RuleResolution]],
) -> Mapping[GVR, dict[str, _RoutesByDestination]]:
    table: defaultdict[GVR, dict[str, _RoutesByDestination]] = defaultdict(dict)
    for destination, resolution in resolved:
        for scope in resolution.scopes:
            owned_mask = scope.mask if scope.include_owned else _NO_OPERATIONS
            route = Route(destination, scope.mask, owned_mask)
            _merge_route(table[scope.gvr].setdefault(scope.namespace, {}), route)
    return table


def _merge_route(routes: _RoutesByDestination, route: Route) -> None:
    existing = routes.get(route.destination)
    routes[route.destination] = route if existing is None else existing.merge(route)


def _routes_by_scope(
    table: Mapping[GVR, dict[str, _RoutesByDestination]],
) -> dict[ScopeKey, tuple[Route, ...]]:
    routes: dict[ScopeKey, tuple[Route, ...]] = {}
    for gvr, namespaces in table.items():
        cluster_wide = namespaces.get("", {})
        for namespace, by_destination in namespaces.items():
            merged = dict(by_destination)
            if namespace:
                for route in cluster_wide.values():
                    _merge_route(merged, route)
            routes[gvr, namespace] = tuple(merged[key] for key in sorted(merged))
    return routes


def _scopes_by_destination(
    table: Mapping[GVR, dict[str, _RoutesByDestination]],
) -> dict[Key, frozenset[ScopeKey]]:
    selected: defaultdict[Key, set[ScopeKey]] = defaultdict(set)
    for gvr, namespaces in table.items():
        for namespace, by_destination in namespaces.items():
            for destination in by_destination:
                selected[destination].add((gvr, namespace))
    return {key: frozenset(scopes) for key, scopes in selected.items()}


def _stream_scopes(gvr: GVR, namespaces: Iterable[str]) -> Iterable[ScopeKey]:
    """The streams of one type: one for all namespaces if any rule selects all."""
    names = set(namespaces)
    return [(gvr, "")] if "" in names else [(gvr, name) for name in names]
