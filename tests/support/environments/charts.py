"""Charts in a repository, and the completion of their hook Jobs."""

from __future__ import annotations

from typing import Any

from tests.support.environments import helm
from tests.support.environments.environment_harness import EnvironmentHarness
from tests.support.processes.polling import eventually
from windlass.objects.names import GVR

JOBS = GVR("batch", "v1", "jobs")


def chart(templates: dict[str, str], values: str = "", more: str = "") -> dict[str, str]:
    """The files of a chart in the directory chart of a repository."""
    files = helm.chart(templates, more=more)
    contents = {f"chart/{path}": content.decode() for path, content in files.items()}
    return {**contents, "chart/values.yaml": values}


def job(name: str, events: str, weight: int = 0) -> str:
    """The manifest of a Job with hook annotations."""
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n"
        f"    helm.sh/hook: {events}\n    helm.sh/hook-weight: '{weight}'\n"
        "spec:\n  backoffLimit: 0\n  template:\n    spec:\n      restartPolicy: Never\n"
        "      containers: [{name: main, image: registry.invalid/job}]\n"
    )


def hook(kind: str, name: str, events: str, weight: int = 0, more: str = "") -> str:
    """The manifest of an object of the core group with hook annotations."""
    return (
        f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n"
        f"    helm.sh/hook: {events}\n    helm.sh/hook-weight: '{weight}'\n{more}"
    )


async def finish_job(
    tenant: EnvironmentHarness, namespace: str, name: str, result: str = "Complete"
) -> str:
    """Report a started Job as finished, as the Job controller does; its uid."""

    async def unfinished() -> Any:
        listed = await tenant.api.list(JOBS, namespace)
        rows = [row for row in listed if row["metadata"]["name"] == name]
        states = ((row, row.get("status") or {}) for row in rows)
        # The API server refuses another startTime than the one the controller set.
        started = (row for row, now in states if now.get("startTime") and not now.get("conditions"))
        return next(started, None)

    started_job = await eventually(unfinished, f"Job {name} has started and not finished")
    stamp = started_job["status"]["startTime"]
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[result]
    row = {
        "status": "True",
        "reason": "Reported",
        "message": "reported by the test",
        "lastTransitionTime": stamp,
    }
    status: dict[str, Any] = {
        "conditions": [{"type": before, **row}, {"type": result, **row}],
        "uncountedTerminatedPods": {},
        "ready": 0,
        "active": 0,
    }
    if result == "Complete":
        status |= {"completionTime": stamp, "succeeded": 1}
    await tenant.patch(JOBS, name, {"status": status}, namespace, subresource="status")
    return str(started_job["metadata"]["uid"])
