"""What the API server refuses although a role would allow it.

Roles cannot say "only in namespaces I made" or "only rules like these". Two admission
policies do:

- the **fence** speaks about the operator alone: each kind that it writes is bounded in where,
  by what name and with which content (`fence_bounds`); a namespace it touches only if it
  carries the uid of an Environment;
- the **marks** speak about everybody else: nobody but the operator may put the marks onto a
  namespace that make it one of an Environment, or a namespace made beforehand with a copied
  uid would be taken for ours.

Both match every subresource: with `*` alone a token of a foreign service account could be
made. A write that cannot be judged is refused. They come before the roles, also by the names
of their files; a policy counts only some moments after it was written, so the operator waits
until it sees itself refused (`environments.guard`).
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.api import fence_bounds, role
from windlass.api.fence_bounds import ADMISSION_GROUP, ENVIRONMENT_UID, NAMESPACE_TYPE, listed
from windlass.api.install import Install
from windlass.objects.names import Object

ENVIRONMENT = fence_bounds.ENVIRONMENT

_LEVEL = "pod-security.kubernetes.io/enforce"


def files(place: Install, who: Sequence[Object]) -> dict[str, list[Object]]:
    """Both policies with their bindings, in one file each."""
    return {
        "01-fence": _bound(place, _fence(place, who)),
        "01-fence-marks": _bound(place, _marks(place, [_user_name(subject) for subject in who])),
    }


def _user_name(subject: Object) -> str:
    """How the API server calls a subject that acts."""
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return str(subject["name"])


def _fence(place: Install, who: Sequence[Object]) -> Object:
    names = [_user_name(subject) for subject in who]
    return _policy(
        place,
        place.fence,
        "Keeps the writes of the operator inside what is its own, whatever its roles allow.",
        [{"name": "operator", "expression": f"request.userInfo.username in {listed(names)}"}],
        _match("*/*", ["*"], ["*"]),
        [*_namespace_variables(), *fence_bounds.variables(place, who)],
        [
            {
                "expression": "!variables.isNamespace || variables.isOwnedNamespace",
                "message": "the operator changes only namespaces that carry the uid of an "
                "Environment, and never that uid; it gives them no level but baseline or "
                "restricted",
            },
            {
                "expression": " || ".join(
                    f"variables.{name}" for name in ("isNamespace", *fence_bounds.BOUNDS)
                ),
                "message": "the operator writes only to its own namespace, to namespaces of "
                "Environments and to its own objects, each by name and with the content that "
                "windlass gives it",
            },
        ],
    )


def _namespace_variables() -> list[Object]:
    kind = "request.resource.group == '' && request.resource.resource == 'namespaces'"
    return [
        _variable("isNamespace", kind),
        _variable("uid", _mark("object", "annotations", ENVIRONMENT_UID)),
        _variable("oldUid", _mark("oldObject", "annotations", ENVIRONMENT_UID)),
        _variable("level", _mark("object", "labels", _LEVEL)),
        _variable(
            "isOwnedNamespace",
            "(!has(request.subResource) || request.subResource == '')"
            " && (request.operation == 'CREATE' || variables.oldUid != '')"
            " && (request.operation == 'DELETE' || variables.uid != '')"
            " && (request.operation != 'UPDATE' || variables.uid == variables.oldUid)"
            " && variables.level != 'privileged'",
        ),
    ]


def _marks(place: Install, names: list[str]) -> Object:
    marks = (("labels", NAMESPACE_TYPE), ("labels", ENVIRONMENT_UID))
    variables: list[Object] = []
    kept = []
    for number, (part, key) in enumerate((*marks, ("annotations", ENVIRONMENT_UID))):
        variables.append(_variable(f"new{number}", _mark("object", part, key)))
        variables.append(_variable(f"old{number}", _mark("oldObject", part, key)))
        kept.append(
            f"(variables.new{number} == '' || variables.new{number} == variables.old{number})"
        )
    return _policy(
        place,
        f"{place.fence}-marks",
        "Lets nobody but the operator mark a namespace as one of an Environment; taking marks "
        "away is free, the operator then leaves the namespace alone.",
        [{"name": "others", "expression": f"!(request.userInfo.username in {listed(names)})"}],
        _match(["namespaces", "namespaces/*"], ["CREATE", "UPDATE"], [""]),
        variables,
        [
            {
                "expression": " && ".join(kept),
                "message": f"only windlass sets {NAMESPACE_TYPE} and {ENVIRONMENT_UID}; "
                "create an Environment instead",
            }
        ],
    )


def _mark(obj: str, part: str, key: str) -> str:
    """The value of a label or annotation; empty where there is none."""
    place = f"{obj}.metadata.{part}"
    return f"{obj} != null && has({place}) && '{key}' in {place} ? {place}['{key}'] : ''"


def _variable(name: str, expression: str) -> Object:
    return {"name": name, "expression": expression}


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
    place: Install,
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
        "metadata": role.metadata(place, name, purpose),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": match,
            "matchConditions": conditions,
            "variables": variables,
            "validations": [told | {"reason": "Forbidden"} for told in validations],
        },
    }


def _bound(place: Install, policy: Object) -> list[Object]:
    name = policy["metadata"]["name"]
    binding = {
        "apiVersion": f"{ADMISSION_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": role.metadata(place, name, "Puts the policy above into force."),
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return [policy, binding]
