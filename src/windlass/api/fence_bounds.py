"""What the operator may write, kind by kind, as expressions of an admission policy.

Roles cannot bound the content of what is written. Whoever got hold of the operator's
credentials could otherwise pass on its rights: a Role over Secrets, a token of another
account, an image of its own in a pod.

| Where | Kind | Bound |
|---|---|---|
| anywhere | our kinds | status; the object with its spec unchanged; an Environment deleted |
| | Events | signed by windlass |
| | our webhook configuration | nothing but where it calls |
| | ConfigMaps, Roles, RoleBindings of gateways | by name; rules over ConfigMaps by name; service accounts of the same namespace |
| own namespace | Lease, Secret | by name; never a token |
| | Pod | its spec unchanged |
| of an Environment | RoleBinding | the two shipped roles, to the operator and to the applier of this namespace |
| | ConfigMap, quota, limits, account, policies | by name |
| | Secret | a release, by name and type |

Every bound holds for objects alone, never for a subresource, the status of our kinds aside:
a token of a service account is one.
"""  # noqa: E501 - a row of the table is one line

from __future__ import annotations

from collections.abc import Sequence

from windlass.api import rbac_environments, role
from windlass.api.group import CATALYST, CONFIGBUTLER, IGNITION
from windlass.api.ignitionsync import OWNED_PREFIX
from windlass.api.install import Install
from windlass.objects.names import Object

ENVIRONMENT_UID = "catalyst.dev/environment-uid"
"""Annotation and label of a namespace: which Environment it belongs to."""

NAMESPACE_TYPE = "catalyst.dev/namespace-type"
"""Label of a namespace: what it is for."""

ENVIRONMENT = "environment"
"""The type of a namespace that an Environment runs in."""

ADMISSION_GROUP = "admissionregistration.k8s.io"
RELEASE_TYPE = "catalyst.dev/release.v1"
RELEASE_PREFIX = "windlass-release-"
INVENTORY = "windlass-inventory"
EVENT_SOURCE = "windlass.dev/"

_OWN_GROUPS = (CONFIGBUTLER.name, IGNITION.name, CATALYST.name)
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
_AGENT_VERBS = ("get", "list", "watch", "patch")
_PLAIN = "(!has(request.subResource) || request.subResource == '')"
_DELETES = "request.operation == 'DELETE'"
_UNCHANGED = "request.operation == 'UPDATE' && object.spec == oldObject.spec"


