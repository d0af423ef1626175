"""Decoding of pods, namespaces, policies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass_dev.netpol import policy_decoder
from windlass_dev.netpol.policy_model import ContainerPort, PolicySpec


def _pod(status: dict[str, Any] | None = None, **spec: Any) -> bytes:
    document = {
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "x"}], **spec},
        "status": {"phase": "Running", "podIP": "10.9.1.2", **(status or {})},
    }
    return json.dumps(document).encode()


def test_a_pod_has_the_ports_of_its_running_containers() -> None:
    """Sidecars count, init containers that end do not."""
    port = {"containerPort": 80, "name": "http"}
    pod = policy_decoder.decode_pod(
        _pod(
            containers=[{"ports": [port]}],
            initContainers=[
                {"restartPolicy": "Always", "ports": [{"containerPort": 53, "protocol": "UDP"}]},
                {"ports": [{"containerPort": 1}]},
            ],
        )
    )
    assert pod is not None
    assert (pod.namespace, pod.name, pod.address) == ("shop", "web", "10.9.1.2")
    assert pod.ports == (ContainerPort(80, "TCP", "http"), ContainerPort(53, "UDP", ""))


@pytest.mark.parametrize(
    "raw",
    [
        _pod({"podIP": ""}),
        _pod({"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}]}),
        _pod({"phase": "Succeeded"}),
        _pod({"phase": "Failed"}),
        _pod(hostNetwork=True),
        b"{}",
        b"no json",
    ],
)
def test_a_pod_without_its_own_address_is_ignored(raw: bytes) -> None:
    """Not yet, not any more, not in this family, or the node's."""
    assert policy_decoder.decode_pod(raw) is None


def test_the_ipv4_address_of_two() -> None:
    """Whichever comes first."""
    pod = policy_decoder.decode_pod(
        _pod({"podIP": "fd00::1", "podIPs": [{"ip": "fd00::1"}, {"ip": "10.9.1.7"}]})
    )
    assert pod is not None
    assert pod.address == "10.9.1.7"


def test_labels_of_a_namespace() -> None:
    """None if they cannot be read."""
    named = {"metadata": {"name": "shop", "labels": {"team": "a"}}}
    assert policy_decoder.decode_namespace_labels(json.dumps(named).encode()) == {"team": "a"}
    assert policy_decoder.decode_namespace_labels(b"{}") == {}


def test_an_unreadable_policy_is_a_denial() -> None:
    """Of everything, for all pods in its namespace."""
    assert policy_decoder.decode_policy("shop", b"{").spec == PolicySpec()
    assert PolicySpec().policy_types == ("Ingress", "Egress")
