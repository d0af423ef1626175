"""The rights of the reverser: one role for each thing an administrator may want to take away.

| Role | Right | Bound |
|---|---|---|
| `<release>-reverser` | own kinds, what they name, reviews, discovery | always |
| `<release>-reverser-watch` | read the usual types, without Secrets | mode `selected` |
| `<release>-reverser-watch-any` | read every type | mode `any` |
| `<release>-reverser-watch-secrets` | read Secrets | until its binding is removed |
| `<release>-reverser-leader` (a Role) | lease, two Secrets, own pods' labels | always |
| `<release>-reverser-view`, `-edit` | what people may do | by aggregation |

None may write a mirrored type, escalate, bind or impersonate.
"""

from __future__ import annotations

from typing import Literal

from windlass.api import preset, role
from windlass.api.group import CONFIGBUTLER
from windlass.api.install import Install
from windlass.api.registry import REVERSER_KINDS
from windlass.objects.names import Object

WatchMode = Literal["selected", "any"]


def files(place: Install, who: list[Object], watch: WatchMode) -> dict[str, list[Object]]:
    """The roles by file, bound to `who`."""
    return {
        "reverser": role.bound(_reverser(place), who),
        "reverser-leader": role.bound(_leader(place), who),
        "reverser-watch": role.bound(_watch(place), who if watch == "selected" else []),
        "reverser-watch-any": role.bound(_watch_any(place), who if watch == "any" else []),
        "reverser-watch-secrets": role.bound(_watch_secrets(place), who),
        "reverser-people": [_view(place), _edit(place)],
    }


def _reverser(place: Install) -> Object:
    plurals = [kind.plural for kind in REVERSER_KINDS]
    return role.cluster_role(
        place,
        place.reverser,
        "Reads the kinds of windlass and what they name, and reports in their status. "
        "Secrets and ConfigMaps are only ever fetched by the name that an object gives.",
        [
            role.rule([CONFIGBUTLER.name], plurals, role.READ),
            role.rule(
                [CONFIGBUTLER.name], [f"{plural}/status" for plural in plurals], ["update", "patch"]
            ),
            role.rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
            role.rule([""], ["configmaps", "secrets", "namespaces"], ["get"]),
            role.rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], role.READ),
            role.rule(["apiregistration.k8s.io"], ["apiservices"], role.READ),
            role.rule(["authentication.k8s.io"], ["tokenreviews"], ["create"]),
            role.rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
            role.rule(
                ["admissionregistration.k8s.io"],
                ["validatingwebhookconfigurations"],
                [*role.READ, "patch"],
                [place.webhook_configuration],
            ),
        ],
    )


def _leader(place: Install) -> Object:
    found = role.cluster_role(
        place,
        f"{place.reverser}-leader",
        "Elects one leader, marks its pod so that admission calls reach it, "
        "and keeps the salt of redacted values and the certificate of the webhook.",
        [
            role.rule(["coordination.k8s.io"], ["leases"], ["create"]),
            role.rule(
                ["coordination.k8s.io"], ["leases"], ["get", "update", "patch"], [place.lease]
            ),
            role.rule([""], ["secrets"], ["create"]),
            role.rule([""], ["secrets"], ["get"], [place.salt_secret]),
            role.rule([""], ["secrets"], [*role.READ, "update"], [place.webhook_secret]),
            role.rule([""], ["pods"], ["get", "list", "patch"]),
        ],
    )
    metadata = found["metadata"] | {"namespace": place.namespace}
    return found | {"kind": "Role", "metadata": metadata}


def _watch(place: Install) -> Object:
    rules = [
        role.rule([group], names, role.READ) for group, names in preset.readable_by_group().items()
    ]
    rules.append(role.rule([""], ["namespaces"], role.READ))
    return role.cluster_role(
        place,
        f"{place.reverser}-watch",
        "Mode selected: reads the types that are mirrored, without Secrets. To mirror another "
        "type add a rule for it here or in a role of your own bound to the same subject; "
        "to mirror every type bind the role ending in -watch-any instead.",
        rules,
    )


def _watch_any(place: Install) -> Object:
    return role.cluster_role(
        place,
        f"{place.reverser}-watch-any",
        "Mode any: reads every type, now and in future, Secrets included, because a role cannot "
        "leave one type out. Nobody is bound to it unless that mode is chosen.",
        [role.rule(["*"], ["*"], role.READ)],
    )


def _watch_secrets(place: Install) -> Object:
    return role.cluster_role(
        place,
        f"{place.reverser}-watch-secrets",
        "Reads all Secrets, so that their structure can be mirrored. Remove its binding, and "
        "Secrets are reported as Forbidden while everything else goes on.",
        [role.rule([""], ["secrets"], role.READ)],
    )


def _view(place: Install) -> Object:
    plurals = [kind.plural for kind in REVERSER_KINDS]
    found = role.cluster_role(
        place,
        f"{place.reverser}-view",
        "Lets whoever may view a namespace see its mirroring.",
        [role.rule([CONFIGBUTLER.name], plurals, role.READ)],
    )
    return role.aggregated(found, "view", "edit", "admin")


def _edit(place: Install) -> Object:
    # A cluster rule exports the whole cluster: no right to edit a namespace leads there.
    plurals = [kind.plural for kind in REVERSER_KINDS if kind.namespaced]
    found = role.cluster_role(
        place,
        f"{place.reverser}-edit",
        "Lets whoever may edit a namespace mirror it. Cluster rules are not part of this.",
        [role.rule([CONFIGBUTLER.name], plurals, role.WRITE)],
    )
    return role.aggregated(found, "edit", "admin")
