"""Mounts of a pod that runs this windlass."""

from __future__ import annotations

from windlass_dev.mock_gateway import gateway_pod
from windlass_dev.mock_gateway.gateway_pod import GatewayPod
from windlass_dev.node import windlass_container


def test_nothing_is_mounted_twice() -> None:
    """A directory inside another one that is mounted needs no mount of its own."""
    assert windlass_container.outermost_directories(["/usr", "/usr/lib", "/nowhere/at/all"]) == [
        "/usr"
    ]


def test_every_mount_has_its_volume_and_is_read_only() -> None:
    """The machine's own files are never written."""
    names = {volume["name"] for volume in windlass_container.volumes()}
    mounts = windlass_container.volume_mounts()
    assert {mount["name"] for mount in mounts} == names
    assert all(mount["readOnly"] for mount in mounts)


def test_the_agent_comes_before_the_gateway() -> None:
    """A native sidecar whose startup probe holds the gateway back."""
    pod = GatewayPod("a", "n", "site", "services/a", "key", "git", "h").manifest()
    [agent] = pod["spec"]["initContainers"]
    assert agent["restartPolicy"] == "Always"
    assert agent["startupProbe"]["httpGet"]["path"] == "/startupz"
    mounted = {mount["name"] for mount in agent["volumeMounts"]}
    assert {"data", "store", "api-key", "git-auth", "podinfo"} <= mounted
    assert [one["name"] for one in pod["spec"]["containers"]] == [gateway_pod.GATEWAY_CONTAINER]
