"""Every built-in kind, as a real API server returned it, loses only what it must."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.api.install import webhook
from windlass.objects import yaml_emitter, yaml_reader
from windlass.reverser.content import sanitize

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kinds"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.yaml"))

# Plural resources with group, as served by the version the fixtures were taken from,
# without kinds that cannot be read back (reviews, bindings) or are computed.
SERVED = [
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "serviceaccounts",
    "services",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "controllerrevisions.apps",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "horizontalpodautoscalers.autoscaling",
    "cronjobs.batch",
    "jobs.batch",
    "certificatesigningrequests.certificates.k8s.io",
    "leases.coordination.k8s.io",
    "endpointslices.discovery.k8s.io",
    "events.events.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "ingressclasses.networking.k8s.io",
    "ingresses.networking.k8s.io",
    "ipaddresses.networking.k8s.io",
    "networkpolicies.networking.k8s.io",
    "servicecidrs.networking.k8s.io",
    "runtimeclasses.node.k8s.io",
    "poddisruptionbudgets.policy",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
]

SERVER_METADATA = tuple(
    f"metadata/{field}"
    for field in (
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
        "generateName",
        "ownerReferences",
        "finalizers",
    )
)
ALWAYS = (
    "status",
    *SERVER_METADATA,
    "metadata/annotations",
    "metadata/annotations/kubectl.kubernetes.io?*",
    "metadata/annotations/deployment.kubernetes.io?*",
    "metadata/annotations/deprecated.daemonset.template.generation",
    "metadata/annotations/endpoints.kubernetes.io?last-change-trigger-time",
)
OF_KIND = {
    "Service": (
        "spec/clusterIP",
        "spec/clusterIPs",
        "spec/ipFamilies",
        "spec/ipFamilyPolicy",
        "spec/healthCheckNodePort",
        "spec/ports/[0-9]/nodePort",
    ),
    "PersistentVolumeClaim": (
        "spec/volumeName",
        "metadata/annotations/pv.kubernetes.io?bind-completed",
        "metadata/annotations/pv.kubernetes.io?bound-by-controller",
    ),
    "PersistentVolume": ("spec/claimRef/uid", "spec/claimRef/resourceVersion"),
    "Namespace": ("spec/finalizers", "metadata/labels/kubernetes.io?metadata.name"),
    "Node": ("spec/podCIDR", "spec/podCIDRs", "spec/providerID"),
    "Pod": ("spec/nodeName", "spec/priority"),
    "Job": (
        "spec/selector",
        "spec/template/metadata/labels/controller-uid",
        "spec/template/metadata/labels/job-name",
        "spec/template/metadata/labels/batch.kubernetes.io?controller-uid",
        "spec/template/metadata/labels/batch.kubernetes.io?job-name",
    ),
    "ClusterRole": ("rules",),
}


def live(name: str) -> dict[str, Any]:
    """One fixture object, as the API server gave it."""
    value: dict[str, Any] = yaml_reader.read((FIXTURES / f"{name}.yaml").read_bytes())
    return value


def lost_fields(before: Any, after: Any, field_path: str = "") -> Iterator[str]:
    """The fields of `before` that `after` lacks; anything changed or added is marked."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            here = f"{field_path}/{key.replace('/', '?')}".removeprefix("/")
            if key not in after:
                yield here
            elif key not in before:
                yield f"added {here}"
            else:
                yield from lost_fields(before[key], after[key], here)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from lost_fields(*pair, f"{field_path}/{number}")
    elif before != after:
        yield f"changed {field_path}"


def test_every_kind_has_a_fixture() -> None:
    """No kind of the server is without its golden object."""
    assert set(SERVED) <= set(NAMES)


@pytest.mark.scenario("A41")
@pytest.mark.parametrize("name", NAMES)
def test_only_listed_fields_are_lost(name: str) -> None:
    """Cleaning takes the fields of the specification and leaves every other as it was."""
    obj = live(name)
    allowed = ALWAYS + OF_KIND.get(obj["kind"], ())
    gone = set(lost_fields(obj, sanitize.sanitize_object(obj)))
    unexpected = {
        field_path
        for field_path in gone
        if not any(fnmatch.fnmatchcase(field_path, rule) for rule in allowed)
    }
    assert unexpected == set()


