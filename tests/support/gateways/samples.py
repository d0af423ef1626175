"""Pods and IgnitionSyncs for tests of decisions: values only."""

from __future__ import annotations

import json
from typing import Any

from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.gateways.status.gateway_status import SyncTarget
from windlass.gateways.status.pod_discovery import AgentState, DiscoveredGateway, ObservedPod
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.wire import routing
from windlass.gateways.wire.agent_objects import ObjectOwner
from windlass.gateways.wire.agent_report import AgentReport
from windlass.gateways.wire.routing import ANNOTATION_PREFIX

OWNER = ObjectOwner("sync.ignition.io/v1alpha1", "IgnitionSync", "site-1", "site", "cr-uid")
COMMIT = "a" * 40
ROUTING = routing.Routing()
GOAL = SyncTarget(COMMIT, ROUTING, routing.hash_routing(ROUTING))


def live_pod(
    name: str,
    *,
    phase: str = "Running",
    agent: AgentState = "running",
    labels: dict[str, str] | None = None,
    account: str = "default",
    is_terminating: bool = False,
    trouble: str = "",
    **annotations: str,
) -> ObservedPod:
    """An annotated pod; `annotations` have no prefix."""
    all_annotations = {"inject": "true", "service_path": "services/a", **annotations}
    prefixed = {
        ANNOTATION_PREFIX + key.replace("_", "-"): text for key, text in all_annotations.items()
    }
    pod = GatewayPod(name, "site-1", prefixed, labels or {})
    return ObservedPod(pod, f"uid-{name}", account, phase, is_terminating, agent, trouble)


def discovered_gateway(name: str, **changes: Any) -> DiscoveredGateway:
    """A discovered gateway with the name of its pod."""
    return DiscoveredGateway(name, live_pod(name, **changes))


def synced_report(
    gateway: DiscoveredGateway, goal: SyncTarget = GOAL, **changes: Any
) -> AgentReport:
    """The report of an agent whose gateway is synced to `goal`."""
    pod = gateway.observed_pod.pod
    fields: dict[str, Any] = {
        "gateway": gateway.name,
        "pod_name": pod.name,
        "pod_uid": gateway.observed_pod.uid,
        "sync_status": "Synced",
        "reason": "Synced",
        "synced_commit": goal.commit,
        "profile_hash": routing.hash_profile(goal.routing_hash, pod.annotations, pod.labels),
        "routing_hash": goal.routing_hash,
    }
    return AgentReport(**{**fields, **changes})


def ignition_sync(annotations: dict[str, str] | None = None, **spec: Any) -> IgnitionSync:
    """An IgnitionSync as the API server sends it."""
    base = {
        "git": {"repo": "https://git.example.com/plant/app.git", "ref": "main"},
        "gateway": {"apiKeySecretRef": {"name": "ignition-api"}},
    }
    metadata = {
        "name": "site",
        "namespace": "site-1",
        "uid": "cr-uid",
        "generation": 1,
        "annotations": annotations or {},
    }
    return IgnitionSync.decode(
        json.dumps({"metadata": metadata, "spec": {**base, **spec}}).encode()
    )
