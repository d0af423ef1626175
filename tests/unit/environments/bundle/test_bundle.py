"""Bundles: from the objects of a project to the objects that are applied."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET
from windlass.api.install.environment_objects import APPLIER_NAME, Stage
from windlass.environments import owned_objects
from windlass.environments.bundle import bundle as bundles
from windlass.environments.bundle import kinds
from windlass.environments.bundle.bundle import APPLIED_HASH, Bundle, BundleRefused
from windlass.environments.render.manifests import ManifestObject, RenderRefused
from windlass.objects.names import Object


def _bundle_of(*objects: Object) -> Bundle:
    return written.build_bundle(objects, TARGET)


def _refused(*objects: Object) -> BundleRefused:
    with pytest.raises(BundleRefused) as caught:
        _bundle_of(*objects)
    return caught.value


def test_another_team_is_no_other_revision() -> None:
    """Its label is applied; no hook runs again for it, and no pod restarts."""
    one = _bundle_of(written.deployment(), written.job())
    target = replace(TARGET, owner=replace(OWNER, team="other"))
    two = written.build_bundle([written.deployment(), written.job()], target)
    assert two.digest == one.digest
    for before, after in zip(one.members, two.members, strict=True):
        assert after.applied_hash == before.applied_hash
        assert after.object["metadata"]["labels"]["catalyst.dev/team"] == "other"
        assert after.object["spec"] == before.object["spec"]


@pytest.mark.scenario("E68")
def test_all_offenders_are_named_at_once() -> None:
    """A project that brings three kinds it may not bring hears of all three."""
    rbac = "rbac.authorization.k8s.io/v1"
    refusal = _refused(
        written.deployment(),
        written.make_object(rbac, "ClusterRoleBinding", "admin"),
        written.make_object("v1", "Namespace", "other"),
        written.make_object(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.org"
        ),
    )
    assert refusal.reason == "KindNotAllowed"
    for name in (
        "ClusterRoleBinding/admin",
        "Namespace/other",
        "CustomResourceDefinition/things.example.org",
    ):
        assert f"{written.FILE}, {name}" in str(refusal)
    assert "Deployment" not in str(refusal)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("v1", "ResourceQuota"),
        ("v1", "LimitRange"),
        ("v1", "Endpoints"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("v1", "PersistentVolume"),
        ("apps/v1", "ReplicaSet"),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        ("networking.k8s.io/v1", "IngressClass"),
    ],
)
def test_a_kind_that_is_not_allowed_is_refused(api_version: str, kind: str) -> None:
    """With a remedy."""
    refusal = _refused(written.make_object(api_version, kind, "x"))
    assert refusal.reason == "KindNotAllowed"
    assert f"kind {kind} (" in str(refusal)
    assert "is not allowed; remove it" in str(refusal)


def test_a_kind_of_a_chart_is_disabled_in_its_values() -> None:
    """A chart has no exclude, and often is not the user's own."""
    objects = [ManifestObject(written.make_object("v1", "Namespace", "x"), "chart/x.yaml")]
    with pytest.raises(BundleRefused, match="is not allowed; disable it in the values"):
        bundles.build_bundle(objects, TARGET, is_chart=True)


def test_a_configuration_file_of_a_tool_is_no_built_in_kind() -> None:
    """Its group has no domain, but is not one of Kubernetes; a typo in such a group is named."""
    refusal = _refused(written.make_object("skaffold/v4beta6", "Config", "x"))
    assert refusal.reason == "KindUnknown"
    assert "kind Config (skaffold) is not supported" in str(refusal)
    typo = _refused(written.make_object("app/v1", "Deployment", "x"))
    assert "apiVersion app/v1 is not supported; rewrite the object for apps/v1" in str(typo)


