"""Charts in a repository, and the ends of their hooks."""

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
    found = {f"chart/{path}": content.decode() for path, content in files.items()}
    return {**found, "chart/values.yaml": values}


def job(name: str, events: str, weight: int = 0) -> str:
    """A Job that a chart calls a hook."""
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations:\n"
        f"    helm.sh/hook: {events}\n    helm.sh/hook-weight: '{weight}'\n"
        "spec:\n  backoffLimit: 0\n  template:\n    spec:\n      restartPolicy: Never\n"
        "      containers: [{name: main, image: registry.invalid/job}]\n"
    )


def hook(kind: str, name: str, events: str, weight: int = 0, more: str = "") -> str:
    """An object of the core group that a chart calls a hook."""
    return (
        f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n"
        f"    helm.sh/hook: {events}\n    helm.sh/hook-weight: '{weight}'\n{more}"
    )


async def finish_job(
    tenant: EnvironmentHarness, place: str, name: str, how: str = "Complete"
) -> str:
    """Say what the job controller says at the end of a Job that it has begun; its uid."""

    async def there() -> Any:
        listed = await tenant.api.list(JOBS, place)
        rows = [row for row in listed if row["metadata"]["name"] == name]
        states = ((row, row.get("status") or {}) for row in rows)
        # When it began is the controller's to say, once; another word is refused.
        begun = (row for row, now in states if now.get("startTime") and not now.get("conditions"))
        return next(begun, None)

    found = await eventually(there, f"Job {name} has begun and not ended")
    stamp = found["status"]["startTime"]
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]
    row = {"status": "True", "reason": "Told", "message": "so it was", "lastTransitionTime": stamp}
    status: dict[str, Any] = {
        "conditions": [{"type": before, **row}, {"type": how, **row}],
        "uncountedTerminatedPods": {},
        "ready": 0,
        "active": 0,
    }
    if how == "Complete":
        status |= {"completionTime": stamp, "succeeded": 1}
    await tenant.patch(JOBS, name, {"status": status}, place, subresource="status")
    return str(found["metadata"]["uid"])
