"""The fence: about whom it speaks, and that it misses nothing."""

from __future__ import annotations

from windlass.api import fence, rbac
from windlass.api.install import Install
from windlass.objects.json import Object


def _policy(name: str, subject: Object | None = None) -> Object:
    place = Install()
    policy, binding = fence.files(place, [subject or place.service_account])[name]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    spec: Object = policy["spec"]
    return spec


def test_it_speaks_about_the_operator_alone() -> None:
    """The fence holds for the account that acts, a service account or a person at a desk."""
    (account,) = _policy("01-fence")["matchConditions"]
    assert "'system:serviceaccount:windlass-system:windlass'" in account["expression"]
    (person,) = _policy("01-fence", rbac.user("desk"))["matchConditions"]
    assert person["expression"] == "request.userInfo.username in ['desk']"


def test_the_marks_speak_about_everybody_else() -> None:
    """The other policy leaves the operator out."""
    (others,) = _policy("01-fence-marks", rbac.user("desk"))["matchConditions"]
    assert others["expression"] == "!(request.userInfo.username in ['desk'])"


def test_subresources_are_matched() -> None:
    """Every write of every type is judged, also that of a token; a fault refuses."""
    spec = _policy("01-fence")
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"], rule["scope"]) == (["*/*"], ["*"], "*")
    assert spec["failurePolicy"] == _policy("01-fence-marks")["failurePolicy"] == "Fail"


def test_refusals_say_why() -> None:
    """Each refusal is a sentence and counts as forbidden."""
    for name in ("01-fence", "01-fence-marks"):
        for validation in _policy(name)["validations"]:
            assert validation["reason"] == "Forbidden"
            assert len(validation["message"].split()) > 5