@pytest.mark.parametrize("kind", ["Deployment", "Anything"])
def test_a_kind_of_another_group_is_unknown(kind: str) -> None:
    """A kind counts with its group: the same kind in another group is another type."""
    refusal = _refused(written.make_object("example.org/v1", kind, "x"))
    assert refusal.reason == "KindUnknown"
    assert f"kind {kind} (example.org) is not supported" in str(refusal)


@pytest.mark.parametrize(
    ("api_version", "kind", "now"),
    [
        ("extensions/v1beta1", "Deployment", "apps/v1"),
        ("extensions/v1beta1", "DaemonSet", "apps/v1"),
        ("apps/v1beta2", "StatefulSet", "apps/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"),
        ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v2"),
        ("autoscaling/v1", "HorizontalPodAutoscaler", "autoscaling/v2"),
        ("v1", "Deployment", "apps/v1"),
        ("/v1", "ConfigMap", "v1"),
    ],
)
def test_an_older_group_or_version_names_its_successor(
    api_version: str, kind: str, now: str
) -> None:
    """It has other fields, so only its author can rewrite the object."""
    refusal = _refused(written.make_object(api_version, kind, "x"))
    assert refusal.reason == "ApiVersionNotSupported"
    assert f"apiVersion {api_version} is not supported; rewrite the object for {now}" in str(
        refusal
    )


def test_a_container_names_its_image() -> None:
    """Also one that runs first."""
    bare: Object = {"name": "a"}
    pod = written.pod_spec(containers=[bare], initContainers=[bare])
    refusal = _refused(written.cron_job("x", pod))
    assert refusal.reason == "ImageMissing"
    for group in ("containers", "initContainers"):
        path = f"CronJob/x spec.jobTemplate.spec.template.spec.{group}[0].image"
        assert f"{path}: image is required" in str(refusal)


@pytest.mark.parametrize("part", ["limits", "requests"])
def test_a_container_stays_below_the_maximum(part: str) -> None:
    """Of the LimitRange, which the API server would report for its pods only."""
    target = replace(TARGET, max_limits={"memory": "1Gi"})
    for amount, is_fine in (("1Gi", True), (1 << 30, True), ("1025Mi", False)):
        resources: Object = {part: {"memory": amount, "example.org/gpu": "9000"}}
        obj = written.deployment("web", written.container(resources=resources))
        if is_fine:
            assert written.build_bundle([obj], target).members
            continue
        with pytest.raises(BundleRefused) as caught:
            written.build_bundle([obj], target)
        assert caught.value.reason == "LimitAboveMaximum"
        assert f"containers[0].resources.{part}.memory: exceeds the maximum of 1Gi" in str(
            caught.value
        )


def test_pods_of_a_replication_controller_follow_its_template() -> None:
    """It never replaces pods itself, so another template is another object."""
    spec: Object = {"template": {"metadata": {}, "spec": written.pod_spec()}}
    first = _bundle_of(written.make_object("v1", "ReplicationController", "x", spec=spec)).members[
        0
    ]
    scaled = _bundle_of(
        written.make_object("v1", "ReplicationController", "x", spec={**spec, "replicas": 3})
    ).members[0]
    other: Object = {"template": {"spec": written.container(image="example.org/app:2")}}
    changed = _bundle_of(
        written.make_object("v1", "ReplicationController", "x", spec=other)
    ).members[0]
    assert first.stage == Stage.WORKLOADS
    assert not bundles.replaces_pods(scaled.object, first.object)
    assert bundles.replaces_pods(changed.object, first.object)
    web = _bundle_of(written.deployment()).members[0].object
    assert not bundles.replaces_pods(web, {**web, "spec": {}})


def test_many_violations_are_counted() -> None:
    """The message stays readable; all violations are there."""
    refusal = _refused(
        *(written.make_object("v1", "Namespace", f"n{number}") for number in range(30))
    )
    assert len(refusal.violations) == 30
    assert str(refusal).endswith("; and 20 more")


