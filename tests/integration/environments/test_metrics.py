"""Metrics of environments over the life of one."""

from __future__ import annotations

import pytest

from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    CONFIG_MAPS,
    ENVIRONMENTS,
    QUOTAS,
    SERVICE,
    EnvironmentHarness,
)
from tests.support.processes.polling import eventually

pytestmark = pytest.mark.cluster


async def test_metrics_follow_an_environment_to_its_deletion(tenant: EnvironmentHarness) -> None:
    """Phase, steps, render, apply, drift, prune, deletion; then its series are removed."""
    tenant.commit({"deploy/all.yaml": CONFIG_MAP + "---\n" + SERVICE})
    async with tenant.running():
        registry = tenant.metrics.registry

        def value(name: str, **labels: str) -> float:
            return registry.get_sample_value(f"windlass_env_{name}", labels) or 0.0

        labels_of_one = {
            "env_namespace": tenant.namespace,
            "environment": "one",
            "project": tenant.name,
        }
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
        assert value("phase", **labels_of_one, phase="Ready") == 1
        assert value("phase", **labels_of_one, phase="Deploying") == 0
        assert value("applied_objects_total", kind="ConfigMap") >= 1
        assert value("render_duration_seconds_count", mode="manifest") >= 1
        assert value("operator_overhead_seconds_count", mode="manifest") >= 1
        assert value("time_to_ready_seconds_count", mode="manifest") >= 1
        assert value("step_duration_seconds_count", step="workloads", result="Succeeded") >= 1
        await tenant.api.delete(QUOTAS, "default-quota", namespace)
        await tenant.patch(CONFIG_MAPS, "settings", {"data": {"color": "odd"}}, namespace)

        async def corrected() -> bool:
            kinds = ("ResourceQuota", "ConfigMap")
            return all(value("drift_corrections_total", kind=kind) == 1 for kind in kinds)

        await eventually(corrected, "both are counted")
        tenant.commit({"deploy/all.yaml": CONFIG_MAP})

        async def pruned() -> bool:
            return value("pruned_objects_total", kind="Service") == 1

        await eventually(pruned, "the Service is counted")
        tenant.commit({"deploy/all.yaml": "kind: ["})
        await tenant.phase("Failed")
        assert value("render_rejected_total", reason="RenderFailed") >= 1
        assert value("phase", **labels_of_one, phase="Failed") == 1
        assert value("phase", **labels_of_one, phase="Ready") == 0
        deleted = value("namespace_delete_seconds_count")
        await tenant.api.delete(ENVIRONMENTS, "one", tenant.namespace)
        await tenant.wait_deleted(ENVIRONMENTS, "one", tenant.namespace)

        async def removed() -> bool:
            # Other tests share the cluster, and may leave Environments that are being deleted.
            samples = [row for metric in registry.collect() for row in metric.samples]
            return not any(row.labels.get("env_namespace") == tenant.namespace for row in samples)

        assert value("namespace_delete_seconds_count") > deleted
        await eventually(removed, "no series is left")
