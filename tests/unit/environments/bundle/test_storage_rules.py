"""Which claims for storage are refused, and which StorageClasses may be used."""

from __future__ import annotations

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import pod_spec
from windlass.environments.bundle import cluster_access, shapes, storage_rules
from windlass.environments.bundle.cluster_access import AllowedStorageClasses
from windlass.objects.names import JSON, Object

_CLASSES = AllowedStorageClasses(frozenset({"fast", "slow"}), "fast")
_ASKING: dict[str, JSON] = {"accessModes": ["ReadWriteOnce"]}


def _claim(**spec: JSON) -> Object:
    return written.make_object("v1", "PersistentVolumeClaim", "data", spec={**_ASKING, **spec})


def _refused_fields(obj: Object, classes: AllowedStorageClasses = _CLASSES) -> list[str]:
    assert list(shapes.shape_faults(obj)) == []
    return [path for path, _ in storage_rules.claim_faults(obj, classes)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("volumeName", "pv-1"),
        ("selector", {"matchLabels": {"a": "b"}}),
        ("selector", {}),
        ("dataSource", {"kind": "PersistentVolumeClaim", "name": "x"}),
        ("dataSourceRef", {"kind": "VolumeSnapshot", "name": "x", "namespace": "y"}),
        ("storageClassName", ""),
        ("storageClassName", "manual"),
    ],
)
def test_a_claim_asks_for_storage_and_chooses_none(field: str, value: JSON) -> None:
    """In a claim, in a template of a StatefulSet, in a pod of any workload."""
    spec = {**_ASKING, field: value}
    volumes: JSON = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    pod = pod_spec(volumes=volumes)
    inside = "volumes[0].ephemeral.volumeClaimTemplate.spec"
    assert _refused_fields(_claim(**{field: value})) == [f"spec.{field}"]
    templates: JSON = [{"metadata": {"name": "d"}, "spec": spec}]
    assert _refused_fields(written.stateful_set(volumeClaimTemplates=templates)) == [
        f"spec.volumeClaimTemplates[0].spec.{field}"
    ]
    assert _refused_fields(written.deployment("web", pod)) == [
        f"spec.template.spec.{inside}.{field}"
    ]
    assert _refused_fields(written.cron_job("x", pod)) == [
        f"spec.jobTemplate.spec.template.spec.{inside}.{field}"
    ]
    assert _refused_fields(written.make_object("v1", "Pod", "p", spec=pod)) == [
        f"spec.{inside}.{field}"
    ]


@pytest.mark.parametrize(
    "key",
    [
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "pv.kubernetes.io/bind-completed",
    ],
)
def test_annotations_of_the_volume_binder_are_refused(key: str) -> None:
    """The binder trusts them, whoever wrote them."""
    claim = _claim()
    claim["metadata"]["annotations"] = {key: "x", "team": "a"}
    assert _refused_fields(claim) == [f"metadata.annotations.{key}"]


@pytest.mark.parametrize(
    "spec", [{}, {"storageClassName": "slow"}, {"volumeName": "", "selector": None}]
)
def test_a_plain_claim_is_fine(spec: dict[str, JSON]) -> None:
    """With an allowed class or the default one."""
    assert _refused_fields(_claim(**spec)) == []


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (
            AllowedStorageClasses(frozenset({"a", "b"})),
            "has no default StorageClass; set it to one of: a, b",
        ),
        (
            AllowedStorageClasses(frozenset({"a"}), "x"),
            "the default StorageClass is not allowed; set it to",
        ),
        (AllowedStorageClasses(), "no StorageClass with a provisioner is available"),
    ],
)
def test_a_claim_without_a_class_needs_an_allowed_default(
    classes: AllowedStorageClasses, message: str
) -> None:
    """Without one it would bind any volume that has no class either."""
    [(path, why)] = storage_rules.claim_faults(_claim(), classes)
    assert path == "spec.storageClassName"
    assert message in why


def _class(name: str, provisioner: str = "example.com/disk", **metadata: JSON) -> Object:
    return {"metadata": {"name": name, **metadata}, "provisioner": provisioner}


def test_classes_with_a_provisioner_are_allowed_unless_some_are_listed() -> None:
    """A class without one is there to bind volumes created by hand."""
    observed = [_class("fast"), _class("manual", "kubernetes.io/no-provisioner")]
    assert cluster_access.classes(observed, ()) == AllowedStorageClasses(frozenset({"fast"}))
    assert cluster_access.classes(observed, {"manual"}) == AllowedStorageClasses(
        frozenset({"manual"})
    )


def test_the_newest_default_class_counts() -> None:
    """As the API server chooses; among equals the first by name."""
    default: JSON = {"storageclass.kubernetes.io/is-default-class": "true"}
    old, new = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    observed = [
        _class("c", annotations=default, creationTimestamp=new),
        _class("b", annotations=default, creationTimestamp=new),
        _class("a", annotations=default, creationTimestamp=old),
        _class("d", creationTimestamp=new),
    ]
    assert cluster_access.classes(observed, ()).default == "b"
