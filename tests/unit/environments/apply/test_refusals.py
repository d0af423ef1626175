"""Classification of refusals by the API server, whose messages are not reported."""

from __future__ import annotations

import pytest

from windlass.api.install.environment_objects import ALLOWED_KINDS
from windlass.environments import phase
from windlass.environments.apply import refusals
from windlass.environments.apply.refusals import ApplyRefusal
from windlass.environments.bundle.bundle import Member
from windlass.kube.errors import ApiError, Forbidden, Invalid, Unavailable

_TYPED = "failed to create typed patch object (a/web; apps/v1, Kind=Deployment): "
_SECRETIVE = 'env: [{"name": "TOKEN", "value": "hunter2"}]'


def _member() -> Member:
    allowed = ALLOWED_KINDS["apps", "Deployment"]
    obj = {"kind": "Deployment", "metadata": {"name": "web"}}
    return Member(allowed.gvr, allowed.stage, obj, "deploy/all.yaml")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            Forbidden(403, "Forbidden", f"exceeded quota: default-quota {_SECRETIVE}"),
            "QuotaExceeded",
        ),
        (Forbidden(403, "Forbidden", f"violates PodSecurity {_SECRETIVE}"), "PodSecurityDenied"),
        (
            Forbidden(403, "Forbidden", f"maximum memory usage per Container is 1 {_SECRETIVE}"),
            "LimitAboveMaximum",
        ),
        (Forbidden(403, "Forbidden", f"cannot patch {_SECRETIVE}"), "ApplyForbidden"),
        (Invalid(422, "Invalid", f"Required value {_SECRETIVE}"), "ConfigInvalid"),
        (ApiError(400, "BadRequest", f"strict decoding error {_SECRETIVE}"), "ConfigInvalid"),
        (ApiError(413, "RequestEntityTooLarge", f"too large {_SECRETIVE}"), "ConfigInvalid"),
        (Unavailable(500, "Unavailable", f"{_TYPED}.spec.x: {_SECRETIVE}"), "ConfigInvalid"),
        (Unavailable(500, "InternalError", f"etcd is ill {_SECRETIVE}"), "ApplyFailed"),
        (Unavailable(503, "Unavailable", f"later {_SECRETIVE}"), "ApplyFailed"),
    ],
)
def test_each_refusal_has_its_reason_and_no_value(error: ApiError, reason: str) -> None:
    """The object, the rule and the fields are named; no value of the object is."""
    refusal = refusals.classify_error(_member(), error)
    assert refusal.reason == reason
    assert "deploy/all.yaml, Deployment/web" in refusal.message
    assert "hunter2" not in refusal.message


def test_fields_are_named() -> None:
    """The path of a field is no secret."""
    error = Invalid(422, "Invalid", "no", fields=("spec.selector", "[]"))
    assert (
        "invalid value of spec.selector, the whole object"
        in refusals.classify_error(_member(), error).message
    )


def test_an_immutable_field_is_refused_with_a_remedy() -> None:
    """Only a user may allow deletion."""
    refusal = refusals.immutable_refusal(_member(), ("spec.selector",))
    assert refusal.reason == "ImmutableField"
    assert "spec.selector cannot be changed in place" in refusal.message
    assert "catalyst.dev/recreate" in refusal.message


def test_a_permanent_failure_is_reported_first() -> None:
    """A failure that is retried does not hide one that needs a change."""
    both = [ApplyRefusal("ApplyFailed", "later"), ApplyRefusal("ConfigInvalid", "wrong")]
    refusal = refusals.stage_failure(both, is_new=False)
    assert refusal.condition.reason == "ConfigInvalid"
    assert refusal.condition.type == phase.DEPLOYMENT
    assert refusal.failed


def test_a_denial_counts_only_once_the_binding_is_old_enough() -> None:
    """New rights take effect with a delay; later the same denial needs a user."""
    denied = [refusals.classify_error(_member(), Forbidden(403, "Forbidden", "no"))]
    fresh = refusals.stage_failure(denied, is_new=True)
    assert fresh.requeue_after is not None
    assert not fresh.failed
    assert refusals.stage_failure(denied, is_new=False).condition.reason == "ApplyForbidden"
    assert refusals.stage_failure(denied, is_new=False).failed


def test_a_terminating_object_is_waited_for() -> None:
    """An object in the way of its successor is no failure."""
    terminating = refusals.terminating_refusal(_member(), {"metadata": {}})
    refusal = refusals.stage_failure([terminating], is_new=False)
    assert refusal.condition.reason == "Applying"
    assert refusal.requeue_after is not None


@pytest.mark.parametrize(
    ("level", "trusted", "remedy"),
    [
        ("restricted", True, "securityContext, or set spec.security.podSecurity: baseline in the"),
        ("restricted", False, "ask the administrator for --environments-untrusted-pod-security"),
        ("baseline", True, "level of the namespace; fix its securityContext"),
    ],
)
def test_pod_security_has_a_remedy_that_helps(level: str, trusted: bool, remedy: str) -> None:
    """The Project decides the level of trusted Environments only, and it has two levels."""
    error = Forbidden(403, "Forbidden", f'violates PodSecurity "{level}:latest": privileged')
    message = refusals.classify_error(_member(), error, trusted=trusted).message
    assert remedy in message
    assert ("baseline" in message) is (level == "restricted")


def test_many_refusals_stay_one_sentence() -> None:
    """The first ones are named, the others counted."""
    many = [ApplyRefusal("ConfigInvalid", f"object {n}") for n in range(9)]
    assert "and 4 more" in refusals.stage_failure(many, is_new=False).condition.message
