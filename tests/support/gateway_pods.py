"""Pods and IgnitionSyncs for tests of decisions: values only."""

from __future__ import annotations

import json
from typing import Any

from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.gateways.decide import routing
from windlass.gateways.decide.discovery import Gateway
from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.owned import Owner
from windlass.gateways.decide.pods import AgentState, LivePod
from windlass.gateways.decide.routing import PREFIX
from windlass.gateways.decide.standing import Goal
from windlass.gateways.decide.status_report import Report

OWNER = Owner("sync.ignition.io/v1alpha1", "IgnitionSync", "site-1", "site", "cr-uid")
COMMIT = "a" * 40
ROUTING = routing.Routing()
GOAL = Goal(COMMIT, ROUTING, routing.routing_hash(ROUTING))


def live(
    name: str,
    *,
    phase: str = "Running",
    agent: AgentState = "running",
    labels: dict[str, str] | None = None,
    account: str = "default",
    is_terminating: bool = False,
    trouble: str = "",
    **said: str,
) -> LivePod:
    """An annotated pod; `said` are its annotations without prefix."""
    notes = {"inject": "true", "service_path": "services/a", **said}
    annotations = {PREFIX + key.replace("_", "-"): text for key, text in notes.items()}
    pod = Pod(name, "site-1", annotations, labels or {})
    return LivePod(pod, f"uid-{name}", account, phase, is_terminating, agent, trouble)


def gateway(name: str, **changes: Any) -> Gateway:
    """A discovered gateway that is called like its pod."""
    return Gateway(name, live(name, **changes))


def synced(one: Gateway, goal: Goal = GOAL, **changes: Any) -> Report:
    """What the agent of a gateway says that has all it should have."""
    pod = one.live.pod
    fields: dict[str, Any] = {
        "gateway": one.name,
        "pod_name": pod.name,
        "pod_uid": one.live.uid,
        "sync_status": "Synced",
        "reason": "Synced",
        "synced_commit": goal.commit,
        "profile_hash": routing.profile_hash(goal.routing_hash, pod.annotations, pod.labels),
        "routing_hash": goal.routing_hash,
    }
    return Report(**{**fields, **changes})


def sync(annotations: dict[str, str] | None = None, **spec: Any) -> IgnitionSync:
    """An IgnitionSync as the API server would send it."""
    base = {
        "git": {"repo": "https://git.example.com/plant/app.git", "ref": "main"},
        "gateway": {"apiKeySecretRef": {"name": "ignition-api"}},
    }
    meta = {
        "name": "site",
        "namespace": "site-1",
        "uid": "cr-uid",
        "generation": 1,
        "annotations": annotations or {},
    }
    return IgnitionSync.decode(json.dumps({"metadata": meta, "spec": {**base, **spec}}).encode())
