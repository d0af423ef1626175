"""Charts in a repository, rendered by helm and applied to the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.environments import helm
from tests.support.environments.charts import JOBS, chart, finish_job, hook, job
from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    DEPLOYMENTS,
    ENVIRONMENTS,
    PODS,
    SECRETS,
    EnvironmentHarness,
    deployment,
)
from tests.support.processes.polling import eventually
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

ACCOUNTS = GVR("", "v1", "serviceaccounts")

_TEMPLATE = {
    "type": "helm",
    "path": "chart",
    "valuesFiles": ["values/a.yaml", "values/b.yaml"],
    "values": {"order": {"template": "template", "environment": "template"}},
}
_SEEN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-seen", namespace: somewhere}
data:
{{- range $key, $value := .Values.order }}
  {{ $key }}: {{ $value | quote }}
{{- end }}
  namespace: {{ .Release.Namespace }}
  version: {{ .Capabilities.KubeVersion.Version }}
  kinds: '{{ .Capabilities.APIVersions.Has "catalyst.catalyst.dev/v1alpha1/Environment" }}'
---
apiVersion: v1
kind: Secret
metadata: {name: drawn}
stringData: {password: {{ randAlphaNum 24 }}}
"""
_ORDER = ("chart", "first", "second", "template", "environment")


@pytest.mark.scenario("E65")
async def test_a_chart_is_rendered_with_values_in_their_order(tenant: EnvironmentHarness) -> None:
    """Generated values stay, after a restart and with other inputs."""
    order = "".join(f"  {name}: chart\n" for name in _ORDER)
    tenant.commit(
        {
            **chart({"seen.yaml": _SEEN}, f"order:\n{order}"),
            "values/a.yaml": "order: {first: first, second: first, template: first}\n",
            "values/b.yaml": "order: {second: second, template: second}\n",
        }
    )
    desired = tenant.environment(values={"order": {"environment": "environment"}})
    async with tenant.running(helm=helm.helm_program()) as controller:
        await tenant.apply(tenant.project(templates={"default": _TEMPLATE}), desired)
        environment = await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        seen = (await tenant.api.get(CONFIG_MAPS, "one-seen", namespace))["data"]
        assert {name: seen[name] for name in _ORDER} == {name: name for name in _ORDER}
        assert seen["namespace"] == namespace
        assert (seen["version"][:3], seen["kinds"]) == ("v1.", "true")
        assert "somewhere" in str(environment["status"]["unsupported"])
        drawn = (await tenant.api.get(SECRETS, "drawn", namespace))["data"]
        tenant.commit({"README": "nothing of the chart"})
        await tenant.request_reconcile()
        await tenant.reconcile_times(controller, 10)
        assert (await tenant.get())["status"]["revision"] == 1
    async with tenant.running(helm=helm.helm_program()):
        await tenant.request_reconcile()
        assert (await tenant.api.get(SECRETS, "drawn", namespace))["data"] == drawn
        assert (await tenant.get())["status"]["revision"] == 1
        desired["spec"]["values"]["order"]["environment"] = "again"
        await tenant.apply(desired)

        async def changed() -> bool:
            live = await tenant.api.get(CONFIG_MAPS, "one-seen", namespace)
            return bool(live["data"]["environment"] == "again")

        await eventually(changed, "the new value is applied")
        assert (await tenant.api.get(SECRETS, "drawn", namespace))["data"] == drawn


async def test_a_chart_that_cannot_be_rendered_fails_alone(tenant: EnvironmentHarness) -> None:
    """The missing dependency is named; one forbidden kind keeps the whole chart out."""
    needs = "dependencies: [{name: database, version: 1.0.0, repository: 'https://x.invalid'}]\n"
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\n"
    tenant.commit(
        {
            **chart({"a.yaml": CONFIG_MAP}, more=needs),
            "second/Chart.yaml": "apiVersion: v2\nname: second\nversion: 0.1.0\n",
            "second/templates/role.yaml": f"{role}---\n{CONFIG_MAP}",
        }
    )
    templates = {
        "staging": {"type": "helm", "path": "chart"},
        "roles": {"type": "helm", "path": "second"},
        "none": {"type": "helm", "path": "deploy"},
        "plain": {"type": "manifest", "path": "deploy"},
    }
    async with tenant.running(helm=helm.helm_program()):
        environments = [tenant.environment(name, type=name) for name in ("roles", "none", "plain")]
        await tenant.apply(tenant.project(templates=templates), tenant.environment(), *environments)
        await tenant.phase("Ready", "plain")
        broken = await tenant.condition("DeploymentReady", "RenderFailed")
        refused = await tenant.condition("DeploymentReady", "KindNotAllowed", "roles")
        missing = await tenant.condition("DeploymentReady", "RenderFailed", "none")
        namespace = await tenant.environment_namespace("roles")
        names = {row["metadata"]["name"] for row in await tenant.api.list(CONFIG_MAPS, namespace)}
    assert broken["status"]["phase"] == "Failed"
    assert "database" in broken["status"]["message"]
    assert "second/templates/role.yaml, ClusterRole/all" in refused["status"]["message"]
    assert names <= {"kube-root-ca.crt"}
    assert "deploy contains no Chart.yaml" in missing["status"]["message"]


