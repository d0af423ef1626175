"""Allowed kinds, and the stage in which each is applied."""

from __future__ import annotations

import pytest

from tests.support.environments import manifests as written
from windlass.api.install.environment_objects import ALLOWED_KINDS, Stage
from windlass.environments.bundle import kinds
from windlass.objects.names import Object


@pytest.mark.parametrize(
    ("obj", "path", "templates"),
    [
        (written.make_object("v1", "Pod", "x", spec=written.pod_spec()), "spec", ()),
        (written.deployment(), "spec.template.spec", (("spec", "template"),)),
        (
            written.cron_job(),
            "spec.jobTemplate.spec.template.spec",
            (("spec", "jobTemplate"), ("spec", "jobTemplate", "spec", "template")),
        ),
    ],
)
def test_where_pods_are_described(
    obj: Object, path: str, templates: tuple[tuple[str, ...], ...]
) -> None:
    """In the object itself, in its template, or in the template of its template."""
    assert kinds.pod_spec_path(obj) == path
    spec = kinds.pod_spec(obj)
    assert spec is not None
    assert spec["containers"]
    assert kinds.template_paths(obj) == templates


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"kind": "Pod"},
        {"apiVersion": 5, "kind": ["Pod"]},
        {"apiVersion": "v1", "kind": "Pod", "spec": 5},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": []}},
        {"apiVersion": "v1", "kind": "ConfigMap", "spec": {}},
    ],
)
def test_where_there_is_no_pod_none_is_found(obj: Object) -> None:
    """Whatever the field contains instead."""
    assert kinds.pod_spec(obj) is None


def test_nothing_is_both_dropped_and_allowed() -> None:
    """And every kind is applied under the group it is listed by."""
    assert not kinds.DROPPED_KINDS & ALLOWED_KINDS.keys()
    for (group, _), allowed in ALLOWED_KINDS.items():
        assert allowed.gvr.group == group


def test_objects_that_others_need_come_first() -> None:
    """Accounts, then configuration, volumes, services, workloads, and autoscalers."""
    stages = [ALLOWED_KINDS[kind].stage for kind in (("", "Secret"), ("apps", "Deployment"))]
    assert stages == sorted(stages)
    assert ALLOWED_KINDS["policy", "PodDisruptionBudget"].stage is Stage.SCALING
