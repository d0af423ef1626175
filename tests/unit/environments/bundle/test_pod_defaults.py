"""Defaults of pods for fields that a manifest does not set."""

from __future__ import annotations

import pytest

from tests.support.environments.manifests import TARGET, container, pod_spec
from windlass.environments.bundle import pod_defaults
from windlass.objects.names import JSON, Object

LIMITS = TARGET.default_limits


def _secured(spec: Object, *, restricted: bool = True) -> Object:
    return pod_defaults.apply_pod_defaults(spec, LIMITS, restricted=restricted)


def _resources(**resources: JSON) -> JSON:
    return _secured(container(resources=resources))["containers"][0]["resources"]


def test_a_silent_pod_meets_the_restricted_level() -> None:
    """Everything that level demands is filled in, in every container."""
    spec = _secured(pod_spec(initContainers=[{"name": "i"}]))
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for row in (*spec["initContainers"], *spec["containers"]):
        assert row["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_set_fields_stay() -> None:
    """Only absent fields are filled; whether they are allowed, the Pod Security level decides."""
    pod = {"runAsNonRoot": False, "fsGroup": 5}
    inner = {"allowPrivilegeEscalation": True, "capabilities": {"drop": ["NET_RAW"]}}
    spec = _secured({**container(securityContext=inner), "securityContext": pod})
    assert spec["securityContext"]["runAsNonRoot"] is False
    assert spec["securityContext"]["fsGroup"] == 5
    assert spec["containers"][0]["securityContext"] == inner


def test_a_capability_that_is_added_does_not_keep_the_others() -> None:
    """Dropping is a field of its own, and it is absent."""
    spec = _secured(container(securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"]}}))
    assert spec["containers"][0]["securityContext"]["capabilities"] == {
        "add": ["NET_BIND_SERVICE"],
        "drop": ["ALL"],
    }


def test_null_is_absent() -> None:
    """Else a null would open what the default closes."""
    silent = {
        **container(securityContext={"allowPrivilegeEscalation": None, "capabilities": None}),
        "automountServiceAccountToken": None,
        "enableServiceLinks": None,
        "securityContext": None,
        "initContainers": None,
    }
    assert _secured(silent) == _secured(pod_spec())


def test_another_level_gets_no_security_context() -> None:
    """What the level allows may be used; a token and service links are still not given."""
    spec = _secured(pod_spec(), restricted=False)
    assert spec == {
        **pod_spec(),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }


@pytest.mark.parametrize(
    ("requested", "limit"),
    [("100m", "500m"), ("500m", "500m"), ("2", "2"), (3, "3"), ("0.5", "0.5"), ("501m", "501m")],
)
def test_a_missing_limit_is_the_larger_of_request_and_default(requested: JSON, limit: str) -> None:
    """A default below the request would make the API server refuse the pod."""
    assert _resources(requests={"cpu": requested})["limits"] == {"cpu": limit}


def test_set_limits_stay() -> None:
    """Absent ones are filled; resources without a request are left to the LimitRange."""
    resources = _resources(
        requests={"cpu": "1", "memory": "1Gi", "example.org/gpu": 1}, limits={"cpu": "4"}
    )
    assert resources["limits"] == {"cpu": "4", "memory": "1Gi"}
    assert resources["requests"] == {"cpu": "1", "memory": "1Gi", "example.org/gpu": 1}
    assert "resources" not in _secured(pod_spec())["containers"][0]
    assert _resources(limits={"cpu": "4"}) == {"limits": {"cpu": "4"}}
    assert _resources(requests={"cpu": None})["requests"] == {"cpu": None}
