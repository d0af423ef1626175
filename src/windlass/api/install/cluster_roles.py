"""Roles and bindings of each capability, each with a sentence on what it is for.

The reverser has one role for each right that an administrator may want to take away:

| Role | Right | Bound |
|---|---|---|
| `<release>-reverser` | own kinds, what they name, reviews, discovery | always |
| `<release>-reverser-watch` | read the usual types, without Secrets | mode `selected` |
| `<release>-reverser-watch-any` | read every type | mode `any` |
| `<release>-reverser-watch-secrets` | read Secrets | until its binding is removed |
| `<release>-reverser-leader` (a Role) | lease, two Secrets, own pods' labels | always |
| `<release>-reverser-view`, `-edit` | what people may do | by aggregation |

None may write a mirrored type, escalate, bind or impersonate.

Gateways may grant agents only what they hold themselves. Their writes go to objects whose names
begin with `ignition-sync-`; a role cannot express that, the operator policy does.

Environments:

| Role | Right | Bound |
|---|---|---|
| `<release>-environments` | own kinds, namespaces, reading, the two bindings below | always |
| `<release>-environment-manager` | policies, inventory, acting as the applier | in each namespace |
| `<release>-environment-applier` | the kinds that a bundle may hold | in each, to the applier |

Nothing of a bundle is written with the operator's own rights: it impersonates the service
account `windlass-applier` of that one namespace, which exists as a name only.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from windlass.api.install import environment_objects
from windlass.api.install.environment_objects import (
    APPLIER_NAME,
    BUNDLE_RESOURCES,
    MANAGER_NAME,
    WATCHED_RESOURCES,
)
from windlass.api.install.installation import Installation
from windlass.api.kinds import watchrules
from windlass.api.kinds.registry import ENVIRONMENT_KINDS, GATEWAY_KINDS, REVERSER_KINDS
from windlass.api.schema.resource import CATALYST, CONFIGBUTLER, IGNITION
from windlass.objects.names import Object
from windlass.objects.resources import STORAGE_CLASSES

RBAC_GROUP = "rbac.authorization.k8s.io"
PURPOSE_ANNOTATION = "windlass.dev/purpose"

READ_VERBS = ("get", "list", "watch")
WRITE_VERBS = ("create", "update", "patch", "delete", "deletecollection")


def cluster_role(
    installation: Installation, name: str, purpose: str, rules: list[Object]
) -> Object:
    """A ClusterRole with its purpose as an annotation."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": object_metadata(installation, name, purpose),
        "rules": rules,
    }


def object_metadata(installation: Installation, name: str, purpose: str) -> Object:
    """Metadata of an installed object: name, labels, and its purpose as an annotation."""
    return {
        "name": name,
        "labels": installation.labels,
        "annotations": {PURPOSE_ANNOTATION: purpose},
    }


def rule(
    groups: Sequence[str],
    resources: Sequence[str],
    verbs: Sequence[str],
    names: Sequence[str] = (),
) -> Object:
    """One RBAC rule; with `names` for those objects alone."""
    granted: Object = {
        "apiGroups": list(groups),
        "resources": list(resources),
        "verbs": list(verbs),
    }
    return granted | {"resourceNames": list(names)} if names else granted


def with_binding(role: Object, subjects: Sequence[Object]) -> list[Object]:
    """The role, and its binding if there are subjects."""
    if not subjects:
        return [role]
    metadata = role["metadata"]
    binding = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": metadata | {"labels": dict(metadata["labels"])},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role["kind"], "name": metadata["name"]},
        "subjects": [dict(subject) for subject in subjects],
    }
    binding["metadata"]["annotations"] = {
        PURPOSE_ANNOTATION: f"Binds the {role['kind']} above to the operator."
    }
    return [role, binding]


def aggregate_to(role: Object, *names: str) -> Object:
    """Aggregate the role to the cluster's own roles for people, such as `view`."""
    for name in names:
        role["metadata"]["labels"][f"{RBAC_GROUP}/aggregate-to-{name}"] = "true"
    return role


WatchMode = Literal["selected", "any"]
"""Whether the reverser may read the usual types, or every type."""


def reverser_roles(
    installation: Installation, subjects: list[Object], watch: WatchMode
) -> dict[str, list[Object]]:
    """The roles by file, bound to `subjects`."""
    return {
        "reverser": with_binding(_reverser_role(installation), subjects),
        "reverser-leader": with_binding(_reverser_leader_role(installation), subjects),
        "reverser-watch": with_binding(
            _reverser_watch_role(installation), subjects if watch == "selected" else []
        ),
        "reverser-watch-any": with_binding(
            _reverser_watch_any_role(installation), subjects if watch == "any" else []
        ),
        "reverser-watch-secrets": with_binding(
            _reverser_watch_secrets_role(installation), subjects
        ),
        "reverser-people": [_reverser_view_role(installation), _reverser_edit_role(installation)],
    }


