"""Pods as the API server sends them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.gateways.status import pod_discovery


def _raw(*, agent: bool = True, state: dict[str, Any] | None = None, **more: Any) -> bytes:
    containers = [{"name": pod_discovery.AGENT_CONTAINER}] if agent else []
    statuses = (
        [] if state is None else [{"name": pod_discovery.AGENT_CONTAINER, "state": state, **more}]
    )
    return json.dumps(
        {
            "metadata": {
                "name": "one",
                "namespace": "a",
                "uid": "u",
                "annotations": {"ignition-sync.io/inject": "true"},
            },
            "spec": {"serviceAccountName": "plant", "initContainers": containers},
            "status": {"phase": "Running", "initContainerStatuses": statuses},
        }
    ).encode()


@pytest.mark.parametrize(
    ("raw", "state", "problem"),
    [
        (_raw(agent=False), "missing", ""),
        (_raw(), "waiting", ""),
        (_raw(state={"waiting": {"reason": "PodInitializing"}}), "waiting", "PodInitializing"),
        (_raw(state={"running": {"startedAt": "x"}}), "running", ""),
        (_raw(state={"terminated": {"reason": "Error"}}), "stopped", "Error"),
        (
            _raw(
                state={"waiting": {"reason": "CrashLoopBackOff"}},
                lastState={"terminated": {"reason": "OOMKilled"}},
            ),
            "stopped",
            "CrashLoopBackOff, OOMKilled",
        ),
        (_raw(state={"waiting": {}}, restartCount=1), "stopped", ""),
    ],
)
def test_the_agent_state_follows_the_container_status(raw: bytes, state: str, problem: str) -> None:
    """The decision table, row by row."""
    pod = pod_discovery.decode_pod(raw)
    assert pod is not None
    assert (pod.agent_state, pod.agent_problem) == (state, problem)
    assert (pod.service_account, pod.uid, pod.name) == ("plant", "u", "one")


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"metadata": 1}', b"\xff", b"[" * 100_000])
def test_bytes_that_are_not_a_pod_decode_to_none(raw: bytes) -> None:
    """Decoding never fails."""
    assert pod_discovery.decode_pod(raw) is None


def test_only_annotated_pods_are_kept() -> None:
    """The prefilter accepts every pod with our annotation."""
    assert pod_discovery.may_be_gateway(_raw())
    assert not pod_discovery.may_be_gateway(
        b'{"metadata": {"name": "x", "annotations": {"a": "b"}}}'
    )
