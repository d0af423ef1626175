"""Content of a repository that is skipped, changed, or refused with a remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.environments import helm
from tests.support.environments.charts import chart
from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_SERVICES = GVR("", "v1", "services")
_CONTROLLERS = GVR("", "v1", "replicationcontrollers")


def _conditions(environment: Any) -> dict[str, Any]:
    return {row["type"]: row for row in environment["status"]["conditions"]}


def _service(kind: str, **spec: Any) -> str:
    obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": kind.lower()},
        "spec": {
            "type": kind,
            "selector": {"app": "web"},
            "ports": [{"port": 80, "nodePort": 30000 + len(kind)}],
            "externalTrafficPolicy": "Local",
            **spec,
        },
    }
    return json.dumps(obj) + "\n---\n"


async def test_node_ports_and_load_balancers_become_cluster_ips(tenant: EnvironmentHarness) -> None:
    """Their other fields are left out, and status.unsupported lists each."""
    services_text = _service("NodePort") + _service(
        "LoadBalancer",
        loadBalancerIP="203.0.113.7",
        healthCheckNodePort=30099,
        loadBalancerSourceRanges=["0.0.0.0/0"],
        allocateLoadBalancerNodePorts=True,
    )
    tenant.commit({"deploy/all.yaml": services_text})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.phase("Ready")
        services = await tenant.api.list(_SERVICES, await tenant.environment_namespace())
    assert len(services) == 2
    for service in services:
        assert service["spec"]["type"] == "ClusterIP"
        assert "nodePort" not in service["spec"]["ports"][0]
        assert "loadBalancerIP" not in service["spec"]
    unsupported = "\n".join(environment["status"]["unsupported"])
    assert (
        "Service/nodeport is applied as ClusterIP instead of NodePort, without spec." in unsupported
    )
    assert "Service/loadbalancer is applied as ClusterIP instead of LoadBalancer" in unsupported
    for path in ("spec.ports[0].nodePort", "spec.externalTrafficPolicy", "spec.loadBalancerIP"):
        assert path in unsupported


def _controller(image: str) -> str:
    row = {"name": "main", "image": image}
    obj = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "old"},
        "spec": {
            "replicas": 2,
            "selector": {"app": "old"},
            "template": {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [row]}},
        },
    }
    return json.dumps(obj)


async def test_a_replication_controller_runs_and_its_pods_follow(
    tenant: EnvironmentHarness,
) -> None:
    """It is ready with its pods; a new template replaces all of them; then it is pruned."""
    tenant.commit({"deploy/all.yaml": _controller("registry.invalid/old:1")})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.wait_running()
        namespace = await tenant.environment_namespace()
        second = tenant.commit({"deploy/all.yaml": _controller("registry.invalid/old:2")})
        await tenant.wait_running(commit=second)

        async def are_replaced() -> bool:
            pods = await tenant.pods(namespace)
            images = [pod["spec"]["containers"][0]["image"] for pod in pods]
            return images == ["registry.invalid/old:2"] * 2

        await eventually(are_replaced, "two pods, of the new template alone")
        tenant.commit({"deploy/all.yaml": CONFIG_MAP})
        await tenant.wait_deleted(_CONTROLLERS, "old", namespace)


def _with(**pod: Any) -> str:
    obj: dict[str, Any] = json.loads(deployment())
    obj["spec"]["template"]["spec"] |= pod
    return json.dumps(obj)


def _limited(amount: str) -> str:
    return deployment(resources={"limits": {"memory": amount}})


_OLD = deployment().replace("apps/v1", "extensions/v1beta1")
_UNKNOWN = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\n"


@pytest.mark.parametrize(
    ("files", "reason", "message"),
    [
        ({"all.yaml": _limited("9Gi")}, "LimitAboveMaximum", "the maximum of 8Gi per container"),
        ({"all.yaml": deployment(image="")}, "ImageMissing", "containers[0].image: image is"),
        (
            {"all.yaml": _with(automountServiceAccountToken=True)},
            "TokenNotAllowed",
            "automountServiceAccountToken: pods must not have API tokens; remove",
        ),
        ({"all.yaml": _UNKNOWN}, "KindUnknown", "kind Widget (example.org) is not supported"),
        ({"all.yaml": _OLD}, "ApiVersionNotSupported", "rewrite the object for apps/v1"),
        (
            {"all.yaml": CONFIG_MAP.replace("name: settings", "generateName: settings-")},
            "RenderFailed",
            "metadata.generateName is not supported",
        ),
        (
            {"kustomization.yaml": "resources: [all.yaml]\n"},
            "RenderFailed",
            "deploy/kustomization.yaml: kustomize is not supported yet",
        ),
    ],
    ids=["limit", "image", "token", "unknown", "old", "generateName", "kustomize"],
)
async def test_each_refusal_has_its_reason_and_a_remedy(
    tenant: EnvironmentHarness, files: dict[str, str], reason: str, message: str
) -> None:
    """The message names the cause, the field and the remedy."""
    tenant.commit({f"deploy/{name}": text for name, text in files.items()})
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        environment = await tenant.condition("DeploymentReady", reason)
    assert environment["status"]["phase"] == "Failed"
    assert message in environment["status"]["message"]


@pytest.mark.parametrize(
    ("trust", "remedy"),
    [
        ("trusted", "podSecurity: baseline in the Project"),
        ("untrusted", "ask the administrator"),
    ],
)
async def test_an_image_with_a_non_numeric_user_gets_remedies(
    tenant: EnvironmentHarness, trust: str, remedy: str
) -> None:
    """The message of the kubelet alone does not tell what to change, and who may change it."""
    tenant.commit({"deploy/all.yaml": deployment()})
    text = "container has runAsNonRoot and image has non-numeric user (web), cannot verify user"
    waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": text}}}
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment(trust=trust))
        await tenant.phase("Deploying")
        namespace = await tenant.environment_namespace()

        async def reported() -> bool:
            await tenant.report_pods(namespace, ready=False, **waiting)
            message = (await tenant.get())["status"]["message"]
            return "securityContext.runAsUser" in message and remedy in message

        await eventually(reported, "both remedies")


async def test_a_missing_repository_fails_the_environment(tenant: EnvironmentHarness) -> None:
    """It is Stalled until the spec names another repository."""
    source = {"name": "app", "repositoryUrl": tenant.url.replace("app-", "gone-"), "branch": "main"}
    async with tenant.running():
        await tenant.apply(tenant.project(sources=[source]), tenant.environment())
        environment = await tenant.condition("BuildReady", "RepoNotFound")
    assert environment["status"]["phase"] == "Failed"
    assert _conditions(environment)["Stalled"]["status"] == "True"


async def test_a_transport_that_is_not_allowed_fails_the_environment(
    tenant: EnvironmentHarness,
) -> None:
    """It is Stalled like a missing repository, and the message names the remedy."""
    source = {"name": "app", "repositoryUrl": "http://git.invalid/app.git", "branch": "main"}
    async with tenant.running():
        await tenant.apply(tenant.project(sources=[source]), tenant.environment())
        environment = await tenant.condition("BuildReady", "InsecureTransport")
    assert environment["status"]["phase"] == "Failed"
    assert _conditions(environment)["Stalled"]["status"] == "True"
    assert environment["status"]["message"].startswith("http is not allowed for host git.invalid;")


async def test_a_directory_is_read_at_any_depth(tenant: EnvironmentHarness) -> None:
    """Hidden and excluded directories are skipped; what is not an object is listed as skipped."""

    def named(name: str) -> str:
        return CONFIG_MAP.replace("settings", name)

    tenant.commit(
        {
            "deploy/all.yaml": named("top"),
            "deploy/a/b/deep.yml": named("deep"),
            "deploy/.github/workflows/ci.yml": named("hidden"),
            "deploy/test/fixture.yaml": named("fixture"),
            "deploy/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
            "deploy/values.yaml": "replicas: 2\n",
            "deploy/compose.yaml": "services: {web: {image: x}}\n---\n" + named("beside"),
        }
    )
    template = {"type": "manifest", "path": "deploy", "exclude": ["test/**"]}
    async with tenant.running():
        await tenant.apply(tenant.project(templates={"default": template}), tenant.environment())
        environment = await tenant.phase("Ready")
        maps = await tenant.api.list(CONFIG_MAPS, await tenant.environment_namespace())
    ours = {row["metadata"]["name"] for row in maps} - {"kube-root-ca.crt", "windlass-inventory"}
    assert ours == {"top", "deep", "beside"}
    assert environment["status"]["unsupported"] == [
        "deploy/Chart.yaml (not a Kubernetes object) is not applied",
        "deploy/compose.yaml, document 1 (not a Kubernetes object) is not applied",
        "deploy/values.yaml (not a Kubernetes object) is not applied",
    ]


_TIED = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: tied
  finalizers: [example.org/never]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: y}]
  labels: {catalyst.dev/team: other}
"""
_INGRESS = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
"""


async def test_a_commit_without_anything_to_apply_prunes_nothing(
    tenant: EnvironmentHarness,
) -> None:
    """It is refused with what was left out; what the commit before it applied keeps running."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        tenant.commit({"deploy/all.yaml": _INGRESS})
        environment = await tenant.condition("DeploymentReady", "RenderFailed")
        namespace = await tenant.environment_namespace()
        assert await tenant.api.get(CONFIG_MAPS, "settings", namespace)
    assert environment["status"]["phase"] == "Failed"
    assert "everything is left out: Ingress/web" in environment["status"]["message"]


_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
"""


async def test_everything_left_out_of_a_chart_is_listed(tenant: EnvironmentHarness) -> None:
    """CRDs, finalizers, owners, reserved labels and routes; IngressReady is False."""
    files = chart({"tied.yaml": _TIED, "web.yaml": _INGRESS})
    tenant.commit({**files, "chart/crds/widgets.yaml": _CRD})
    template = {"type": "helm", "path": "chart"}
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates={"default": template}), tenant.environment())
        environment = await tenant.phase("Ready")
        live = await tenant.api.get(CONFIG_MAPS, "tied", await tenant.environment_namespace())
    assert environment["status"]["unsupported"] == [
        "Ingress/web is not applied",
        "crds/widgets.yaml (CustomResourceDefinitions) is not applied",
        "ConfigMap/tied is applied without metadata.finalizers, metadata.ownerReferences, "
        "metadata.labels.catalyst.dev/team",
    ]
    route = _conditions(environment)["IngressReady"]
    assert (route["status"], route["reason"]) == ("False", "RoutesNotSupported")
    assert "Ingress/web not applied" in route["message"]
    assert _conditions(environment)["Ready"]["status"] == "True"
    assert "finalizers" not in live["metadata"]
