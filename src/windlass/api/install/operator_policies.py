"""Admission policies that bound the operator, beyond what roles can express.

A role cannot express "only in namespaces I created" or "only rules like these". Two
ValidatingAdmissionPolicies do:

- the **operator policy** is about the operator alone: each kind that it writes is bounded in
  where, by what name and with which content (`operator_policy_bounds`); it touches a namespace
  only if that carries the uid of an Environment;
- the **ownership label policy** is about all other users: only the operator may set the labels
  that make a namespace one of an Environment. Otherwise a namespace that was created beforehand
  with a copied uid would be treated as ours.

Both match every subresource: with `*` alone a token of a foreign service account could be
created. A write that cannot be evaluated is denied. They come before the roles, also by the
names of their files. A policy takes effect only some moments after it was written, so the
operator waits until it sees itself denied (`environments.isolation.operator_policy`).

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.api.install import cluster_roles, operator_policy_bounds
from windlass.api.install.environment_objects import ENVIRONMENT_UID, NAMESPACE_TYPE
from windlass.api.install.installation import Installation
from windlass.api.install.operator_policy_bounds import (
    ADMISSION_GROUP,
    cel_list,
    policy_variable,
)
from windlass.objects.names import Object

_POD_SECURITY_LEVEL = "pod-security.kubernetes.io/enforce"
_LEVELS = ("baseline", "restricted")


def policies_by_file(
    installation: Installation, subjects: Sequence[Object]
) -> dict[str, list[Object]]:
    """Both policies with their bindings, in one file each."""
    return {
        "01-fence": _with_binding(installation, _operator_policy(installation, subjects)),
        "01-fence-marks": _with_binding(
            installation,
            _ownership_label_policy(installation, [_user_name(subject) for subject in subjects]),
        ),
    }


def _user_name(subject: Object) -> str:
    """The user name of a subject in admission requests."""
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])


def _operator_policy(installation: Installation, subjects: Sequence[Object]) -> Object:
    names = [_user_name(subject) for subject in subjects]
    return _policy(
        installation,
        installation.operator_policy,
        "Limits the writes of the operator to its own objects, whatever its roles allow.",
        [{"name": "operator", "expression": f"request.userInfo.username in {cel_list(names)}"}],
        _match("*/*", ["*"], ["*"]),
        [*_namespace_variables(), *operator_policy_bounds.bound_variables(installation, subjects)],
        [
            {
                "expression": "!variables.isNamespace || variables.isOwnedNamespace",
                "message": "the operator may only change namespaces that carry the uid of an "
                "Environment; it must not change that uid, and the Pod Security level must be "
                "baseline or restricted",
            },
            {
                "expression": " || ".join(
                    f"variables.{name}" for name in ("isNamespace", *operator_policy_bounds.BOUNDS)
                ),
                "message": "the operator may only write to its own namespace, to namespaces of "
                "Environments and to its own objects, each with a known name and content",
            },
        ],
    )


def _namespace_variables() -> list[Object]:
    kind = "request.resource.group == '' && request.resource.resource == 'namespaces'"
    return [
        policy_variable("isNamespace", kind),
        policy_variable("uid", _metadata_value("object", "annotations", ENVIRONMENT_UID)),
        policy_variable("oldUid", _metadata_value("oldObject", "annotations", ENVIRONMENT_UID)),
        policy_variable("level", _metadata_value("object", "labels", _POD_SECURITY_LEVEL)),
        policy_variable(
            "isOwnedNamespace",
            "(!has(request.subResource) || request.subResource == '')"
            " && (request.operation == 'CREATE' || variables.oldUid != '')"
            " && (request.operation == 'DELETE' || variables.uid != '')"
            " && (request.operation != 'UPDATE' || variables.uid == variables.oldUid)"
            # A namespace without a level would admit privileged pods.
            f" && (request.operation == 'DELETE' || variables.level in {cel_list(_LEVELS)})",
        ),
    ]


def _ownership_label_policy(installation: Installation, names: list[str]) -> Object:
    labels = (("labels", NAMESPACE_TYPE), ("labels", ENVIRONMENT_UID))
    variables: list[Object] = []
    unchanged = []
    for number, (part, key) in enumerate((*labels, ("annotations", ENVIRONMENT_UID))):
        variables.append(policy_variable(f"new{number}", _metadata_value("object", part, key)))
        variables.append(policy_variable(f"old{number}", _metadata_value("oldObject", part, key)))
        unchanged.append(
            f"(variables.new{number} == '' || variables.new{number} == variables.old{number})"
        )
    return _policy(
        installation,
        f"{installation.operator_policy}-marks",
        "Lets nobody but the operator label a namespace as one of an Environment. Anyone may "
        "remove the labels; the operator then leaves the namespace alone.",
        [{"name": "others", "expression": f"!(request.userInfo.username in {cel_list(names)})"}],
        _match(["namespaces", "namespaces/*"], ["CREATE", "UPDATE"], [""]),
        variables,
        [
            {
                "expression": " && ".join(unchanged),
                "message": f"only windlass may set {NAMESPACE_TYPE} and {ENVIRONMENT_UID}; "
                "create an Environment instead",
            }
        ],
    )


def _metadata_value(obj: str, part: str, key: str) -> str:
    """The value of a label or annotation; empty where there is none."""
    field = f"{obj}.metadata.{part}"
    return f"{obj} != null && has({field}) && '{key}' in {field} ? {field}['{key}'] : ''"


def _match(resources: str | list[str], operations: list[str], groups: list[str]) -> Object:
    rule = {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": operations,
        "resources": [resources] if isinstance(resources, str) else resources,
        "scope": "*",
    }
    return {"matchPolicy": "Equivalent", "resourceRules": [rule]}


def _policy(
    installation: Installation,
    name: str,
    purpose: str,
    conditions: list[Object],
    match: Object,
    variables: list[Object],
    validations: list[Object],
) -> Object:
    return {
        "apiVersion": f"{ADMISSION_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": cluster_roles.object_metadata(installation, name, purpose),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": match,
            "matchConditions": conditions,
            "variables": variables,
            "validations": [validation | {"reason": "Forbidden"} for validation in validations],
        },
    }


def _with_binding(installation: Installation, policy: Object) -> list[Object]:
    name = policy["metadata"]["name"]
    binding = {
        "apiVersion": f"{ADMISSION_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": cluster_roles.object_metadata(installation, name, "Enforces the policy above."),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]
