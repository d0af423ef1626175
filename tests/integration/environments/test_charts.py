"""A chart in a repository, rendered by helm and run in the cluster."""

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
  place: {{ .Release.Namespace }}
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
async def test_a_chart_runs_with_values_in_their_order(tenant: EnvironmentHarness) -> None:
    """What is generated stays, after a restart and with other inputs."""
    order = "".join(f"  {name}: chart\n" for name in _ORDER)
    tenant.commit(
        {
            **chart({"seen.yaml": _SEEN}, f"order:\n{order}"),
            "values/a.yaml": "order: {first: first, second: first, template: first}\n",
            "values/b.yaml": "order: {second: second, template: second}\n",
        }
    )
    wish = tenant.environment(values={"order": {"environment": "environment"}})
    async with tenant.running(helm=helm.helm_program()) as controller:
        await tenant.apply(tenant.project(templates={"default": _TEMPLATE}), wish)
        found = await tenant.phase("Ready")
        place = await tenant.place()
        seen = (await tenant.api.get(CONFIG_MAPS, "one-seen", place))["data"]
        assert {name: seen[name] for name in _ORDER} == {name: name for name in _ORDER}
        assert seen["place"] == place
        assert (seen["version"][:3], seen["kinds"]) == ("v1.", "true")
        assert "somewhere" in str(found["status"]["unsupported"])
        drawn = (await tenant.api.get(SECRETS, "drawn", place))["data"]
        tenant.commit({"README": "nothing of the chart"})
        await tenant.poke()
        await tenant.passes(controller, 10)
        assert (await tenant.get())["status"]["revision"] == 1
    async with tenant.running(helm=helm.helm_program()):
        await tenant.poke()
        assert (await tenant.api.get(SECRETS, "drawn", place))["data"] == drawn
        assert (await tenant.get())["status"]["revision"] == 1
        wish["spec"]["values"]["order"]["environment"] = "again"
        await tenant.apply(wish)

        async def again() -> bool:
            live = await tenant.api.get(CONFIG_MAPS, "one-seen", place)
            return bool(live["data"]["environment"] == "again")

        await eventually(again, "the new value is there")
        assert (await tenant.api.get(SECRETS, "drawn", place))["data"] == drawn


async def test_a_chart_that_cannot_be_rendered_fails_alone(tenant: EnvironmentHarness) -> None:
    """The missing dependency is named; what a chart may not bring keeps all of it out."""
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
        wishes = [tenant.environment(name, type=name) for name in ("roles", "none", "plain")]
        await tenant.apply(tenant.project(templates=templates), tenant.environment(), *wishes)
        await tenant.phase("Ready", "plain")
        broken = await tenant.condition("DeploymentReady", "RenderFailed")
        refused = await tenant.condition("DeploymentReady", "KindNotAllowed", "roles")
        nowhere = await tenant.condition("DeploymentReady", "RenderFailed", "none")
        place = await tenant.place("roles")
        names = {row["metadata"]["name"] for row in await tenant.api.list(CONFIG_MAPS, place)}
    assert broken["status"]["phase"] == "Failed"
    assert "database" in broken["status"]["message"]
    assert "second/templates/role.yaml, ClusterRole/all" in refused["status"]["message"]
    assert names <= {"kube-root-ca.crt"}
    assert "deploy contains no Chart.yaml" in nowhere["status"]["message"]