def variables(place: Install, operators: Sequence[Object]) -> list[Object]:
    """The variables of the policy; each says whether a write is within one of the bounds."""
    return [
        _variable("isPlain", _PLAIN),
        _variable("isReview", f"request.resource.group in {listed(_REVIEWS)}"),
        _variable("isOwnKind", _own_kind()),
        _variable("isEvent", _event()),
        _variable("isWebhook", _webhook(place)),
        _variable("isOfGateways", _gateways()),
        _variable("isInOwnNamespace", _own_namespace(place)),
        _variable("isInEnvironment", _environment(place, operators)),
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
"""The variables of which one has to hold."""


def listed(names: Sequence[str]) -> str:
    """Texts as a list of the expression language."""
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


# ---- anywhere


def _own_kind() -> str:
    status = "has(request.subResource) && request.subResource == 'status'"
    removal = f"{_DELETES} && request.resource.resource == 'environments'"
    return _all(
        f"request.resource.group in {listed(_OWN_GROUPS)}",
        _any(status, _all("variables.isPlain", _any(_UNCHANGED, removal))),
    )


def _event() -> str:
    signed = f"{{0}}.reportingController.startsWith('{EVENT_SOURCE}')"
    return _all(
        _is("events.k8s.io", "events"),
        "variables.isPlain",
        "object != null && has(object.reportingController)",
        signed.format("object"),
        _any(
            "oldObject == null",
            f"has(oldObject.reportingController) && {signed.format('oldObject')}",
        ),
    )


def _webhook(place: Install) -> str:
    kept = (
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
    same = " && ".join(f"one.{name} == old.{name}" for name in kept)
    conditions = (
        "(has(one.matchConditions) ? one.matchConditions : [])"
        " == (has(old.matchConditions) ? old.matchConditions : [])"
    )
    return _all(
        _is(ADMISSION_GROUP, "validatingwebhookconfigurations"),
        "variables.isPlain && request.operation == 'UPDATE'",
        f"request.name == '{place.webhook_configuration}'",
        "has(object.webhooks) == has(oldObject.webhooks)",
        _any(
            "!has(object.webhooks)",
            "object.webhooks.size() == oldObject.webhooks.size() && object.webhooks.all(one, "
            f"oldObject.webhooks.exists(old, {same} && {conditions}))",
        ),
    )


def _gateways() -> str:
    return _all(
        "has(request.namespace) && variables.isPlain",
        f"request.name.startsWith('{OWNED_PREFIX}')",
        _any(
            _is("", "configmaps"),
            _all(_is(role.RBAC_GROUP, "roles"), _any(_DELETES, _agent_rules())),
            _all(_is(role.RBAC_GROUP, "rolebindings"), _any(_DELETES, _agent_subjects())),
        ),
    )


def _agent_rules() -> str:
    """Rules over ConfigMaps that are named, and are objects of gateways."""
    return _any(
        "!has(object.rules)",
        "object.rules.all(rule, rule.apiGroups == [''] && rule.resources == ['configmaps']"
        " && !has(rule.nonResourceURLs) && has(rule.resourceNames)"
        " && rule.resourceNames.size() > 0"
        f" && rule.resourceNames.all(name, name.startsWith('{OWNED_PREFIX}'))"
        f" && rule.verbs.all(verb, verb in {listed(_AGENT_VERBS)}))",
    )


def _agent_subjects() -> str:
    return _all(
        "object.roleRef.kind == 'Role'",
        f"object.roleRef.name.startsWith('{OWNED_PREFIX}')",
        _any("!has(object.subjects)", f"object.subjects.all(one, {_account_here()})"),
    )


def _account_here() -> str:
    """That `one` is a service account of the namespace that is written to."""
    return (
        "one.kind == 'ServiceAccount' && has(one.namespace) && one.namespace == request.namespace"
    )


# ---- in the operator's own namespace


def _own_namespace(place: Install) -> str:
    named = f"request.name.startsWith('{place.release}-')"
    no_token = _any(
        "object == null",
        "!has(object.type)",
        "object.type != 'kubernetes.io/service-account-token'",
    )
    return _all(
        f"has(request.namespace) && request.namespace == '{place.namespace}'",
        "variables.isPlain",
        _any(
            _all(_is("coordination.k8s.io", "leases"), named),
            _all(_is("", "secrets"), named, no_token),
            _all(_is("", "pods"), _UNCHANGED),
        ),
    )


# ---- in the namespace of an Environment


def _environment(place: Install, operators: Sequence[Object]) -> str:
    labels = "namespaceObject.metadata.labels"
    return _all(
        f"has(request.namespace) && namespaceObject != null && has({labels})",
        f"'{NAMESPACE_TYPE}' in {labels} && {labels}['{NAMESPACE_TYPE}'] == '{ENVIRONMENT}'",
        "variables.isPlain",
        _any(
            _named("", "configmaps", INVENTORY),
            _named("", "limitranges", "default-limits"),
            _named("", "resourcequotas", "default-quota"),
            _all(_named("", "serviceaccounts", "default"), _any(_DELETES, _no_token())),
            _all(_is("", "secrets"), _release()),
            # Those of others may be deleted: they could open what the Environment is held in.
            _all(
                _is("networking.k8s.io", "networkpolicies"),
                _any(_DELETES, "request.name == 'default-policy'", _starts("allow-")),
            ),
            _all(_is(role.RBAC_GROUP, "rolebindings"), _bindings(place, operators)),
        ),
    )


def _no_token() -> str:
    field = "object.automountServiceAccountToken"
    return f"has({field}) && !{field}"


def _release() -> str:
    return _all(
        _starts(RELEASE_PREFIX),
        _any(_DELETES, f"has(object.type) && object.type == '{RELEASE_TYPE}'"),
    )


def _bindings(place: Install, operators: Sequence[Object]) -> str:
    """The two bindings, each to exactly whom it is meant for."""
    itself = _any(*(_subject(one) for one in operators))
    applier = f"{_account_here()} && one.name == '{rbac_environments.APPLIER}'"
    return _any(
        _binding(rbac_environments.MANAGER_BINDING, place.environment_manager, itself),
        _binding(rbac_environments.APPLIER, place.environment_applier, applier),
    )


def _binding(name: str, granted: str, subject: str) -> str:
    content = _all(
        f"object.roleRef.kind == 'ClusterRole' && object.roleRef.name == '{granted}'",
        f"has(object.subjects) && object.subjects.all(one, {subject})",
    )
    return _all(f"request.name == '{name}'", _any(_DELETES, content))


def _subject(operator: Object) -> str:
    """That `one` is this operator."""
    named = f"one.kind == '{operator['kind']}' && one.name == '{operator['name']}'"
    if operator["kind"] != "ServiceAccount":
        return named
    return f"{named} && has(one.namespace) && one.namespace == '{operator['namespace']}'"


# ---- parts of expressions


def _is(group: str, resource: str) -> str:
    return f"request.resource.group == '{group}' && request.resource.resource == '{resource}'"


def _named(group: str, resource: str, name: str) -> str:
    return f"{_is(group, resource)} && request.name == '{name}'"


def _starts(prefix: str) -> str:
    return f"request.name.startsWith('{prefix}')"


def _all(*parts: str) -> str:
    return " && ".join(part if _is_simple(part) else f"({part})" for part in parts)


def _any(*parts: str) -> str:
    return " || ".join(f"({part})" for part in parts)


def _is_simple(part: str) -> bool:
    return "||" not in part


def _variable(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}