def test_violations_of_several_kinds_are_reported_together() -> None:
    """The gravest gives the reason."""
    refusal = _refused(
        written.make_object("v1", "Namespace", "n"),
        written.service("s", type="ExternalName"),
        written.make_object("v1", "ConfigMap", "c", data=5),
        written.make_object("v1", "ConfigMap", "windlass-inventory"),
    )
    assert refusal.reason == "KindNotAllowed"
    assert {one.reason for one in refusal.violations} == {
        "KindNotAllowed",
        "FieldNotAllowed",
        "ConfigInvalid",
        "NameReserved",
    }


@pytest.mark.scenario("E69")
def test_a_foreign_namespace_is_overwritten_and_noted() -> None:
    """Charts often carry one; everything goes into ours."""
    obj = written.make_object("v1", "ConfigMap", "c")
    obj["metadata"]["namespace"] = "production"
    bundle = _bundle_of(obj)
    assert bundle.members[0].object["metadata"]["namespace"] == TARGET.namespace
    [note] = bundle.notes
    assert "ConfigMap/c" in note
    assert "production" in note


@pytest.mark.scenario("E69")
def test_an_object_of_the_operator_is_refused() -> None:
    """By its kind and its name, also where the kind alone would be refused."""
    assert (
        _refused(written.make_object("v1", "ResourceQuota", "default-quota")).reason
        == "NameReserved"
    )
    assert _refused(written.make_object("v1", "ServiceAccount", "default")).reason == "NameReserved"
    assert (
        _refused(written.make_object("v1", "Secret", "windlass-release-3")).reason == "NameReserved"
    )
    assert _bundle_of(written.make_object("v1", "ConfigMap", "default-quota")).members


def test_everything_the_operator_keeps_is_reserved() -> None:
    """Of the kinds that are not dropped anyway."""
    target = TARGET.namespace
    kept = (
        owned_objects.manager_binding(
            target, OWNER, "r", owned_objects.OperatorAccount("windlass")
        ),
        owned_objects.applier_binding(target, OWNER, "r"),
        owned_objects.default_service_account(target, OWNER),
        owned_objects.limit_range(target, OWNER, {}),
        owned_objects.resource_quota(target, OWNER, {}),
        owned_objects.config_map(target, OWNER, "windlass-inventory", {}),
        written.make_object("v1", "ServiceAccount", APPLIER_NAME),
    )
    for obj in kept:
        assert kinds.is_reserved(obj["kind"], obj["metadata"]["name"])


def test_routes_and_policies_of_charts_are_dropped_and_listed() -> None:
    """The operator creates routes and network policies itself."""
    bundle = _bundle_of(
        written.make_object(
            "networking.k8s.io/v1", "NetworkPolicy", "open", spec={"podSelector": {}}
        ),
        written.make_object("networking.k8s.io/v1", "Ingress", "web"),
        written.make_object("gateway.networking.k8s.io/v1", "HTTPRoute", "web", metadata=[]),
        written.service(),
    )
    assert [str(member) for member in bundle.members] == ["Service/web"]
    assert bundle.dropped == ("HTTPRoute/(unnamed)", "Ingress/web", "NetworkPolicy/open")
    assert bundle.routes == ("HTTPRoute/(unnamed)", "Ingress/web")


def test_a_bundle_of_nothing_but_dropped_objects_is_refused() -> None:
    """Applying it would prune everything that runs."""
    ingress = written.make_object("networking.k8s.io/v1", "Ingress", "web")
    with pytest.raises(RenderRefused) as caught:
        bundles.build_bundle(
            [ManifestObject(ingress, written.FILE)], TARGET, left_out=["values.yaml (no object)"]
        )
    assert caught.value.reason == "RenderFailed"
    assert str(caught.value) == (
        "nothing to apply, because everything is left out: Ingress/web, values.yaml (no object); "
        "check the path and exclude of the template"
    )