async def test_without_helm_a_chart_says_so(tenant: EnvironmentHarness) -> None:
    """Nothing is rendered by anything else."""
    tenant.commit(chart({"a.yaml": CONFIG_MAP}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=""):
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        found = await tenant.condition("DeploymentReady", "SandboxUnavailable")
    assert found["status"]["phase"] == "Failed"


@pytest.mark.scenario("E79")
async def test_hooks_run_in_their_turn_and_once_in_a_revision(tenant: EnvironmentHarness) -> None:
    """Workloads wait for those before them, Ready for those after; a new revision runs anew."""
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
        place = await tenant.place()
        assert await _names(tenant, place) == {"first"}
        uid = await finish_job(tenant, place, "first")
        await finish_job(tenant, place, "second")
        await eventually(lambda: _has(tenant, place, "after"), "the rollout is complete")
        assert (await tenant.get())["status"]["phase"] == "Deploying"
        await tenant.api.get(DEPLOYMENTS, "web", place)
        await finish_job(tenant, place, "after")
        found = await tenant.phase("Ready")
        steps = [row["name"] for row in found["status"]["steps"] if row["state"] == "Succeeded"]
        assert steps[-5:] == ["preDeploy", "prepare", "workloads", "rollout", "postDeploy"]
        assert found["status"]["progress"] == "9/9"
        assert "Job/last as a pre-delete hook" in str(found["status"]["unsupported"])
        await tenant.api.delete(JOBS, "second", place, propagation="Background")
        writes = _writes(tenant, place)
        await tenant.passes(controller, 2)
        assert _writes(tenant, place) == writes
        tenant.commit(chart({"web.yaml": deployment(replicas=0, image="x"), **jobs}))
        assert await finish_job(tenant, place, "first", "Failed") != uid
        failed = await tenant.condition("DeploymentReady", "HookFailed")
        assert failed["status"]["phase"] == "Failed"
        assert "hook Job/first failed: so it was" in failed["status"]["message"]
        assert "still serving" in failed["status"]["message"]
        web = await tenant.api.get(DEPLOYMENTS, "web", place)
        assert web["metadata"]["generation"] == 1
        patch = {"metadata": {"annotations": {"windlass.dev/retryAt": "now"}}}
        await tenant.patch(ENVIRONMENTS, "one", patch, tenant.namespace)
        await finish_job(tenant, place, "first")
        await finish_job(tenant, place, "after")
        await tenant.phase("Ready")
        assert await _names(tenant, place) == {"first", "after"}
        # One that is never ready, and back: what ran for the one before runs for this as well.
        tenant.commit(chart({"web.yaml": deployment(replicas=1, image="x"), **jobs}))
        await finish_job(tenant, place, "first")
        await tenant.condition("DeploymentReady", "RolloutProgressing")
        tenant.commit(chart({"web.yaml": deployment(replicas=0, image="x"), **jobs}))
        await finish_job(tenant, place, "first")
        await finish_job(tenant, place, "after")
        await tenant.phase("Ready")


_BOTH = "pre-install,pre-upgrade"


def _hooked(colour: str, **more: str) -> dict[str, str]:
    """A chart whose hooks are of many kinds, around what they are hooks of."""
    pod = (
        "spec: {restartPolicy: Never, containers: [{name: main, image: registry.invalid/check}]}\n"
    )
    templates = {
        "account.yaml": hook("ServiceAccount", "migrator", _BOTH, -5),
        "login.yaml": hook("Secret", "login", _BOTH, -5, "stringData: {password: x}\n"),
        "scripts.yaml": hook("ConfigMap", "scripts", _BOTH, -5, f"data: {{colour: {colour}}}\n"),
        "migrate.yaml": job("migrate", _BOTH),
        "check.yaml": hook("Pod", "check", "pre-upgrade", 5, pod),
        "late.yaml": hook("ConfigMap", "late", _BOTH, 10, f"data: {{colour: {colour}}}\n"),
        "settings.yaml": CONFIG_MAP.replace("blue", colour),
        "web.yaml": deployment(replicas=0, image=colour),
        **more,
    }
    return chart(templates)


async def test_hooks_of_every_kind_come_before_everything_else(tenant: EnvironmentHarness) -> None:
    """By weight; a failed one leaves the running revision as it was, and so does one that runs."""
    old = CONFIG_MAP.replace("settings", "old")
    tenant.commit(_hooked("blue", **{"old.yaml": old}))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=helm.helm_program()) as controller:
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        await tenant.condition("DeploymentReady", "HookRunning")
        place = await tenant.place()
        await tenant.api.get(ACCOUNTS, "migrator", place)
        await tenant.api.get(SECRETS, "login", place)
        assert await _colours(tenant, place) == {"scripts": "blue"}
        await finish_job(tenant, place, "migrate")
        await tenant.phase("Ready")
        blue = {"scripts": "blue", "late": "blue", "settings": "blue", "old": "blue"}
        assert await _colours(tenant, place) == blue
        writes = _writes(tenant, place)
        await tenant.passes(controller, 2)
        assert _writes(tenant, place) == writes
        tenant.commit({**_hooked("red"), "chart/templates/old.yaml": None})
        await finish_job(tenant, place, "migrate", "Failed")
        failed = await tenant.condition("DeploymentReady", "HookFailed")
        assert "still serving" in failed["status"]["message"]
        assert failed["status"]["serving"]["revision"] == 1
        await tenant.passes(controller, 2)
        assert await _colours(tenant, place) == {**blue, "scripts": "red"}
        web = await tenant.api.get(DEPLOYMENTS, "web", place)
        assert web["metadata"]["generation"] == 1
        tenant.commit(_hooked("green"))
        await finish_job(tenant, place, "migrate")
        first = await _pod_is(tenant, place, "Running")
        await tenant.passes(controller, 2)
        assert await _colours(tenant, place) == {**blue, "scripts": "green"}
        await _pod_is(tenant, place, "Succeeded")
        await tenant.phase("Ready")
        green = {"scripts": "green", "late": "green", "settings": "green"}
        assert await _colours(tenant, place) == green
        tenant.commit(_hooked("white"))
        await finish_job(tenant, place, "migrate")
        assert await _pod_is(tenant, place, "Succeeded", after=first) != first
        await eventually(lambda: _is_white(tenant, place), "the last revision runs")


async def _is_white(tenant: EnvironmentHarness, place: str) -> bool:
    return set((await _colours(tenant, place)).values()) == {"white"}


async def _colours(tenant: EnvironmentHarness, place: str) -> dict[str, str]:
    rows = await tenant.api.list(CONFIG_MAPS, place)
    coloured = (row for row in rows if "colour" in (row.get("data") or {}))
    return {row["metadata"]["name"]: row["data"]["colour"] for row in coloured}


async def _pod_is(tenant: EnvironmentHarness, place: str, phase: str, *, after: str = "") -> str:
    """Say what a kubelet says of the hook's pod, once there is one after another; its uid."""

    async def there() -> Any:
        rows = [row for row in await tenant.api.list(PODS, place) if _is_check(row)]
        return next((row for row in rows if row["metadata"]["uid"] != after), None)

    found = await eventually(there, "the pod is there")
    ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    status = {"status": {"phase": phase, "conditions": ready}}
    await tenant.patch(PODS, "check", status, place, subresource="status")
    return str(found["metadata"]["uid"])


def _is_check(pod: Any) -> bool:
    return bool(pod["metadata"]["name"] == "check")


def _writes(tenant: EnvironmentHarness, place: str) -> int:
    return sum(one.is_write for one in tenant.connection.about(f"/{place}/"))


async def _names(tenant: EnvironmentHarness, place: str) -> set[str]:
    return {row["metadata"]["name"] for row in await tenant.api.list(JOBS, place)}


async def _has(tenant: EnvironmentHarness, place: str, name: str) -> bool:
    return name in await _names(tenant, place)
