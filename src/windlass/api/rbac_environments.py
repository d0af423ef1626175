"""The rights of the environments capability.

| Role | Right | Bound |
|---|---|---|
| `<release>-environments` | own kinds, namespaces, reading, the two bindings below | always |
| `<release>-environment-manager` | policies, inventory, acting as the applier | in each namespace |
| `<release>-environment-applier` | the kinds that a bundle may hold | in each, to the applier |

Nothing of a bundle is written with the operator's own rights: it acts as the service
account `windlass-applier` of that one namespace, which exists as a name only.
"""

from __future__ import annotations

from windlass.api import role
from windlass.api.group import CATALYST
from windlass.api.install import Install
from windlass.api.registry import ENVIRONMENT_KINDS
from windlass.objects.names import Object

APPLIER = "windlass-applier"
"""The name to act as, of the RoleBinding that gives it rights, and of nothing else."""

MANAGER_BINDING = "windlass-manager"
"""The RoleBinding that gives the operator its rights inside a namespace."""

_KEEP = ("get", "list", "watch", "create", "patch", "delete")
_BUNDLE = {
    "": (
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "secrets",
        "serviceaccounts",
        "services",
    ),
    "apps": ("daemonsets", "deployments", "statefulsets"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "policy": ("poddisruptionbudgets",),
}
_WATCHED = {
    "": (
        "configmaps",
        "limitranges",
        "namespaces",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "serviceaccounts",
        "services",
    ),
    "apps": ("daemonsets", "deployments", "statefulsets"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "networking.k8s.io": ("networkpolicies",),
    "policy": ("poddisruptionbudgets",),
    role.RBAC_GROUP: ("rolebindings",),
    "storage.k8s.io": ("storageclasses",),
}


def files(place: Install, who: list[Object]) -> dict[str, list[Object]]:
    """The roles by file; those of one namespace are bound there, by the operator."""
    return {
        "environments": role.bound(_environments(place), who),
        "environment-manager": [_manager(place)],
        "environment-applier": [_applier(place)],
        "environments-people": [_view(place), _edit(place)],
    }


def _environments(place: Install) -> Object:
    plurals = [kind.plural for kind in ENVIRONMENT_KINDS]
    statuses = [f"{plural}/status" for plural in plurals]
    granted = [place.environment_manager, place.environment_applier]
    return role.cluster_role(
        place,
        place.environments,
        "Reads Projects and Environments, makes and removes namespaces, and gives itself the "
        "two roles for one namespace. The fence keeps these writes inside namespaces that it "
        "made. Secrets are only ever fetched by the name that a Project gives.",
        [
            role.rule([CATALYST.name], plurals, (*role.READ, "patch")),
            # A Project that is deleted may take its Environments along.
            role.rule([CATALYST.name], ["environments"], ["delete"]),
            role.rule([CATALYST.name], statuses, ["update", "patch"]),
            role.rule([""], ["namespaces"], ["create", "patch", "delete"]),
            role.rule([role.RBAC_GROUP], ["rolebindings"], ["create"]),
            role.rule([role.RBAC_GROUP], ["rolebindings"], ["patch"], [MANAGER_BINDING, APPLIER]),
            role.rule([role.RBAC_GROUP], ["clusterroles"], ["bind"], granted),
            *(role.rule([group], names, role.READ) for group, names in _WATCHED.items()),
            role.rule([""], ["secrets"], ["get"]),
            role.rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
        ],
    )


def _manager(place: Install) -> Object:
    return role.cluster_role(
        place,
        place.environment_manager,
        "What the operator may do inside a namespace it made. It is bound there and nowhere else.",
        [
            role.rule(
                [""], ["configmaps", "limitranges", "resourcequotas", "serviceaccounts"], _KEEP
            ),
            role.rule([""], ["secrets"], ["get", "list", "create", "patch", "delete"]),
            role.rule(["networking.k8s.io"], ["networkpolicies"], _KEEP),
            role.rule([role.RBAC_GROUP], ["rolebindings"], _KEEP),
            role.rule([""], ["serviceaccounts"], ["impersonate"], [APPLIER]),
        ],
    )


def _applier(place: Install) -> Object:
    verbs = ("get", "list", "create", "patch", "delete")
    return role.cluster_role(
        place,
        place.environment_applier,
        "The kinds that a bundle may hold. It is bound inside one namespace, to the name "
        f"{APPLIER} that the operator acts as there.",
        [role.rule([group], names, verbs) for group, names in _BUNDLE.items()],
    )


def _view(place: Install) -> Object:
    found = role.cluster_role(
        place,
        f"{place.environments}-view",
        "Lets whoever may view a namespace see its Projects and Environments.",
        [role.rule([CATALYST.name], [kind.plural for kind in ENVIRONMENT_KINDS], role.READ)],
    )
    return role.aggregated(found, "view", "edit", "admin")


def _edit(place: Install) -> Object:
    found = role.cluster_role(
        place,
        f"{place.environments}-edit",
        "Lets whoever may edit a namespace keep Projects and Environments there, and so use the "
        "credentials that a Project names.",
        [role.rule([CATALYST.name], [kind.plural for kind in ENVIRONMENT_KINDS], role.WRITE)],
    )
    return role.aggregated(found, "edit", "admin")