@pytest.mark.parametrize("name", NAMES)
def test_cleaning_is_pure_idempotent_and_emits(name: str) -> None:
    """The input stays unchanged, cleaning twice changes nothing, the file reads back."""
    obj = live(name)
    before = copy.deepcopy(obj)
    cleaned = sanitize.sanitize_object(obj)
    assert obj == before
    assert sanitize.sanitize_object(cleaned) == cleaned
    assert yaml_reader.read(yaml_emitter.emit(cleaned)) == cleaned


@pytest.mark.parametrize("name", NAMES)
def test_no_server_assigned_metadata_is_left(name: str) -> None:
    """No uid, version or time of the cluster the object came from stays at its top."""
    obj = live(name)
    cleaned = sanitize.sanitize_object(obj)
    assert cleaned["metadata"].keys() <= {"name", "namespace", "labels", "annotations"}
    assert obj["metadata"]["uid"] not in str(cleaned)
    assert "status" not in cleaned


@pytest.mark.scenario("A42")
@pytest.mark.parametrize(
    ("name", "field_path", "value"),
    [
        ("storageclasses.storage.k8s.io", "provisioner", "csi.example.org"),
        ("priorityclasses.scheduling.k8s.io", "value", 1000),
        ("serviceaccounts", "imagePullSecrets", [{"name": "registry"}]),
        ("configmaps", "immutable", True),
        (
            "clusterroles.rbac.authorization.k8s.io",
            "aggregationRule",
            {"clusterRoleSelectors": [{"matchLabels": {"example.org/gather": "true"}}]},
        ),
        ("runtimeclasses.node.k8s.io", "handler", "sandbox"),
        ("gadgets.mirror.example.org", "foo", {"bar": [1, 2.5, "no", None]}),
    ],
)
def test_fields_outside_spec_survive(name: str, field_path: str, value: object) -> None:
    """Kinds that keep their intent at the top level keep it in Git."""
    assert sanitize.sanitize_object(live(name))[field_path] == value


@pytest.mark.scenario("A43")
def test_headless_service_stays_headless() -> None:
    """`clusterIP: None` is intent; the list the server made of it is not."""
    spec = sanitize.sanitize_object(live("services-headless"))["spec"]
    assert spec["clusterIP"] == "None"
    assert "clusterIPs" not in spec


@pytest.mark.scenario("A43")
def test_allocated_addresses_vanish_and_chosen_ones_stay() -> None:
    """The allocator's address and ports go; a port and a policy that a user wrote stay."""
    spec = sanitize.sanitize_object(live("services"))["spec"]
    assert not spec.keys() & {"clusterIP", "clusterIPs", "ipFamilies", "healthCheckNodePort"}
    assert [port.get("nodePort") for port in spec["ports"]] == [None, 30443]
    assert spec["internalTrafficPolicy"] == "Local"


@pytest.mark.scenario("A43")
def test_address_set_by_server_side_apply_stays() -> None:
    """A manager outside the control plane owns clusterIP, so it is the user's."""
    spec = sanitize.sanitize_object(live("services-fixed"))["spec"]
    assert spec["clusterIP"] == live("services-fixed")["spec"]["clusterIP"]
    assert spec["ipFamilyPolicy"] == "SingleStack"
    assert [port.get("nodePort") for port in spec["ports"]] == [30080, None]


@pytest.mark.scenario("A44")
def test_custom_kind_named_service_is_no_service() -> None:
    """Group and kind count together."""
    obj = live("services") | {"apiVersion": "mirror.example.org/v1"}
    assert sanitize.sanitize_object(obj)["spec"] == obj["spec"]


@pytest.mark.parametrize(
    ("name", "client", "cleaned"),
    [
        (
            webhook.WEBHOOK_NAME,
            {"service": {"name": "a", "path": f"{webhook.PATH_PREFIX}0a"}, "caBundle": "x"},
            {"service": {"name": "a"}, "caBundle": "x"},
        ),
        (
            webhook.WEBHOOK_NAME,
            {"url": f"https://127.0.0.1:9{webhook.PATH_PREFIX}0a"},
            {"url": "https://127.0.0.1:9"},
        ),
        ("a.example.org", {"service": {"path": "/a"}}, {"service": {"path": "/a"}}),
    ],
)
def test_the_path_of_our_webhook_stays_secret(name: str, client: object, cleaned: object) -> None:
    """What the operator fills in to know the API server is left out; other webhooks keep paths."""
    obj = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a"},
        "webhooks": [{"name": name, "clientConfig": client}],
    }
    assert sanitize.sanitize_object(obj)["webhooks"] == [{"name": name, "clientConfig": cleaned}]
