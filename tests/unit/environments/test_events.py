"""Events of an Environment, each published once."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.environments import events, phase, step

_THERE = (
    "namespace",
    step.success(phase.NAMESPACE, "NamespaceActive", "Namespace env-a is active"),
)
_ISOLATED = ("policies", step.success(phase.POLICIES, "PoliciesApplied", "in force"))
_WARNED = ("policies", step.with_warning(_ISOLATED[1], "policies are not enforced"))
_UNFENCED = ("policies", step.waiting(phase.POLICIES, "PolicyApplyFailed", "not yet"))
_READY = step.success(phase.DEPLOYMENT, "RolloutComplete", "all there")
_SLOW = step.waiting(phase.DEPLOYMENT, "RolloutProgressing", "a pod starts")
_REPLACED = step.pending(phase.DEPLOYMENT, "RolloutProgressing", "a pod is replaced")
_STUCK = step.failed(phase.DEPLOYMENT, "CrashLooping", "is crash looping")


def _row(status: str, message: str = "") -> dict[str, Any]:
    return {
        "conditions": [
            {
                "type": phase.POLICIES,
                "status": status,
                "reason": "x",
                "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
    }


@pytest.mark.parametrize(
    ("results", "status", "reasons"),
    [
        ((_THERE, _UNFENCED), {}, ["NamespaceCreated"]),
        ((_THERE, _ISOLATED), {}, ["NamespaceCreated", "PoliciesApplied"]),
        ((_THERE, _ISOLATED), {"namespaceUID": "n", **_row("False")}, ["PoliciesApplied"]),
        ((_THERE, _ISOLATED), {"namespaceUID": "n", **_row("True")}, []),
        ((_THERE, _ISOLATED), {"namespaceUID": "older", **_row("True")}, ["NamespaceCreated"]),
        ((_THERE, _WARNED), {"namespaceUID": "n"}, ["PoliciesApplied", "EnforcementAbsent"]),
        ((_THERE, _WARNED), {"namespaceUID": "n", **_row("True")}, ["EnforcementAbsent"]),
        (
            (_THERE, _WARNED),
            {"namespaceUID": "n", **_row("True", "over quota; policies are not enforced")},
            [],
        ),
    ],
)
def test_events_of_namespace_and_isolation(
    results: Any, status: dict[str, Any], reasons: list[str]
) -> None:
    """Each is published in the reconcile in which it became true."""
    assert [event.reason for event in events.namespace_events(results, "n", status)] == reasons


@pytest.mark.parametrize(
    ("result", "status", "reasons"),
    [
        (_READY, {}, ["Deployed"]),
        (_READY, {"serving": {"revision": 1}, "phase": "Ready"}, ["Deployed"]),
        (_READY, {"serving": {"revision": 2}, "phase": "Ready"}, []),
        (_READY, {"serving": {"revision": 2}, "phase": "Degraded"}, ["Recovered"]),
        (_SLOW, {"serving": {"revision": 1}, "phase": "Ready"}, []),
        (_SLOW, {"serving": {"revision": 2}, "phase": "Ready"}, ["Degraded"]),
        (_SLOW, {"serving": {"revision": 2}, "phase": "Degraded"}, []),
        (_REPLACED, {"serving": {"revision": 2}, "phase": "Ready"}, []),
        (_SLOW, {"serving": {"revision": 2}, "phase": "Deploying"}, ["Degraded"]),
        (_STUCK, {"serving": {"revision": 1}, "phase": "Deploying"}, ["RolloutStuck"]),
        (_STUCK, {"serving": {"revision": 2}, "phase": "Degraded"}, []),
    ],
)
def test_events_of_revisions(result: Any, status: dict[str, Any], reasons: list[str]) -> None:
    """By the serving, the desired and the last reported revision."""
    rollout_events = list(events.rollout_events(result, status, 2))
    assert [event.reason for event in rollout_events] == reasons
    assert all(event.stands_alone == (event.reason == "Deployed") for event in rollout_events)
