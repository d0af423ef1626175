"""A chart on a node: hooks that run, and pods that keep a generated password."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster import node as nodes
from tests.support.environments import charts, helm
from tests.support.environments.environment_harness import PODS, SECRETS, EnvironmentHarness
from tests.support.environments.network_neighbors import serving_manifest
from tests.support.processes.polling import eventually
from windlass.objects.resources import JOBS

pytestmark = [pytest.mark.cluster, pytest.mark.node]

_BOTH = "pre-install,pre-upgrade"
_SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: database}
data: {password: {{ randAlphaNum 16 | b64enc }}}
"""
_CHECKSUM = (
    "metadata: {labels: {app: web}, annotations: {checksum/secret: "
    '{{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}}}'
)
_POD_SPEC = f"""\
securityContext: {{runAsUser: 1000}}
restartPolicy: Never
terminationGracePeriodSeconds: 0
volumes: [{{name: scripts, configMap: {{name: scripts}}}}]
containers:
- name: main
  image: {nodes.IMAGE}
  imagePullPolicy: Never
  command: [sh, /scripts/run.sh]
  volumeMounts: [{{name: scripts, mountPath: /scripts}}]
"""


def _indented(text: str, depth: int) -> str:
    return "".join(f"{' ' * depth}{line}\n" for line in text.splitlines())


def _chart(code: int, *, script: str = "") -> dict[str, str]:
    """A web server with a Job and a Pod as hooks, which run a script of a third hook."""
    run = f"data: {{run.sh: '{script}exit {code}'}}\n"
    job = f"spec:\n  backoffLimit: 0\n  template:\n    spec:\n{_indented(_POD_SPEC, 6)}"
    web = serving_manifest().replace("metadata: {labels: {app: web}}", _CHECKSUM)
    return charts.chart(
        {
            "secret.yaml": _SECRET,
            "scripts.yaml": charts.hook("ConfigMap", "scripts", _BOTH, 0, run),
            "migrate.yaml": charts.hook("Job", "migrate", _BOTH, 1, job).replace(
                "apiVersion: v1", "apiVersion: batch/v1"
            ),
            "check.yaml": charts.hook(
                "Pod", "check", _BOTH, 2, f"spec:\n{_indented(_POD_SPEC, 2)}"
            ),
            "web.yaml": web,
        }
    )


async def _web_pods(tenant: EnvironmentHarness, namespace: str) -> list[str]:
    rows = await tenant.api.list(PODS, namespace, label_selector="app=web")
    return [row["metadata"]["uid"] for row in rows if not row["metadata"].get("deletionTimestamp")]


async def _wait_serving(tenant: EnvironmentHarness, commit: str) -> Any:
    async def ready() -> Any:
        environment = await tenant.get()
        serving = (environment.get("status") or {}).get("serving") or {}
        return environment if commit in (serving.get("commits") or {}).values() else None

    return await eventually(ready, f"{commit} serves", seconds=90)


async def _wait_hook_failed(tenant: EnvironmentHarness, namespace: str) -> None:
    """Wait until a pod of the hook has run and failed, which takes a node its time."""

    async def failed() -> bool:
        rows = await tenant.api.list(JOBS, namespace)
        return any((row.get("status") or {}).get("failed") for row in rows)

    await eventually(failed, "the hook failed", seconds=90)


async def test_hooks_run_first_and_pods_keep_their_password(
    tenant: EnvironmentHarness,
) -> None:
    """Neither a failed hook nor a new render with the same values replaces the pod."""
    first = tenant.commit(_chart(0))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        await _wait_serving(tenant, first)
        namespace = await tenant.environment_namespace()
        secret, pods = (
            await tenant.api.get(SECRETS, "database", namespace),
            await _web_pods(tenant, namespace),
        )
        await _wait_serving(tenant, tenant.commit({"chart/README.md": "one more line"}))
        tenant.commit(_chart(3))
        await _wait_hook_failed(tenant, namespace)
        failed = await tenant.condition("DeploymentReady", "HookFailed")
        assert "Job/migrate" in failed["status"]["message"]
        assert "still serving" in failed["status"]["message"]
        environment = await _wait_serving(tenant, tenant.commit(_chart(0, script="echo again; ")))
        assert environment["status"]["phase"] == "Ready"
        assert await _web_pods(tenant, namespace) == pods
        assert (await tenant.api.get(SECRETS, "database", namespace))["data"] == secret["data"]