def _reverser_role(installation: Installation) -> Object:
    plurals = [kind.plural for kind in REVERSER_KINDS]
    return cluster_role(
        installation,
        installation.reverser_role,
        "Reads the kinds of windlass and the objects they name, and writes their status. "
        "Secrets and ConfigMaps are read only by a name from such an object.",
        [
            rule([CONFIGBUTLER.name], plurals, READ_VERBS),
            rule(
                [CONFIGBUTLER.name], [f"{plural}/status" for plural in plurals], ["update", "patch"]
            ),
            rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
            rule([""], ["configmaps", "secrets", "namespaces"], ["get"]),
            rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], READ_VERBS),
            rule(["apiregistration.k8s.io"], ["apiservices"], READ_VERBS),
            rule(
                ["admissionregistration.k8s.io"],
                ["validatingwebhookconfigurations"],
                [*READ_VERBS, "patch"],
                [installation.webhook_configuration],
            ),
        ],
    )


def _reverser_leader_role(installation: Installation) -> Object:
    role = cluster_role(
        installation,
        f"{installation.reverser_role}-leader",
        "Elects a leader, labels its pod so that admission calls reach it, and "
        "stores the salt of redacted values and the certificate of the webhook.",
        [
            rule(["coordination.k8s.io"], ["leases"], ["create"]),
            rule(
                ["coordination.k8s.io"],
                ["leases"],
                ["get", "update", "patch"],
                [installation.lease],
            ),
            rule([""], ["secrets"], ["create"]),
            rule([""], ["secrets"], ["get"], [installation.salt_secret]),
            rule([""], ["secrets"], [*READ_VERBS, "update"], [installation.webhook_secret]),
            rule([""], ["pods"], ["list", "patch"]),
        ],
    )
    metadata = role["metadata"] | {"namespace": installation.namespace}
    return role | {"kind": "Role", "metadata": metadata}


def _reverser_watch_role(installation: Installation) -> Object:
    rules = [
        rule([group], names, READ_VERBS)
        for group, names in watchrules.preset_without_secrets().items()
    ]
    rules.append(rule([""], ["namespaces"], READ_VERBS))
    return cluster_role(
        installation,
        f"{installation.reverser_role}-watch",
        "Mode selected: reads the types that are mirrored, without Secrets. To mirror another "
        "type, add a rule here or in your own role bound to the same subject; "
        "to mirror every type, bind the role ending in -watch-any instead.",
        rules,
    )


def _reverser_watch_any_role(installation: Installation) -> Object:
    return cluster_role(
        installation,
        f"{installation.reverser_role}-watch-any",
        "Mode any: reads every type, present and future, including Secrets, because a role cannot "
        "exclude a type. Bound only in that mode.",
        [rule(["*"], ["*"], READ_VERBS)],
    )


def _reverser_watch_secrets_role(installation: Installation) -> Object:
    return cluster_role(
        installation,
        f"{installation.reverser_role}-watch-secrets",
        "Reads all Secrets, so that their structure can be mirrored. Without its binding, "
        "Secrets are reported as Forbidden and everything else is still mirrored.",
        [rule([""], ["secrets"], READ_VERBS)],
    )


def _reverser_view_role(installation: Installation) -> Object:
    plurals = [kind.plural for kind in REVERSER_KINDS]
    role = cluster_role(
        installation,
        f"{installation.reverser_role}-view",
        "Lets users who can view a namespace see how it is mirrored.",
        [rule([CONFIGBUTLER.name], plurals, READ_VERBS)],
    )
    return aggregate_to(role, "view", "edit", "admin")


def _reverser_edit_role(installation: Installation) -> Object:
    # Without ClusterWatchRules: they export the whole cluster, not only an edited namespace.
    plurals = [kind.plural for kind in REVERSER_KINDS if kind.namespaced]
    role = cluster_role(
        installation,
        f"{installation.reverser_role}-edit",
        "Lets users who can edit a namespace mirror it. Does not cover ClusterWatchRules.",
        [rule([CONFIGBUTLER.name], plurals, WRITE_VERBS)],
    )
    return aggregate_to(role, "edit", "admin")


_OWNED_OBJECT_VERBS = ("get", "list", "watch", "create", "patch", "delete")


def gateways_roles(installation: Installation, subjects: list[Object]) -> dict[str, list[Object]]:
    """The roles by file, bound to `subjects`."""
    return {
        "gateways": with_binding(_gateways_role(installation), subjects),
        "gateways-people": [_gateways_view_role(installation), _gateways_edit_role(installation)],
    }


def _gateways_role(installation: Installation) -> Object:
    plurals = [kind.plural for kind in GATEWAY_KINDS]
    return cluster_role(
        installation,
        installation.gateways_role,
        "Reads IgnitionSyncs and the pods of gateways. Manages, for each IgnitionSync, the "
        "ConfigMaps that agents read and write and the Role that lets them. Secrets are read "
        "only by a name from an IgnitionSync.",
        [
            rule([IGNITION.name], plurals, (*READ_VERBS, "patch")),
            rule([IGNITION.name], _subresources(plurals, "status"), ["update", "patch"]),
            rule([IGNITION.name], _subresources(plurals, "finalizers"), ["update"]),
            rule([""], ["pods"], READ_VERBS),
            rule([""], ["configmaps"], _OWNED_OBJECT_VERBS),
            rule([RBAC_GROUP], ["roles", "rolebindings"], _OWNED_OBJECT_VERBS),
            rule([""], ["secrets"], ["get"]),
            rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
        ],
    )


