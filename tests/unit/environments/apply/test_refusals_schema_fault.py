"""Schema faults that the API server reports, in our own words."""

from __future__ import annotations

import pytest

from windlass.environments.apply import refusals

_TYPED = "failed to create typed patch object (env-a/web; apps/v1, Kind=Deployment): "
_UNTYPED = (
    "failed to convert new object (env-a/web; apps/v1, Kind=Deployment) to proper version: "
    "unable to convert unstructured object to apps/v1, Kind=Deployment: "
)
_ENV = '.spec.template.spec.containers[name="m"].env[name="A"].value'
_OBJECT = {"spec": {"replicas": 1.5, "ports": [{"port": 2.0}, {"port": 0.5}]}}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"{_TYPED}.spec.x: field not declared in schema", "spec.x: unknown field"),
        (f"{_TYPED}.spec.replicas: expected numeric (int or float), got string", "a number"),
        (f"{_TYPED}{_ENV}: expected string, got &value{{hunter2}}", f"{_ENV[1:]}: must be a str"),
        (f"{_TYPED}.immutable: expected boolean, got &{{hunter2}}", "must be true or false"),
        (f"{_TYPED}.spec.containers: expected list, got &{{hunter2}}", ": must be a list"),
        (f"{_TYPED}.data: expected map, got &{{[hunter2]}}", "data: must be a map"),
        (f'{_TYPED}.spec.ports: duplicate entries for key [port=80,protocol="TCP"]', "same key"),
        (f"{_TYPED}.spec.odd: hunter2", "spec.odd: has the wrong type"),
        (f"{_TYPED}errors:\n  .spec.a: expected list, got 1\n  .spec.b: x", "spec.b: has"),
        (f"{_UNTYPED}cannot convert float64 to int32", "spec.replicas, spec.ports[1].port: m"),
        (f"{_UNTYPED}quantities must match the regular expression", "500m, 2 or 1Gi"),
        (f"{_UNTYPED}parsing time hunter2", "a value has the wrong type for its field"),
    ],
)
def test_field_and_rule_are_reported_and_nothing_else(message: str, expected: str) -> None:
    """The value of the field is never reported."""
    description = refusals.describe_schema_fault(message, _OBJECT)
    assert description is not None
    assert expected in description
    assert "hunter2" not in description


@pytest.mark.parametrize("message", ["", "etcdserver: request timed out", "internal error: .spec"])
def test_faults_of_the_server_are_no_faults_of_the_object(message: str) -> None:
    """They are temporary."""
    assert refusals.describe_schema_fault(message, _OBJECT) is None
