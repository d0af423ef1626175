"""What happened to an Environment since its status was last said, as events tell it.

| Event | When |
|---|---|
| NamespaceCreated | the namespace is another than the status knows |
| PoliciesApplied | its fence is in force, and was not |
| EnforcementAbsent | it is warned that nobody enforces its policies, and was not |
| Deployed | a revision is ready that never was; one of its own, as no condition need change |
| Recovered | a revision is ready again |
| Degraded | a revision that was ready no longer is, and is not just being replaced |
| RolloutStuck | a revision will not become ready by itself |

All follow from what is and what was said, so a pass that is made again tells the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.environments.decide import phase
from windlass.environments.decide.step import Finding
from windlass.objects.names import Object
from windlass.runtime.outcome import OutcomeEvent
from windlass.runtime.status import status_conditions


def grounds(
    findings: Sequence[tuple[str, Finding]], namespace_uid: str, status: Object
) -> Iterator[OutcomeEvent]:
    """What happened to the namespace and its fence."""
    found = dict(findings)
    if namespace_uid and namespace_uid != status.get("namespaceUID"):
        message = found["namespace"].condition.message
        yield OutcomeEvent("Normal", "NamespaceCreated", message, stands_alone=True)
    fence = found.get("policies")
    if fence is not None and not fence.ends and not _stood(status):
        yield OutcomeEvent("Normal", "PoliciesApplied", fence.condition.message)
    if fence is not None and fence.warning and fence.warning not in _said(status):
        yield OutcomeEvent("Warning", "EnforcementAbsent", fence.warning, stands_alone=True)


def rollout(finding: Finding, status: Object, number: int) -> Iterator[OutcomeEvent]:
    """What happened to revision `number`."""
    served = (status.get("serving") or {}).get("revision") == number
    if not finding.ends and not served:
        text = f"revision {number} is ready"
        yield OutcomeEvent("Normal", "Deployed", text, stands_alone=True)
    elif not finding.ends and status.get("phase") == "Degraded":
        yield OutcomeEvent("Normal", "Recovered", f"revision {number} is ready again")
    elif finding.condition.status == "False" and served and status.get("phase") != "Degraded":
        yield OutcomeEvent("Warning", "Degraded", finding.condition.message)
    elif finding.ends and not served and phase.is_terminal(finding.condition, was_ready=False):
        yield OutcomeEvent("Warning", "RolloutStuck", finding.condition.message)


def _said(status: Object) -> str:
    rows = {row.type: row.message for row in status_conditions(status)}
    return rows.get(phase.POLICIES, "")


def _stood(status: Object) -> bool:
    rows = {row.type: row.status for row in status_conditions(status)}
    return rows.get(phase.POLICIES) == "True"
