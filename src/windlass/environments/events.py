"""Events of an Environment, derived from the step results and the status before them.

| Event | When |
|---|---|
| NamespaceCreated | the namespace is another than the status knows |
| PoliciesApplied | its isolation is in force, and was not |
| EnforcementAbsent | it is warned that its policies are not enforced, and was not |
| Deployed | a revision is ready that never was; one of its own, as no condition need change |
| Recovered | a revision is ready again |
| Degraded | a revision that was ready no longer is, and is not just being replaced |
| RolloutStuck | a revision will not become ready by itself |

All follow from observed state and reported state, so a repeated reconcile yields the same.

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
    findings: Sequence[tuple[str, StepResult]], namespace_uid: str, status: Object
) -> Iterator[OutcomeEvent]:
    """What happened to the namespace and its fence."""
    found = dict(findings)
    if namespace_uid and namespace_uid != status.get("namespaceUID"):
        message = found["namespace"].condition.message
        yield OutcomeEvent("Normal", "NamespaceCreated", message, stands_alone=True)
    fence = found.get("policies")
    if fence is not None and not fence.ends_run and not _was_isolated(status):
        yield OutcomeEvent("Normal", "PoliciesApplied", fence.condition.message)
    if fence is not None and fence.warning and fence.warning not in _policies_message(status):
        yield OutcomeEvent("Warning", "EnforcementAbsent", fence.warning, stands_alone=True)


def rollout_events(finding: StepResult, status: Object, number: int) -> Iterator[OutcomeEvent]:
    """What happened to revision `number`."""
    served = (status.get("serving") or {}).get("revision") == number
    if not finding.ends_run and not served:
        text = f"revision {number} is ready"
        yield OutcomeEvent("Normal", "Deployed", text, stands_alone=True)
    elif not finding.ends_run and status.get("phase") == "Degraded":
        yield OutcomeEvent("Normal", "Recovered", f"revision {number} is ready again")
    elif finding.condition.status == "False" and served and status.get("phase") != "Degraded":
        yield OutcomeEvent("Warning", "Degraded", finding.condition.message)
    elif finding.ends_run and not served and phase.is_terminal(finding.condition, was_ready=False):
        yield OutcomeEvent("Warning", "RolloutStuck", finding.condition.message)


def _policies_message(status: Object) -> str:
    rows = {row.type: row.message for row in status_conditions(status)}
    return rows.get(phase.POLICIES, "")


def _was_isolated(status: Object) -> bool:
    rows = {row.type: row.status for row in status_conditions(status)}
    return rows.get(phase.POLICIES) == "True"
