"""Which fields of an allowed object are refused."""

from __future__ import annotations

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import container, pod_spec
from windlass.environments.bundle import field_rules, shapes
from windlass.objects.names import JSON, Object

WORKLOADS = {
    "Pod": "spec",
    "Deployment": "spec.template.spec",
    "StatefulSet": "spec.template.spec",
    "DaemonSet": "spec.template.spec",
    "Job": "spec.template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
}
PODS: list[tuple[str, Object]] = [
    ("hostNetwork", pod_spec(hostNetwork=True)),
    ("hostPID", pod_spec(hostPID=True)),
    ("hostIPC", pod_spec(hostIPC=True)),
    ("nodeName", pod_spec(nodeName="node-1")),
    ("priorityClassName", pod_spec(priorityClassName="system-cluster-critical")),
    ("runtimeClassName", pod_spec(runtimeClassName="host")),
    ("serviceAccountName", pod_spec(serviceAccountName="windlass-applier")),
    ("serviceAccount", pod_spec(serviceAccount="windlass-applier")),
    ("serviceAccount", pod_spec(serviceAccountName="own", serviceAccount="other")),
    ("automountServiceAccountToken", pod_spec(automountServiceAccountToken=True)),
    ("ephemeralContainers", pod_spec(ephemeralContainers=[{"name": "look"}])),
    ("volumes[0].hostPath", pod_spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}])),
    ("volumes[0].nfs", pod_spec(volumes=[{"name": "v", "nfs": {"server": "x"}}])),
    ("volumes[0].flexVolume", pod_spec(volumes=[{"name": "v", "flexVolume": {"driver": "x"}}])),
    (
        "volumes[1].projected.sources[1].serviceAccountToken",
        pod_spec(
            volumes=[
                {"name": "a", "emptyDir": {}},
                {
                    "name": "b",
                    "projected": {"sources": [{"secret": {}}, {"serviceAccountToken": {}}]},
                },
            ]
        ),
    ),
    (
        "volumes[0].projected.sources[0].podCertificate",
        pod_spec(volumes=[{"name": "a", "projected": {"sources": [{"podCertificate": {}}]}}]),
    ),
    ("containers[0].ports[0].hostPort", container(ports=[{"containerPort": 1, "hostPort": 80}])),
    (
        "containers[0].ports[0].hostIP",
        container(ports=[{"containerPort": 1, "hostIP": "10.0.0.1"}]),
    ),
    ("containers[0].securityContext.privileged", container(securityContext={"privileged": True})),
    (
        "initContainers[0].securityContext.privileged",
        pod_spec(initContainers=[{"name": "i", "securityContext": {"privileged": True}}]),
    ),
    (
        "containers[0].livenessProbe.httpGet.host",
        container(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
    ),
    (
        "containers[0].readinessProbe.tcpSocket.host",
        container(readinessProbe={"tcpSocket": {"host": "10.0.0.1", "port": 80}}),
    ),
    (
        "containers[0].lifecycle.preStop.httpGet.host",
        container(lifecycle={"preStop": {"httpGet": {"host": "10.0.0.1", "port": 80}}}),
    ),
]


def _workload(kind: str, pod: Object) -> Object:
    if kind == "Pod":
        return written.make_object("v1", "Pod", "x", spec=pod)
    if kind == "Job":
        return written.job("x", pod)
    if kind == "CronJob":
        return written.cron_job("x", pod)
    return {**written.deployment("x", pod), "kind": kind}


def _found(obj: Object, *accounts: str) -> list[str]:
    assert list(shapes.shape_faults(obj)) == []
    return [
        violation.where
        for violation in field_rules.field_violations(
            obj, frozenset(accounts), written.CLUSTER_ACCESS
        )
    ]


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize(("path", "pod"), PODS)
def test_a_pod_may_not_leave_its_namespace(kind: str, path: str, pod: Object) -> None:
    """Every rule holds for bare pods and for every template, and names the path."""
    assert _found(_workload(kind, pod), "own") == [f"{kind}/x {WORKLOADS[kind]}.{path}"]


