"""The rights of the gateways capability.

It may grant agents only what it holds itself, and its writes go to objects whose names
begin with `ignition-sync-`; a role cannot say that, the fence does.
"""

from __future__ import annotations

from windlass.api import role
from windlass.api.group import IGNITION
from windlass.api.install import Install
from windlass.api.registry import GATEWAY_KINDS
from windlass.objects.names import Object

_KEEP = ("get", "list", "watch", "create", "patch", "delete")


def files(place: Install, who: list[Object]) -> dict[str, list[Object]]:
    """The roles by file, bound to `who`."""
    return {
        "gateways": role.bound(_gateways(place), who),
        "gateways-people": [_view(place), _edit(place)],
    }


def _gateways(place: Install) -> Object:
    plurals = [kind.plural for kind in GATEWAY_KINDS]
    return role.cluster_role(
        place,
        place.gateways,
        "Reads IgnitionSyncs and the pods of gateways, and keeps for each IgnitionSync the "
        "ConfigMaps that agents read and write and the Role that lets them. Secrets are only "
        "ever fetched by the name that an object gives.",
        [
            role.rule([IGNITION.name], plurals, (*role.READ, "patch")),
            role.rule([IGNITION.name], _sub(plurals, "status"), ["update", "patch"]),
            role.rule([IGNITION.name], _sub(plurals, "finalizers"), ["update"]),
            role.rule([""], ["pods"], role.READ),
            role.rule([""], ["configmaps"], _KEEP),
            role.rule([role.RBAC_GROUP], ["roles", "rolebindings"], _KEEP),
            role.rule([""], ["secrets"], ["get"]),
            role.rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
        ],
    )


def _view(place: Install) -> Object:
    found = role.cluster_role(
        place,
        f"{place.gateways}-view",
        "Lets whoever may view a namespace see how its gateways are.",
        [role.rule([IGNITION.name], [kind.plural for kind in GATEWAY_KINDS], role.READ)],
    )
    return role.aggregated(found, "view", "edit", "admin")


def _edit(place: Install) -> Object:
    found = role.cluster_role(
        place,
        f"{place.gateways}-edit",
        "Lets whoever may edit a namespace bring commits onto its gateways.",
        [role.rule([IGNITION.name], [kind.plural for kind in GATEWAY_KINDS], role.WRITE)],
    )
    return role.aggregated(found, "edit", "admin")


def _sub(plurals: list[str], name: str) -> list[str]:
    return [f"{plural}/{name}" for plural in plurals]