def test_a_duplicate_object_is_refused() -> None:
    """One would overwrite the other; also if they named different namespaces."""
    other = written.make_object("v1", "ConfigMap", "c", data={"a": "b"})
    other["metadata"]["namespace"] = "elsewhere"
    refusal = _refused(written.make_object("v1", "ConfigMap", "c"), other)
    assert refusal.reason == "ConfigInvalid"
    assert "ConfigMap/c: duplicate object" in str(refusal)


def test_objects_are_applied_in_stages() -> None:
    """Objects that others need come first."""
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    bundle = _bundle_of(
        written.make_object("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec=target),
        written.deployment(),
        written.service(),
        written.make_object("v1", "PersistentVolumeClaim", "data"),
        written.make_object("v1", "Secret", "s"),
        written.make_object("v1", "ConfigMap", "c"),
        written.make_object("v1", "ServiceAccount", "a"),
    )
    assert [member.stage for member in bundle.members] == [
        Stage.ACCOUNTS,
        Stage.CONFIGURATION,
        Stage.CONFIGURATION,
        Stage.VOLUMES,
        Stage.SERVICES,
        Stage.WORKLOADS,
        Stage.SCALING,
    ]


def test_a_secret_is_encoded_as_the_server_stores_it() -> None:
    """Plain text wins over encoded text of the same name, as it does on the server."""
    secret = written.make_object(
        "v1", "Secret", "s", data={"a": "YQ==", "b": "Yg=="}, stringData={"b": "ä", "c": ""}
    )
    obj = _bundle_of(secret).members[0].object
    assert "stringData" not in obj
    assert obj["data"] == {"a": "YQ==", "b": base64.b64encode("ä".encode()).decode(), "c": ""}
    assert "stringData" in secret


def test_the_hash_follows_the_object() -> None:
    """The same object has the same hash; with other labels it has another."""
    first, again = _bundle_of(written.deployment()), _bundle_of(written.deployment())
    other = _bundle_of(written.deployment(replicas=2))
    assert first.members[0].applied_hash == again.members[0].applied_hash
    assert first.members[0].applied_hash != other.members[0].applied_hash
    assert (first.digest == again.digest, first.digest == other.digest) == (True, False)
    moved = written.build_bundle([written.deployment()], replace(TARGET, namespace="env-x"))
    assert moved.digest != first.digest


def test_a_hash_annotation_of_a_project_is_ignored() -> None:
    """Ours is computed after theirs is removed."""
    obj = written.deployment()
    obj["metadata"]["annotations"] = {APPLIED_HASH: "0" * 16}
    assert _bundle_of(obj).members[0].object == _bundle_of(written.deployment()).members[0].object


def test_fields_assigned_by_the_server_are_not_applied() -> None:
    """An object out of `kubectl get -o yaml` is taken for what its author wrote."""
    obj = {**written.deployment(), "status": {"replicas": 3}}
    obj["metadata"] |= {
        "uid": "u",
        "resourceVersion": "5",
        "generation": 7,
        "creationTimestamp": None,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "Deployment"}],
        "finalizers": ["example.org/never"],
        "managedFields": [],
    }
    assert _bundle_of(obj).members[0].object == _bundle_of(written.deployment()).members[0].object


def test_inputs_stay_as_they_are() -> None:
    """The objects given are never changed."""
    obj = written.stateful_set(volumeClaimTemplates=[{"metadata": {"name": "d", "uid": "x"}}])
    before = repr(obj)
    _bundle_of(obj)
    assert repr(obj) == before


def test_an_account_of_the_bundle_may_be_used() -> None:
    """And no other: only what comes along is known to have no rights."""
    pod = written.pod_spec(serviceAccountName="worker")
    assert _refused(written.deployment("web", pod)).reason == "FieldNotAllowed"
    assert _bundle_of(
        written.deployment("web", pod), written.make_object("v1", "ServiceAccount", "worker")
    )
    foreign = written.make_object("example.org/v1", "ServiceAccount", "worker")
    assert "ServiceAccount worker not found in the manifests" in str(
        _refused(written.deployment("web", pod), foreign)
    )
