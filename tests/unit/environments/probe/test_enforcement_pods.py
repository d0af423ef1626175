"""Tests of the pods of a network probe, and of why one does not run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from windlass.environments.probe import enforcement


def _with(**status: Any) -> dict[str, Any]:
    pod = enforcement.server_pod("env-a", "image", "word")
    return {**pod, "spec": {**pod["spec"], "nodeName": "one"}, "status": status}


def _container(**state: Any) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]}


def test_addresses_are_no_part_of_the_script() -> None:
    """Addresses of the cluster are passed as variables."""
    pod = enforcement.caller_pod("stranger", "env-a", "image", "word", "10.0.0.7")
    container = pod["spec"]["containers"][0]
    assert {"name": "ADDRESS", "value": "10.0.0.7"} in container["env"]
    assert "10.0.0.7" not in container["command"][-1]
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_a_pod_that_runs() -> None:
    """It has an address."""
    assert enforcement.is_running(_with(phase="Running", podIP="10.0.0.7"))
    assert not enforcement.is_running(_with(phase="Running"))
    assert not enforcement.is_running(_with(phase="Pending", podIP="10.0.0.7"))


def test_why_a_pod_does_not_run() -> None:
    """With the message of the kubelet or the scheduler; only a missing node may still come."""
    pull = {"reason": "ErrImagePull", "message": "no such image"}
    problem = enforcement.pod_problem(_with(**_container(waiting=pull)))
    assert problem is not None
    assert (problem.reason, problem.may_heal) == ("ImagePullFailed", False)
    assert "no such image" in problem.message
    row = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes"}
    problem = enforcement.pod_problem(_with(phase="Pending", conditions=[row]))
    assert problem is not None
    assert problem.may_heal
    ended = {"exitCode": 127, "message": "the image does not contain nc\n"}
    problem = enforcement.pod_problem(_with(**_container(terminated=ended)))
    assert problem is not None
    assert problem.message == "pod server exited with code 127: the image does not contain nc"
    problem = enforcement.pod_problem(_with(phase="Failed", reason="Evicted"))
    assert problem is not None
    assert "Evicted" in problem.message
    assert enforcement.pod_problem(_with(phase="Pending")) is None


@pytest.mark.parametrize(("answer", "rest"), [("word", "0.3"), ("", "1")])
def test_the_pace_of_a_caller(answer: str, rest: str, tmp_path: Path) -> None:
    """A listener is away for a second at most: after a failed call no sooner one follows."""
    for name, script in {
        "timeout": 'shift; exec "$@"',
        "nc": f"echo {answer}",
        "sleep": f"echo $1 > {tmp_path}/rest; kill $PPID",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o700)
    pod = enforcement.caller_pod("stranger", "env-a", "image", "word", "10.0.0.7")
    (container,) = pod["spec"]["containers"]
    variables = {row["name"]: row["value"] for row in container["env"]}
    subprocess.run(
        ["/bin/sh", *container["command"][1:]],
        env={**variables, "PATH": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )
    assert (tmp_path / "rest").read_text().strip() == rest
