"""The rights of the reverser: one role for each thing an administrator may want to take away.

| Role | Right | Bound |
|---|---|---|
| `<release>-reverser` | own kinds, what they name, reviews, discovery | always |
| `<release>-reverser-watch` | read the usual types, without Secrets | mode `selected` |
| `<release>-reverser-watch-any` | read every type | mode `any` |
| `<release>-reverser-watch-secrets` | read Secrets | until its binding is removed |
| `<release>-reverser-leader` (a Role) | lease, salt Secret, own pods' labels | always |
| `<release>-reverser-view`, `-edit` | what people may do | by aggregation |

No role may write a mirrored type, escalate, bind or impersonate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from windlass.api import preset
from windlass.api.install import Install
from windlass.api.registry import KINDS
from windlass.api.resource import GROUP
from windlass.objects.json import Object

WatchMode = Literal["selected", "any"]

RBAC_GROUP = "rbac.authorization.k8s.io"
PURPOSE = "windlass.dev/purpose"

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")


def documents(
    subjects: Sequence[Object] | None = None,
    *,
    install: Install | None = None,
    watch: WatchMode = "selected",
) -> list[Object]:
    """Everything to apply, in an order that works; subjects default to the service account."""
    told = files(subjects, install=install, watch=watch)
    return [document for documents_ in told.values() for document in documents_]


def files(
    subjects: Sequence[Object] | None = None,
    *,
    install: Install | None = None,
    watch: WatchMode = "selected",
) -> dict[str, list[Object]]:
    """The same by file name, so that each can be left out on its own."""
    place = install or Install()
    who = list(subjects) if subjects is not None else [place.service_account]
    return {
        "00-namespace": _ground(place, with_account=subjects is None),
        "reverser": _bound(_reverser(place), who),
        "reverser-leader": _bound(_leader(place), who),
        "reverser-watch": _bound(_watch(place), who if watch == "selected" else []),
        "reverser-watch-any": _bound(_watch_any(place), who if watch == "any" else []),
        "reverser-watch-secrets": _bound(_watch_secrets(place), who),
        "reverser-people": [_view(place), _edit(place)],
    }


def user(name: str) -> Object:
    """A person or a desk process as the subject of a binding."""
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": name}


def _ground(place: Install, *, with_account: bool) -> list[Object]:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": _metadata(place, place.namespace, "Holds what windlass itself consists of."),
    }
    metadata = _metadata(place, place.release, "Who the operator is to the API server.")
    metadata["namespace"] = place.namespace
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return [namespace, account] if with_account else [namespace]


def _reverser(place: Install) -> Object:
    plurals = [kind.plural for kind in KINDS]
    return _cluster_role(
        place,
        place.reverser,
        "Reads the kinds of windlass and what they name, and reports in their status. "
        "Secrets and ConfigMaps are only ever fetched by the name that an object gives.",
        [
            _rule([GROUP], plurals, _READ),
            _rule([GROUP], [f"{plural}/status" for plural in plurals], ["update", "patch"]),
            _rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
            _rule([""], ["configmaps", "secrets", "namespaces"], ["get"]),
            _rule(["apiextensions.k8s.io"], ["customresourcedefinitions"], _READ),
            _rule(["apiregistration.k8s.io"], ["apiservices"], _READ),
            _rule(["authentication.k8s.io"], ["tokenreviews"], ["create"]),
            _rule(["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
            _rule(
                ["admissionregistration.k8s.io"],
                ["validatingwebhookconfigurations"],
                ["get", "patch"],
                [place.webhook_configuration],
            ),
        ],
    )


def _leader(place: Install) -> Object:
    role = _cluster_role(
        place,
        f"{place.reverser}-leader",
        "Elects one leader, marks its pod so that admission calls reach it, "
        "and keeps the salt of redacted values.",
        [
            _rule(["coordination.k8s.io"], ["leases"], ["create"]),
            _rule(["coordination.k8s.io"], ["leases"], ["get", "update", "patch"], [place.lease]),
            _rule([""], ["secrets"], ["create"]),
            _rule([""], ["secrets"], ["get"], [place.salt_secret]),
            _rule([""], ["pods"], ["get", "list", "patch"]),
        ],
    )
    metadata = role["metadata"] | {"namespace": place.namespace}
    return role | {"kind": "Role", "metadata": metadata}


def _watch(place: Install) -> Object:
    rules = [_rule([group], names, _READ) for group, names in preset.readable_by_group().items()]
    rules.append(_rule([""], ["namespaces"], _READ))
    return _cluster_role(
        place,
        f"{place.reverser}-watch",
        "Mode selected: reads the types that are mirrored, without Secrets. To mirror another "
        "type add a rule for it here or in a role of your own bound to the same subject; "
        "to mirror every type bind the role ending in -watch-any instead.",
        rules,
    )


def _watch_any(place: Install) -> Object:
    return _cluster_role(
        place,
        f"{place.reverser}-watch-any",
        "Mode any: reads every type, now and in future, Secrets included, because a role cannot "
        "leave one type out. Nobody is bound to it unless that mode is chosen.",
        [_rule(["*"], ["*"], _READ)],
    )


def _watch_secrets(place: Install) -> Object:
    return _cluster_role(
        place,
        f"{place.reverser}-watch-secrets",
        "Reads all Secrets, so that their structure can be mirrored. Remove its binding, and "
        "Secrets are reported as Forbidden while everything else goes on.",
        [_rule([""], ["secrets"], _READ)],
    )


def _view(place: Install) -> Object:
    plurals = [kind.plural for kind in KINDS]
    role = _cluster_role(
        place,
        f"{place.reverser}-view",
        "Lets whoever may view a namespace see its mirroring.",
        [_rule([GROUP], plurals, _READ)],
    )
    return _aggregated(role, "view", "edit", "admin")


def _edit(place: Install) -> Object:
    # A cluster rule exports the whole cluster: no right to edit a namespace leads there.
    plurals = [kind.plural for kind in KINDS if kind.namespaced]
    role = _cluster_role(
        place,
        f"{place.reverser}-edit",
        "Lets whoever may edit a namespace mirror it. Cluster rules are not part of this.",
        [_rule([GROUP], plurals, _WRITE)],
    )
    return _aggregated(role, "edit", "admin")


def _aggregated(role: Object, *names: str) -> Object:
    for name in names:
        role["metadata"]["labels"][f"{RBAC_GROUP}/aggregate-to-{name}"] = "true"
    return role


def _bound(role: Object, subjects: list[Object]) -> list[Object]:
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
    binding["metadata"]["annotations"] = {PURPOSE: f"Gives the operator the {role['kind']} above."}
    return [role, binding]


def _cluster_role(place: Install, name: str, purpose: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(place, name, purpose),
        "rules": rules,
    }


def _metadata(place: Install, name: str, purpose: str) -> Object:
    return {"name": name, "labels": place.labels, "annotations": {PURPOSE: purpose}}


def _rule(
    groups: Sequence[str],
    resources: Sequence[str],
    verbs: Sequence[str],
    names: Sequence[str] = (),
) -> Object:
    found: Object = {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}
    return found | {"resourceNames": list(names)} if names else found