@pytest.mark.parametrize(("path", "pod"), PODS)
def test_every_refused_field_has_a_remedy(path: str, pod: Object) -> None:
    """Behind the cause, as a request."""
    obj = written.deployment("x", pod)
    [violation] = field_rules.field_violations(obj, frozenset({"own"}), written.CLUSTER_ACCESS)
    assert violation.why.partition("; ")[2].startswith(("remove ", "add ", "use "))


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_plain_pod_breaks_no_rule(kind: str) -> None:
    """Neither does one that disables everything, or that has nulls."""
    harmless = pod_spec(
        hostNetwork=False,
        nodeName="",
        automountServiceAccountToken=False,
        serviceAccountName="own",
        runtimeClassName=None,
        ephemeralContainers=[],
        volumes=[
            {"name": "a", "configMap": {"name": "c"}, "hostPath": None},
            {"name": "b", "secret": {"secretName": "s"}},
            {"name": "c", "emptyDir": {}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "p"}},
            {"name": "e", "projected": {"sources": [{"configMap": {"name": "c"}}]}},
        ],
    )
    assert _found(_workload(kind, pod_spec())) == []
    assert _found(_workload(kind, harmless), "own") == []


def test_probes_of_the_pod_itself_are_fine() -> None:
    """Only a host is refused: the node would call it from outside the isolation."""
    probe = {"httpGet": {"path": "/", "port": 80, "host": ""}}
    assert _found(_workload("Pod", container(livenessProbe=probe, startupProbe=probe))) == []


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("spec.type", {"type": "ExternalName"}),
        ("spec.externalIPs", {"externalIPs": ["203.0.113.1"]}),
        ("spec.externalName", {"externalName": "example.org"}),
    ],
)
def test_a_service_does_not_bypass_the_isolation(path: str, spec: dict[str, JSON]) -> None:
    """Nothing leads outside."""
    assert _found(written.service("web", **spec)) == [f"Service/web {path}"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"type": "ClusterIP"},
        {"clusterIP": "None"},
        {"type": "NodePort"},
        {"type": "LoadBalancer"},
    ],
)
def test_services_inside_are_fine(spec: dict[str, JSON]) -> None:
    """With or without an address; node ports and load balancers are removed (sanitizer)."""
    assert _found(written.service("web", **spec)) == []


def test_no_token_comes_with_a_secret_or_an_account() -> None:
    """Neither a Secret that the server fills with one nor an account that mounts one."""
    secret = written.make_object("v1", "Secret", "t", type="kubernetes.io/service-account-token")
    account = written.make_object("v1", "ServiceAccount", "a", automountServiceAccountToken=True)
    assert _found(secret) == ["Secret/t type"]
    assert _found(account) == ["ServiceAccount/a automountServiceAccountToken"]


@pytest.mark.parametrize(
    "obj",
    [
        written.service("x", selector={"catalyst.dev/branch": "main"}),
        written.deployment("x", selector={"matchLabels": {"catalyst.dev/branch": "main"}}),
        written.make_object(
            "policy/v1",
            "PodDisruptionBudget",
            "x",
            spec={"selector": {"matchLabels": {"windlass.dev/x": "y"}}},
        ),
    ],
)
def test_selecting_by_a_label_that_is_dropped_is_refused(obj: Object) -> None:
    """It would select nothing, without any report of the cause."""
    [where] = _found(obj)
    assert "spec.selector" in where


def test_all_violations_are_reported_at_once() -> None:
    """So that they can be fixed at once."""
    pod = {**pod_spec(hostNetwork=True, nodeName="n"), **container(ports=[{"hostPort": 1}])}
    assert len(_found(_workload("Deployment", pod))) == 3


@pytest.mark.parametrize(
    "obj", [{}, {"kind": 5, "metadata": []}, {"metadata": {"name": ["a"]}}, {"metadata": None}]
)
def test_anything_can_be_described(obj: Object) -> None:
    """Also what is no object at all."""
    assert field_rules.describe(obj).count("/") == 1
    assert field_rules.describe(obj).endswith("/(unnamed)")


def test_names_in_messages_are_cut_and_made_harmless() -> None:
    """A message is one line of bounded length."""
    text = field_rules.escape("a\nb\x1b[31m" + "x" * 1000 + "\ud800")
    assert text.isprintable()
    assert len(text) <= 253
    field_rules.escape("\ud800").encode()
