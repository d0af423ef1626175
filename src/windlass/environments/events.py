"""Events of an Environment, derived from the step results and the status before them.

| Event | When |
|---|---|
| NamespaceCreated | the namespace is not the one in the status |
| PoliciesApplied | its isolation is in force, and was not before |
| EnforcementAbsent | its policies are not enforced, and the status does not warn of that yet |
| Deployed | a revision is ready for the first time; stands alone, as no condition need change |
| Recovered | a revision is ready again |
| Degraded | a revision that was ready no longer is, and is not just being replaced |
| RolloutStuck | a revision will not become ready by itself |

All are derived from observed and reported state, so a repeated reconcile yields the same ones.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.environments import phase
from windlass.environments.step import StepResult
from windlass.objects.names import Object
from windlass.runtime.outcome import OutcomeEvent
from windlass.runtime.status import status_conditions


def namespace_events(
    results: Sequence[tuple[str, StepResult]], namespace_uid: str, status: Object
) -> Iterator[OutcomeEvent]:
    """Events of the steps namespace and policies."""
    by_step = dict(results)
    if namespace_uid and namespace_uid != status.get("namespaceUID"):
        message = by_step["namespace"].condition.message
        yield OutcomeEvent("Normal", "NamespaceCreated", message, stands_alone=True)
    policies = by_step.get("policies")
    if policies is not None and not policies.ends_run and not _was_isolated(status):
        yield OutcomeEvent("Normal", "PoliciesApplied", policies.condition.message)
    if (
        policies is not None
        and policies.warning
        and policies.warning not in _policies_message(status)
    ):
        yield OutcomeEvent("Warning", "EnforcementAbsent", policies.warning, stands_alone=True)


def rollout_events(result: StepResult, status: Object, number: int) -> Iterator[OutcomeEvent]:
    """Events of the rollout of revision `number`."""
    was_serving = (status.get("serving") or {}).get("revision") == number
    if not result.ends_run and not was_serving:
        text = f"Revision {number} is ready"
        yield OutcomeEvent("Normal", "Deployed", text, stands_alone=True)
    elif not result.ends_run and status.get("phase") == "Degraded":
        yield OutcomeEvent("Normal", "Recovered", f"Revision {number} is ready again")
    elif result.condition.status == "False" and was_serving and status.get("phase") != "Degraded":
        yield OutcomeEvent("Warning", "Degraded", result.condition.message)
    elif (
        result.ends_run and not was_serving and phase.is_terminal(result.condition, was_ready=False)
    ):
        yield OutcomeEvent("Warning", "RolloutStuck", result.condition.message)


def _policies_message(status: Object) -> str:
    rows = {row.type: row.message for row in status_conditions(status)}
    return rows.get(phase.POLICIES, "")


def _was_isolated(status: Object) -> bool:
    rows = {row.type: row.status for row in status_conditions(status)}
    return rows.get(phase.POLICIES) == "True"
