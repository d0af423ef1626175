"""CEL expressions of the operator policy: what the operator may write, kind by kind.

Roles cannot bound the content of writes. With stolen credentials of the operator its rights
could otherwise be passed on: a Role over Secrets, a token of another account, another image in a
pod.

| Where | Kind | Bound |
|---|---|---|
| anywhere | our kinds | status; spec unchanged; an Environment deleted |
| | Events | signed by windlass |
| | our webhook configuration | nothing but the path it calls and the CA |
| | ConfigMaps of gateways | by name |
| | Roles of gateways | by name; rules over ConfigMaps by name |
| | RoleBindings of gateways | by name; service accounts of the same namespace |
| own namespace | Lease, Secret | by name; never a token |
| | Pod of the release | nothing but the label of the leader |
| of an Environment | RoleBinding | the two shipped roles, to operator and applier |
| | ConfigMap, quota, limits, account, policies | by name |
| | Secret | a release, by name and type |

Every bound holds for objects alone, never for a subresource (a token of a service account is
one); the status of our kinds is the only exception.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.api.install import cluster_roles
from windlass.api.install.environment_objects import (
    APPLIER_NAME,
    DEFAULT_ACCOUNT,
    ENVIRONMENT_TYPE,
    INVENTORY_NAME,
    LIMIT_RANGE_NAME,
    MANAGER_NAME,
    NAMESPACE_TYPE,
    QUOTA_NAME,
    RELEASE_PREFIX,
    RELEASE_TYPE,
)
from windlass.api.install.installation import Installation
from windlass.api.install.webhook import LEADER_LABEL
from windlass.api.kinds.ignitionsync import OWNED_PREFIX
from windlass.api.schema.resource import CATALYST, CONFIGBUTLER, IGNITION
from windlass.objects.names import Object

ADMISSION_GROUP = "admissionregistration.k8s.io"
EVENT_CONTROLLER_PREFIX = "windlass.dev/"

_OWN_GROUPS = (CONFIGBUTLER.name, IGNITION.name, CATALYST.name)
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
_AGENT_VERBS = ("get", "list", "watch", "patch")
_PLAIN = "(!has(request.subResource) || request.subResource == '')"
_DELETES = "request.operation == 'DELETE'"
_UNCHANGED = "request.operation == 'UPDATE' && object.spec == oldObject.spec"


def bound_variables(installation: Installation, operators: Sequence[Object]) -> list[Object]:
    """The variables of the policy; each is true for a write within one of the bounds."""
    return [
        policy_variable("isPlain", _PLAIN),
        # The roles grant no review, but everybody may create a SelfSubjectReview.
        policy_variable("isReview", f"request.resource.group in {cel_list(_REVIEWS)}"),
        policy_variable("isOwnKind", _own_kind_bound()),
        policy_variable("isEvent", _event_bound()),
        policy_variable("isWebhook", _webhook_bound(installation)),
        policy_variable("isOfGateways", _gateways_bound()),
        policy_variable("isInOwnNamespace", _own_namespace_bound(installation)),
        policy_variable("isInEnvironment", _environment_bound(installation, operators)),
    ]


BOUNDS = (
    "isReview",
    "isOwnKind",
    "isEvent",
    "isWebhook",
    "isOfGateways",
    "isInOwnNamespace",
    "isInEnvironment",
)
"""The variables of which at least one has to be true."""


def cel_list(names: Sequence[str]) -> str:
    """Strings as a CEL list literal."""
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


# ---- anywhere


def _own_kind_bound() -> str:
    status = "has(request.subResource) && request.subResource == 'status'"
    deletes_environment = f"{_DELETES} && request.resource.resource == 'environments'"
    return _all_of(
        f"request.resource.group in {cel_list(_OWN_GROUPS)}",
        _any_of(status, _all_of("variables.isPlain", _any_of(_UNCHANGED, deletes_environment))),
    )


def _event_bound() -> str:
    signed = f"{{0}}.reportingController.startsWith('{EVENT_CONTROLLER_PREFIX}')"
    return _all_of(
        _is_type("events.k8s.io", "events"),
        "variables.isPlain",
        "object != null && has(object.reportingController)",
        signed.format("object"),
        _any_of(
            "oldObject == null",
            f"has(oldObject.reportingController) && {signed.format('oldObject')}",
        ),
    )


def _webhook_bound(installation: Installation) -> str:
    fields = (
        "name",
        "rules",
        "failurePolicy",
        "sideEffects",
        "timeoutSeconds",
        "matchPolicy",
        "namespaceSelector",
        "objectSelector",
        "admissionReviewVersions",
    )
    same = " && ".join(f"one.{name} == old.{name}" for name in fields)
    conditions = (
        "(has(one.matchConditions) ? one.matchConditions : [])"
        " == (has(old.matchConditions) ? old.matchConditions : [])"
    )
    return _all_of(
        _is_type(ADMISSION_GROUP, "validatingwebhookconfigurations"),
        "variables.isPlain && request.operation == 'UPDATE'",
        f"request.name == '{installation.webhook_configuration}'",
        "has(object.webhooks) == has(oldObject.webhooks)",
        _any_of(
            "!has(object.webhooks)",
            "object.webhooks.size() == oldObject.webhooks.size() && object.webhooks.all(one, "
            f"oldObject.webhooks.exists(old, {same} && {conditions} && ({_same_server()})))",
        ),
    )


def _same_server() -> str:
    """That `one` calls the server that `old` calls: whoever is called reads all that is written."""
    new, old = "one.clientConfig", "old.clientConfig"
    same_fields = " && ".join(
        f"{new}.service.{field} == {old}.service.{field}" for field in ("name", "namespace", "port")
    )
    return _any_of(
        f"has({new}.service) && has({old}.service) && {same_fields}",
        f"has({new}.url) && has({old}.url) && url({new}.url).getHost() == url({old}.url).getHost()",
    )


def _gateways_bound() -> str:
    return _all_of(
        "has(request.namespace) && variables.isPlain",
        f"request.name.startsWith('{OWNED_PREFIX}')",
        _any_of(
            _is_type("", "configmaps"),
            _all_of(_is_type(cluster_roles.RBAC_GROUP, "roles"), _any_of(_DELETES, _agent_rules())),
            _all_of(
                _is_type(cluster_roles.RBAC_GROUP, "rolebindings"),
                _any_of(_DELETES, _agent_subjects()),
            ),
        ),
    )


def _agent_rules() -> str:
    """That every rule is about ConfigMaps of gateways, by name."""
    return _any_of(
        "!has(object.rules)",
        "object.rules.all(rule, rule.apiGroups == [''] && rule.resources == ['configmaps']"
        " && !has(rule.nonResourceURLs) && has(rule.resourceNames)"
        " && rule.resourceNames.size() > 0"
        f" && rule.resourceNames.all(name, name.startsWith('{OWNED_PREFIX}'))"
        f" && rule.verbs.all(verb, verb in {cel_list(_AGENT_VERBS)}))",
    )


def _agent_subjects() -> str:
    return _all_of(
        "object.roleRef.kind == 'Role'",
        f"object.roleRef.name.startsWith('{OWNED_PREFIX}')",
        _any_of("!has(object.subjects)", f"object.subjects.all(one, {_is_account_of_namespace()})"),
    )


def _is_account_of_namespace() -> str:
    """That `one` is a service account of the namespace that is written to."""
    return (
        "one.kind == 'ServiceAccount' && has(one.namespace) && one.namespace == request.namespace"
    )


# ---- in the operator's own namespace


def _own_namespace_bound(installation: Installation) -> str:
    named = f"request.name.startsWith('{installation.release}-')"
    no_token = _any_of(
        "object == null",
        "!has(object.type)",
        "object.type != 'kubernetes.io/service-account-token'",
    )
    return _all_of(
        f"has(request.namespace) && request.namespace == '{installation.namespace}'",
        "variables.isPlain",
        _any_of(
            _all_of(_is_type("coordination.k8s.io", "leases"), named),
            _all_of(_is_type("", "secrets"), named, no_token),
            _all_of(_is_type("", "pods"), _leader_label_bound(installation)),
        ),
    )


def _leader_label_bound(installation: Installation) -> str:
    """That of a pod of the release only the label of the leader is set or removed."""
    old, new = "oldObject.metadata.labels", "object.metadata.labels"
    fields = ("annotations", "finalizers", "ownerReferences")
    ((key, value),) = LEADER_LABEL.items()
    return _all_of(
        _UNCHANGED,
        *(f"object.metadata.?{field} == oldObject.metadata.?{field}" for field in fields),
        f"has({old}) && has({new})",
        *(
            f"'{name}' in {old} && {old}['{name}'] == '{release_value}'"
            for name, release_value in installation.labels.items()
        ),
        f"{old}.all(key, key == '{key}' || key in {new})",
        f"{new}.all(key, key == '{key}' || (key in {old} && {new}[key] == {old}[key]))",
        _any_of(f"!('{key}' in {new})", f"{new}['{key}'] == '{value}'"),
    )


# ---- in the namespace of an Environment


def _environment_bound(installation: Installation, operators: Sequence[Object]) -> str:
    labels = "namespaceObject.metadata.labels"
    return _all_of(
        f"has(request.namespace) && namespaceObject != null && has({labels})",
        f"'{NAMESPACE_TYPE}' in {labels} && {labels}['{NAMESPACE_TYPE}'] == '{ENVIRONMENT_TYPE}'",
        "variables.isPlain",
        _any_of(
            _is_object("", "configmaps", INVENTORY_NAME),
            _is_object("", "limitranges", LIMIT_RANGE_NAME),
            _is_object("", "resourcequotas", QUOTA_NAME),
            _all_of(
                _is_object("", "serviceaccounts", DEFAULT_ACCOUNT),
                _any_of(_DELETES, _mounts_no_token()),
            ),
            _all_of(_is_type("", "secrets"), _release_secret()),
            # Any policy may be deleted: a foreign one could open the isolation.
            _all_of(
                _is_type("networking.k8s.io", "networkpolicies"),
                _any_of(_DELETES, "request.name == 'default-policy'", _name_starts_with("allow-")),
            ),
            _all_of(
                _is_type(cluster_roles.RBAC_GROUP, "rolebindings"),
                _bindings(installation, operators),
            ),
        ),
    )


def _mounts_no_token() -> str:
    field = "object.automountServiceAccountToken"
    return f"has({field}) && !{field}"


def _release_secret() -> str:
    return _all_of(
        _name_starts_with(RELEASE_PREFIX),
        _any_of(_DELETES, f"has(object.type) && object.type == '{RELEASE_TYPE}'"),
    )


def _bindings(installation: Installation, operators: Sequence[Object]) -> str:
    """That it is one of the two bindings, with its own role and subjects alone."""
    is_operator = _any_of(*(_subject(operator) for operator in operators))
    is_applier = f"{_is_account_of_namespace()} && one.name == '{APPLIER_NAME}'"
    return _any_of(
        _binding(MANAGER_NAME, installation.environment_manager_role, is_operator),
        _binding(APPLIER_NAME, installation.environment_applier_role, is_applier),
    )


def _binding(name: str, role: str, subject: str) -> str:
    content = _all_of(
        f"object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '{role}'",
        f"has(object.subjects) && object.subjects.all(one, {subject})",
    )
    return _all_of(f"request.name == '{name}'", _any_of(_DELETES, content))


def _subject(operator: Object) -> str:
    """That `one` is this operator."""
    named = f"one.kind == '{operator['kind']}' && one.name == '{operator['name']}'"
    if operator["kind"] != "ServiceAccount":
        return named
    return f"{named} && has(one.namespace) && one.namespace == '{operator['namespace']}'"


# ---- parts of expressions


def _is_type(group: str, resource: str) -> str:
    return f"request.resource.group == '{group}' && request.resource.resource == '{resource}'"


def _is_object(group: str, resource: str, name: str) -> str:
    return f"{_is_type(group, resource)} && request.name == '{name}'"


def _name_starts_with(prefix: str) -> str:
    return f"request.name.startsWith('{prefix}')"


def _all_of(*parts: str) -> str:
    return " && ".join(part if _is_simple(part) else f"({part})" for part in parts)


def _any_of(*parts: str) -> str:
    return " || ".join(f"({part})" for part in parts)


def _is_simple(part: str) -> bool:
    return "||" not in part


def policy_variable(name: str, expression: str) -> Object:
    """A named part of the expressions of a policy."""
    return {"name": name, "expression": expression}
