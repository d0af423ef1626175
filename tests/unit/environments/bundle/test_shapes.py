"""The shape that an object must have before other rules are checked."""

from __future__ import annotations

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import container, pod_spec
from windlass.environments.bundle import kinds, shapes
from windlass.objects.names import JSON, Object

WRONG: list[tuple[str, Object]] = [
    ("metadata", {"apiVersion": "v1", "kind": "ConfigMap"}),
    ("metadata", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": ["a"]}),
    ("metadata", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": 5}),
    ("metadata.name", written.make_object("v1", "ConfigMap", "")),
    ("metadata.name", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 5}}),
    ("metadata.name", written.make_object("v1", "ConfigMap", "a/../../secrets/b")),
    ("metadata.name", written.make_object("v1", "ConfigMap", "..")),
    ("metadata.name", written.make_object("v1", "ConfigMap", "Upper")),
    ("metadata.name", written.make_object("v1", "ConfigMap", "x" * 254)),
    ("data", written.make_object("v1", "ConfigMap", "a", data=["x"])),
    ("data.PORT", written.make_object("v1", "ConfigMap", "a", data={"PORT": 8080})),
    ("binaryData.b", written.make_object("v1", "ConfigMap", "a", binaryData={"b": "not base64!"})),
    ("data.token", written.make_object("v1", "Secret", "a", data={"token": "hunter2"})),
    ("stringData.on", written.make_object("v1", "Secret", "a", stringData={"on": True})),
    ("type", written.make_object("v1", "Secret", "a", type={})),
    ("spec", written.make_object("v1", "Service", "a", spec="x")),
    ("spec.ports[0]", written.make_object("v1", "Service", "a", spec={"ports": [80]})),
    ("spec.selector", written.make_object("v1", "Service", "a", spec={"selector": "app"})),
    ("spec", written.make_object("apps/v1", "Deployment", "a")),
    ("spec", written.make_object("apps/v1", "Deployment", "a", spec=None)),
    ("spec", written.make_object("apps/v1", "Deployment", "a", spec=5)),
    ("spec.template", written.make_object("apps/v1", "Deployment", "a", spec={"replicas": 1})),
    (
        "spec.template.spec",
        written.make_object("batch/v1", "Job", "a", spec={"template": {"spec": {}}}),
    ),
    ("spec.template.spec.containers", written.deployment("a", {"containers": [], "volumes": []})),
    ("spec.template.spec.containers[0]", written.deployment("a", {"containers": ["x"]})),
    (
        "spec.template.spec.containers[0].name",
        written.deployment("a", {"containers": [{"image": "x"}]}),
    ),
    ("spec.template.spec.volumes", written.deployment("a", pod_spec(volumes={"a": {}}))),
    ("spec.template.spec.volumes[0]", written.deployment("a", pod_spec(volumes=[None]))),
    ("spec.template.spec.securityContext", written.deployment("a", pod_spec(securityContext=5))),
    (
        "spec.template.spec.serviceAccountName",
        written.deployment("a", pod_spec(serviceAccountName=5)),
    ),
    ("spec.template.spec.containers[0].ports", written.deployment("a", container(ports=80))),
    (
        "spec.template.spec.containers[0].resources",
        written.deployment("a", container(resources=[1])),
    ),
    (
        "spec.template.spec.containers[0].resources.requests.cpu",
        written.deployment("a", container(resources={"requests": {"cpu": "lots"}})),
    ),
    (
        "spec.template.spec.containers[0].resources.limits.cpu",
        written.deployment("a", container(resources={"limits": {"cpu": {"x": 1}}})),
    ),
    (
        "spec.jobTemplate",
        written.make_object("batch/v1", "CronJob", "a", spec={"schedule": "* * * * *"}),
    ),
    (
        "spec.volumeClaimTemplates[0]",
        written.stateful_set("a", volumeClaimTemplates=["x"]),
    ),
    (
        "spec.scaleTargetRef",
        written.make_object(
            "autoscaling/v2", "HorizontalPodAutoscaler", "a", spec={"maxReplicas": 3}
        ),
    ),
    ("data.x", written.make_object("v1", "ConfigMap", "a", data={"x": "\ud800"})),
    ("spec.replicas", written.deployment("a", replicas=2**63)),
    ("spec.replicas", written.deployment("a", replicas=float("nan"))),
]


def _labeled(**metadata: JSON) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        *WRONG,
        ("metadata.labels", _labeled(labels=5)),
        ("metadata.labels.a", _labeled(labels={"a": 5})),
        ("metadata.labels.a", _labeled(labels={"a": True})),
        ("metadata.annotations", _labeled(annotations=["a"])),
        ("metadata.annotations.a", _labeled(annotations={"a": {}})),
        ("metadata.namespace", _labeled(namespace=5)),
    ],
)
def test_what_is_wrong_is_named_by_its_path(path: str, obj: Object) -> None:
    """Values of the wrong type never reach the rules, the defaults or the API server."""
    [(where, why)] = shapes.shape_faults(obj)
    assert where == path
    assert why


def test_no_value_is_reported() -> None:
    """A value in the wrong field may be a credential."""
    secret = written.make_object(
        "v1", "Secret", "a", data={"token": "hunter2"}, stringData={"b": ["hunter2"]}
    )
    assert "hunter2" not in str(list(shapes.shape_faults(secret)))


def test_null_counts_as_absent() -> None:
    """As it does for the API server."""
    obj = written.deployment("a", {**container(ports=None, resources=None), "volumes": None})
    obj["metadata"] |= {"labels": None, "annotations": None, "namespace": None}
    assert list(shapes.shape_faults(obj)) == []


def test_a_long_key_is_cut_in_its_path() -> None:
    """A path fits into a message."""
    [(where, _)] = shapes.shape_faults(_labeled(labels={"k" * 5000: 1}))
    assert len(where) < 100


@pytest.mark.parametrize(
    "obj",
    [
        written.deployment(),
        written.stateful_set(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}]),
        written.job(),
        written.cron_job(),
        written.service(ports=[{"port": 80}]),
        written.make_object("v1", "Pod", "a", spec=pod_spec()),
        written.make_object("v1", "PersistentVolumeClaim", "a", spec={"resources": {}}),
        written.make_object("v1", "ServiceAccount", "a"),
        written.make_object("v1", "Secret", "a", data={"a": "aGk=\n"}, stringData={"b": ""}),
        written.make_object("v1", "ConfigMap", "kube.config.v1", data={"a": ""}),
        written.deployment("a", container(resources={"limits": {"cpu": 1, "memory": 0.5}})),
    ],
)
def test_common_spellings_are_accepted(obj: Object) -> None:
    """Whole numbers are quantities, folded base64 is base64."""
    assert kinds.allowed_kind(obj) is not None
    assert list(shapes.shape_faults(obj)) == []