def _gateways_view_role(installation: Installation) -> Object:
    role = cluster_role(
        installation,
        f"{installation.gateways_role}-view",
        "Lets users who can view a namespace see the state of its gateways.",
        [rule([IGNITION.name], [kind.plural for kind in GATEWAY_KINDS], READ_VERBS)],
    )
    return aggregate_to(role, "view", "edit", "admin")


def _gateways_edit_role(installation: Installation) -> Object:
    role = cluster_role(
        installation,
        f"{installation.gateways_role}-edit",
        "Lets users who can edit a namespace sync commits to its gateways.",
        [rule([IGNITION.name], [kind.plural for kind in GATEWAY_KINDS], WRITE_VERBS)],
    )
    return aggregate_to(role, "edit", "admin")


def _subresources(plurals: list[str], name: str) -> list[str]:
    return [f"{plural}/{name}" for plural in plurals]


def environments_roles(
    installation: Installation, subjects: list[Object]
) -> dict[str, list[Object]]:
    """The roles by file; those of one namespace are bound there, by the operator."""
    return {
        "environments": with_binding(_environments_role(installation), subjects),
        "environment-manager": [_environment_manager_role(installation)],
        "environment-applier": [_environment_applier_role(installation)],
        "environments-people": [
            _environments_view_role(installation),
            _environments_edit_role(installation),
        ],
    }


def _environments_role(installation: Installation) -> Object:
    plurals = [kind.plural for kind in ENVIRONMENT_KINDS]
    statuses = [f"{plural}/status" for plural in plurals]
    granted = [installation.environment_manager_role, installation.environment_applier_role]
    watched = environment_objects.names_by_group((*WATCHED_RESOURCES, STORAGE_CLASSES))
    return cluster_role(
        installation,
        installation.environments_role,
        "Reads Projects and Environments, creates and deletes namespaces, and binds itself to the "
        "two roles of each namespace. The operator policy limits these writes to namespaces that "
        "it created. Secrets are read only by a name from a Project.",
        [
            rule([CATALYST.name], plurals, (*READ_VERBS, "patch")),
            # A Project with the deletion policy Cascade deletes its Environments.
            rule([CATALYST.name], ["environments"], ["delete"]),
            rule([CATALYST.name], statuses, ["update", "patch"]),
            rule([""], ["namespaces"], ["create", "patch", "delete"]),
            rule([RBAC_GROUP], ["rolebindings"], ["create"]),
            rule([RBAC_GROUP], ["rolebindings"], ["patch"], [MANAGER_NAME, APPLIER_NAME]),
            rule([RBAC_GROUP], ["clusterroles"], ["bind"], granted),
            *(rule([group], names, READ_VERBS) for group, names in watched.items()),
            rule([""], ["secrets"], ["get"]),
            rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
        ],
    )


def _environment_manager_role(installation: Installation) -> Object:
    return cluster_role(
        installation,
        installation.environment_manager_role,
        "What the operator may do in a namespace that it created; bound only there.",
        [
            rule(
                [""],
                ["configmaps", "limitranges", "resourcequotas", "serviceaccounts"],
                _OWNED_OBJECT_VERBS,
            ),
            rule([""], ["secrets"], ["get", "list", "create", "patch", "delete"]),
            rule(["networking.k8s.io"], ["networkpolicies"], _OWNED_OBJECT_VERBS),
            rule([RBAC_GROUP], ["rolebindings"], _OWNED_OBJECT_VERBS),
            rule([""], ["serviceaccounts"], ["impersonate"], [APPLIER_NAME]),
        ],
    )


def _environment_applier_role(installation: Installation) -> Object:
    verbs = ("get", "list", "create", "patch", "delete")
    bundle = environment_objects.names_by_group(BUNDLE_RESOURCES)
    return cluster_role(
        installation,
        installation.environment_applier_role,
        "The kinds that a bundle may contain. Bound in each namespace to "
        f"{APPLIER_NAME}, which the operator impersonates there.",
        [rule([group], names, verbs) for group, names in bundle.items()],
    )


def _environments_view_role(installation: Installation) -> Object:
    role = cluster_role(
        installation,
        f"{installation.environments_role}-view",
        "Lets users who can view a namespace see its Projects and Environments.",
        [rule([CATALYST.name], [kind.plural for kind in ENVIRONMENT_KINDS], READ_VERBS)],
    )
    return aggregate_to(role, "view", "edit", "admin")


def _environments_edit_role(installation: Installation) -> Object:
    role = cluster_role(
        installation,
        f"{installation.environments_role}-edit",
        "Lets users who can edit a namespace manage its Projects and Environments, and so use the "
        "credentials that a Project names.",
        [rule([CATALYST.name], [kind.plural for kind in ENVIRONMENT_KINDS], WRITE_VERBS)],
    )
    return aggregate_to(role, "edit", "admin")
