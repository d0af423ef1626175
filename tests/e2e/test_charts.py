"""A chart whose hooks really run, and whose pods keep the password that it generated."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster import node as nodes
from tests.support.environments import charts, helm
from tests.support.environments.environment_harness import PODS, SECRETS, EnvironmentHarness
from tests.support.environments.network_neighbors import serving_manifest
from tests.support.processes.polling import eventually

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
_RUNS = f"""\
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
    """A web server behind a Job and a Pod that run a script of another hook."""
    run = f"data: {{run.sh: '{script}exit {code}'}}\n"
    job = f"spec:\n  backoffLimit: 0\n  template:\n    spec:\n{_indented(_RUNS, 6)}"
    web = serving_manifest().replace("metadata: {labels: {app: web}}", _CHECKSUM)
    return charts.chart(
        {
            "secret.yaml": _SECRET,
            "scripts.yaml": charts.hook("ConfigMap", "scripts", _BOTH, 0, run),
            "migrate.yaml": charts.hook("Job", "migrate", _BOTH, 1, job).replace(
                "apiVersion: v1", "apiVersion: batch/v1"
            ),
            "check.yaml": charts.hook("Pod", "check", _BOTH, 2, f"spec:\n{_indented(_RUNS, 2)}"),
            "web.yaml": web,
        }
    )


async def _web(tenant: EnvironmentHarness, place: str) -> list[str]:
    rows = await tenant.api.list(PODS, place, label_selector="app=web")
    return [row["metadata"]["uid"] for row in rows if not row["metadata"].get("deletionTimestamp")]


async def _serves(tenant: EnvironmentHarness, commit: str) -> Any:
    async def ready() -> Any:
        found = await tenant.get()
        serving = (found.get("status") or {}).get("serving") or {}
        return found if commit in (serving.get("commits") or {}).values() else None

    return await eventually(ready, f"{commit} serves", seconds=90)


async def test_hooks_run_first_and_pods_stay_with_their_password(
    tenant: EnvironmentHarness,
) -> None:
    """A failed hook leaves the pod alone, and so does a chart that generates the same anew."""
    first = tenant.commit(_chart(0))
    templates = {"default": {"type": "helm", "path": "chart"}}
    async with tenant.running(helm=helm.helm_program()):
        await tenant.apply(tenant.project(templates=templates), tenant.environment())
        await _serves(tenant, first)
        place = await tenant.place()
        secret, pods = await tenant.api.get(SECRETS, "database", place), await _web(tenant, place)
        await _serves(tenant, tenant.commit({"chart/README.md": "one more line"}))
        tenant.commit(_chart(3))
        failed = await tenant.condition("DeploymentReady", "HookFailed")
        assert "Job/migrate" in failed["status"]["message"]
        assert "still serving" in failed["status"]["message"]
        found = await _serves(tenant, tenant.commit(_chart(0, script="echo again; ")))
        assert found["status"]["phase"] == "Ready"
        assert await _web(tenant, place) == pods
        assert (await tenant.api.get(SECRETS, "database", place))["data"] == secret["data"]