async def test_without_helm_a_chart_is_refused(tenant: EnvironmentHarness) -> None:
    """Nothing else renders it."""
    tenant.commit(chart({"a.yaml": CONFIG_MAP}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=""):
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        environment = await tenant.condition("DeploymentReady", "SandboxUnavailable")
    assert environment["status"]["phase"] == "Failed"


@pytest.mark.scenario("E79")
async def test_hooks_run_in_order_and_once_per_revision(tenant: EnvironmentHarness) -> None:
    """Workloads wait for pre hooks, Ready for post hooks; a new revision runs them again."""
    jobs = {
        "first.yaml": job("first", "pre-install,pre-upgrade", -1),
        "second.yaml": job("second", "pre-install"),
        "after.yaml": job("after", "post-install,post-upgrade"),
        "last.yaml": job("last", "pre-delete"),
    }
    tenant.commit(chart({"web.yaml": deployment(replicas=0), **jobs}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=helm.helm_program()) as controller:
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        await tenant.condition("DeploymentReady", "HookRunning")
        namespace = await tenant.environment_namespace()
        assert await _names(tenant, namespace) == {"first"}
        uid = await finish_job(tenant, namespace, "first")
        await finish_job(tenant, namespace, "second")
        await eventually(lambda: _has(tenant, namespace, "after"), "the rollout is complete")
        assert (await tenant.get())["status"]["phase"] == "Deploying"
        await tenant.api.get(DEPLOYMENTS, "web", namespace)
        await finish_job(tenant, namespace, "after")
        environment = await tenant.phase("Ready")
        steps = [
            row["name"] for row in environment["status"]["steps"] if row["state"] == "Succeeded"
        ]
        assert steps[-5:] == ["preDeploy", "prepare", "workloads", "rollout", "postDeploy"]
        assert environment["status"]["progress"] == "9/9"
        assert "Job/last is not run as a pre-delete hook" in environment["status"]["unsupported"]
        await tenant.api.delete(JOBS, "second", namespace, propagation="Background")
        writes = _writes(tenant, namespace)
        await tenant.reconcile_times(controller, 2)
        assert _writes(tenant, namespace) == writes
        tenant.commit(chart({"web.yaml": deployment(replicas=0, image="x"), **jobs}))
        assert await finish_job(tenant, namespace, "first", "Failed") != uid
        failed = await tenant.condition("DeploymentReady", "HookFailed")
        assert failed["status"]["phase"] == "Failed"
        assert "hook Job/first failed: reported by the test" in failed["status"]["message"]
        assert "still serving" in failed["status"]["message"]
        web = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        assert web["metadata"]["generation"] == 1
        patch = {"metadata": {"annotations": {"windlass.dev/retryAt": "now"}}}
        await tenant.patch(ENVIRONMENTS, "one", patch, tenant.namespace)
        await finish_job(tenant, namespace, "first")
        await finish_job(tenant, namespace, "after")
        await tenant.phase("Ready")
        assert await _names(tenant, namespace) == {"first", "after"}
        # After a revision that never was ready, the hooks of the earlier content run again.
        tenant.commit(chart({"web.yaml": deployment(replicas=1, image="x"), **jobs}))
        await finish_job(tenant, namespace, "first")
        await tenant.condition("DeploymentReady", "RolloutProgressing")
        tenant.commit(chart({"web.yaml": deployment(replicas=0, image="x"), **jobs}))
        await finish_job(tenant, namespace, "first")
        await finish_job(tenant, namespace, "after")
        await tenant.phase("Ready")


async def test_a_lost_inventory_of_a_serving_environment_installs_nothing_again(
    tenant: EnvironmentHarness,
) -> None:
    """The hooks of an upgrade run, not those of an installation, which found no data."""
    jobs = {"new.yaml": job("new", "pre-install"), "next.yaml": job("next", "pre-upgrade")}
    tenant.commit(chart({"web.yaml": deployment(replicas=0), **jobs}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        await tenant.condition("DeploymentReady", "HookRunning")
        namespace = await tenant.environment_namespace()
        await finish_job(tenant, namespace, "new")
        await tenant.phase("Ready")
        await tenant.api.delete(JOBS, "new", namespace, propagation="Background")
        await tenant.api.delete(CONFIG_MAPS, "windlass-inventory", namespace)
        await finish_job(tenant, namespace, "next")
        await tenant.phase("Ready")
        assert await _names(tenant, namespace) == {"next"}


_BOTH = "pre-install,pre-upgrade"


def _hooked(color: str, **more: str) -> dict[str, str]:
    """A chart with hooks of many kinds beside its other objects."""
    pod = (
        "spec: {restartPolicy: Never, containers: [{name: main, image: registry.invalid/check}]}\n"
    )
    templates = {
        "account.yaml": hook("ServiceAccount", "migrator", _BOTH, -5),
        "login.yaml": hook("Secret", "login", _BOTH, -5, "stringData: {password: x}\n"),
        "scripts.yaml": hook("ConfigMap", "scripts", _BOTH, -5, f"data: {{color: {color}}}\n"),
        "migrate.yaml": job("migrate", _BOTH),
        "check.yaml": hook("Pod", "check", "pre-upgrade", 5, pod),
        "late.yaml": hook("ConfigMap", "late", _BOTH, 10, f"data: {{color: {color}}}\n"),
        "settings.yaml": CONFIG_MAP.replace("blue", color),
        "web.yaml": deployment(replicas=0, image=color),
        **more,
    }
    return chart(templates)


async def test_hooks_of_every_kind_come_before_everything_else(tenant: EnvironmentHarness) -> None:
    """By weight; while one runs or has failed, the serving revision stays unchanged."""
    old = CONFIG_MAP.replace("settings", "old")
    tenant.commit(_hooked("blue", **{"old.yaml": old}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=helm.helm_program()) as controller:
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        await tenant.condition("DeploymentReady", "HookRunning")
        namespace = await tenant.environment_namespace()
        await tenant.api.get(ACCOUNTS, "migrator", namespace)
        await tenant.api.get(SECRETS, "login", namespace)
        assert await _colors(tenant, namespace) == {"scripts": "blue"}
        await finish_job(tenant, namespace, "migrate")
        await tenant.phase("Ready")
        blue = {"scripts": "blue", "late": "blue", "settings": "blue", "old": "blue"}
        assert await _colors(tenant, namespace) == blue
        writes = _writes(tenant, namespace)
        await tenant.reconcile_times(controller, 2)
        assert _writes(tenant, namespace) == writes
        tenant.commit({**_hooked("red"), "chart/templates/old.yaml": None})
        await finish_job(tenant, namespace, "migrate", "Failed")
        failed = await tenant.condition("DeploymentReady", "HookFailed")
        assert "still serving" in failed["status"]["message"]
        assert failed["status"]["serving"]["revision"] == 1
        await tenant.reconcile_times(controller, 2)
        assert await _colors(tenant, namespace) == {**blue, "scripts": "red"}
        web = await tenant.api.get(DEPLOYMENTS, "web", namespace)
        assert web["metadata"]["generation"] == 1
        tenant.commit(_hooked("green"))
        await finish_job(tenant, namespace, "migrate")
        first = await _report_hook_pod(tenant, namespace, "Running")
        await tenant.reconcile_times(controller, 2)
        assert await _colors(tenant, namespace) == {**blue, "scripts": "green"}
        await _report_hook_pod(tenant, namespace, "Succeeded")
        await tenant.phase("Ready")
        green = {"scripts": "green", "late": "green", "settings": "green"}
        assert await _colors(tenant, namespace) == green
        tenant.commit(_hooked("white"))
        await finish_job(tenant, namespace, "migrate")
        assert await _report_hook_pod(tenant, namespace, "Succeeded", after=first) != first
        await eventually(lambda: _is_white(tenant, namespace), "the last revision is applied")


async def _is_white(tenant: EnvironmentHarness, namespace: str) -> bool:
    return set((await _colors(tenant, namespace)).values()) == {"white"}


async def _colors(tenant: EnvironmentHarness, namespace: str) -> dict[str, str]:
    rows = await tenant.api.list(CONFIG_MAPS, namespace)
    colored = (row for row in rows if "color" in (row.get("data") or {}))
    return {row["metadata"]["name"]: row["data"]["color"] for row in colored}


async def _report_hook_pod(
    tenant: EnvironmentHarness, namespace: str, phase: str, *, after: str = ""
) -> str:
    """Report the phase of the hook's pod, once there is one other than `after`; its uid."""

    async def created() -> Any:
        rows = [row for row in await tenant.api.list(PODS, namespace) if _is_check(row)]
        return next((row for row in rows if row["metadata"]["uid"] != after), None)

    pod = await eventually(created, "the pod exists")
    ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    status = {"status": {"phase": phase, "conditions": ready}}
    await tenant.patch(PODS, "check", status, namespace, subresource="status")
    return str(pod["metadata"]["uid"])


def _is_check(pod: Any) -> bool:
    return bool(pod["metadata"]["name"] == "check")


def _writes(tenant: EnvironmentHarness, namespace: str) -> int:
    return sum(request.is_write for request in tenant.connection.requests_for(f"/{namespace}/"))


async def _names(tenant: EnvironmentHarness, namespace: str) -> set[str]:
    return {row["metadata"]["name"] for row in await tenant.api.list(JOBS, namespace)}


async def _has(tenant: EnvironmentHarness, namespace: str, name: str) -> bool:
    return name in await _names(tenant, namespace)
