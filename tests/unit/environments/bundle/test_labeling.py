"""Labels and annotations of everything that is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET, pod_spec
from windlass.environments import ownership
from windlass.environments.bundle import labeling
from windlass.objects.names import Object

THEIRS = {
    "app": "web",
    "app.kubernetes.io/managed-by": "Helm",
    "catalyst.dev/environment-uid": "another-uid",
    "catalyst.dev/team": "admins",
    "catalyst.dev/anything": "x",
    "windlass.dev/retryAt": "now",
    "pod-security.kubernetes.io/enforce": "privileged",
}
SERVERS = {"finalizers": ["x/y"], "ownerReferences": [{"uid": "u"}], "uid": "u"}


def _labeled(obj: Object) -> Any:
    return labeling.label_object(obj, OWNER, TARGET.namespace)


def _dirty(**more: object) -> Object:
    return {"labels": dict(THEIRS), "annotations": dict(THEIRS), **SERVERS, **more}


@pytest.mark.scenario("E69")
def test_the_operators_labels_win() -> None:
    """Labels of the project are kept unless they have our prefix; ours are complete."""
    metadata = _labeled({**written.deployment(), "metadata": _dirty(name="web")})["metadata"]
    assert metadata == {
        "name": "web",
        "namespace": TARGET.namespace,
        "labels": {"app": "web", **OWNER.labels},
        "annotations": {
            "app": "web",
            "app.kubernetes.io/managed-by": "Helm",
            **OWNER.annotations,
        },
    }
    assert ownership.owner_uid({"metadata": metadata}) == OWNER.uid


def test_annotations_that_a_project_may_set_are_kept() -> None:
    """Whether it may be pruned, whether it may be recreated."""
    annotations = {labeling.PRUNE: "true", labeling.RECREATE: "true"}
    obj = written.make_object("v1", "PersistentVolumeClaim", "data")
    obj["metadata"]["annotations"] = annotations
    assert annotations.items() <= _labeled(obj)["metadata"]["annotations"].items()


def test_pod_templates_are_labeled_for_selection() -> None:
    """Without the branch, which would restart every pod, and without foreign labels."""
    obj = written.deployment()
    obj["spec"]["template"]["metadata"] = _dirty(namespace="other")
    metadata = _labeled(obj)["spec"]["template"]["metadata"]
    assert metadata["labels"] == {"app": "web", **OWNER.pod_labels}
    assert metadata["annotations"] == {"app": "web", "app.kubernetes.io/managed-by": "Helm"}
    assert metadata.keys() == {"labels", "annotations"}
    moved = labeling.label_object(obj, replace(OWNER, branch="other"), TARGET.namespace)
    assert moved["spec"] == _labeled(obj)["spec"]


def test_both_templates_of_a_cron_job_are_labeled() -> None:
    """Its Jobs are found by label, and so are their pods."""
    obj = written.cron_job()
    obj["spec"]["jobTemplate"]["metadata"] = _dirty()
    outer = _labeled(obj)["spec"]["jobTemplate"]
    assert outer["metadata"]["labels"] == {"app": "web", **OWNER.pod_labels}
    assert outer["metadata"].keys() == {"labels", "annotations"}
    assert outer["spec"]["template"]["metadata"]["labels"] == OWNER.pod_labels


def test_claim_templates_get_no_labels_and_keep_no_reserved_ones() -> None:
    """Neither those of a StatefulSet nor those of ephemeral volumes."""
    claim = {"metadata": _dirty(name="data", namespace="other"), "spec": {"x": 1}}
    pod = pod_spec(volumes=[{"name": "tmp", "ephemeral": {"volumeClaimTemplate": claim}}])
    spec = _labeled(written.stateful_set("db", pod, volumeClaimTemplates=[claim]))["spec"]
    [volume] = spec["template"]["spec"]["volumes"]
    for template in (spec["volumeClaimTemplates"][0], volume["ephemeral"]["volumeClaimTemplate"]):
        assert template["spec"] == {"x": 1}
        assert template["metadata"] == {
            "name": "data",
            "labels": {"app": "web", "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"app": "web", "app.kubernetes.io/managed-by": "Helm"},
        }


@pytest.mark.parametrize(
    "obj",
    [
        written.deployment(selector={"matchLabels": {"app": "x", ownership.MANAGED_BY: "Helm"}}),
        written.service(selector={"app": "x", ownership.MANAGED_BY: "Helm"}),
        written.make_object(
            "policy/v1",
            "PodDisruptionBudget",
            "x",
            spec={"selector": {"matchLabels": {"app": "x", ownership.MANAGED_BY: "Helm"}}},
        ),
    ],
)
def test_selectors_meet_the_labels_that_pods_have(obj: Object) -> None:
    """A selector by a label that we set would else select nothing."""
    selector = _labeled(obj)["spec"]["selector"]
    assert selector.get("matchLabels", selector) == {"app": "x", ownership.MANAGED_BY: "windlass"}


def test_a_selector_of_volumes_is_not_about_pods() -> None:
    """Volumes are not labeled."""
    selector = {"matchLabels": {ownership.MANAGED_BY: "Helm"}}
    obj = written.make_object("v1", "PersistentVolumeClaim", "data", spec={"selector": selector})
    assert _labeled(obj)["spec"]["selector"] == selector


def test_an_object_without_labels_gets_ours() -> None:
    """Also where labels are null."""
    obj = written.make_object("v1", "ConfigMap", "c")
    obj["metadata"] |= {"labels": None, "annotations": None}
    assert _labeled(obj)["metadata"]["labels"] == OWNER.labels
