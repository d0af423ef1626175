"""The operator policies: whom they match, and that they cover every write."""

from __future__ import annotations

from windlass.api.install import (
    environment_objects,
    operator_policies,
    operator_policy_bounds,
    rbac,
)
from windlass.api.install.installation import Installation
from windlass.environments import owned_objects
from windlass.environments.ownership import Ownership
from windlass.environments.render import output_store
from windlass.objects.names import Object


def _policy(name: str, subject: Object | None = None) -> Object:
    setup = Installation()
    policy, binding = operator_policies.policies_by_file(setup, [subject or setup.service_account])[
        name
    ]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    spec: Object = policy["spec"]
    return spec


def test_the_operator_policy_matches_the_operator_alone() -> None:
    """The account that acts, a service account or a user of a local cluster."""
    (account,) = _policy("01-fence")["matchConditions"]
    assert "'system:serviceaccount:windlass-system:windlass'" in account["expression"]
    (person,) = _policy("01-fence", rbac.user_subject("desk"))["matchConditions"]
    assert person["expression"] == "request.userInfo.username in ['desk']"


def test_the_label_policy_matches_everyone_else() -> None:
    """It excludes the operator."""
    (others,) = _policy("01-fence-marks", rbac.user_subject("desk"))["matchConditions"]
    assert others["expression"] == "!(request.userInfo.username in ['desk'])"


def test_subresources_are_matched() -> None:
    """Every write of every type is checked, token requests included; a fault refuses."""
    spec = _policy("01-fence")
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"], rule["scope"]) == (["*/*"], ["*"], "*")
    assert spec["failurePolicy"] == _policy("01-fence-marks")["failurePolicy"] == "Fail"


def test_refusals_have_a_message() -> None:
    """Each is a sentence with reason Forbidden."""
    for name in ("01-fence", "01-fence-marks"):
        for validation in _policy(name)["validations"]:
            assert validation["reason"] == "Forbidden"
            assert len(validation["message"].split()) > 5


def test_every_bound_is_one_of_the_variables() -> None:
    """Every bound is declared, and every declared one is checked."""
    spec = _policy("01-fence")
    names = {row["name"] for row in spec["variables"]}
    assert set(operator_policy_bounds.BOUNDS) <= names
    checked = spec["validations"][1]["expression"].split(" || ")
    assert checked == [
        f"variables.{name}" for name in ("isNamespace", *operator_policy_bounds.BOUNDS)
    ]


def test_bounds_name_what_the_operator_writes() -> None:
    """The names in the policy are those of the objects of environments."""
    owner = Ownership(uid="u", namespace="team", name="pr", project="shop")
    owned = (
        owned_objects.manager_binding("n", owner, "r", owned_objects.OperatorAccount("windlass")),
        owned_objects.applier_binding("n", owner, "r"),
        owned_objects.default_service_account("n", owner),
        owned_objects.limit_range("n", owner, {}),
        owned_objects.resource_quota("n", owner, {}),
        owned_objects.config_map("n", owner, environment_objects.INVENTORY_NAME, {}),
    )
    bounds = {row["name"]: row["expression"] for row in _policy("01-fence")["variables"]}
    for obj in owned:
        assert f"request.name == '{obj['metadata']['name']}'" in bounds["isInEnvironment"]
    assert output_store.NAME.startswith(environment_objects.RELEASE_PREFIX)
