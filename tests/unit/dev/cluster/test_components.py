"""Command lines of the components."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass_dev.cluster import components
from windlass_dev.cluster.cluster_state import ClusterState

DIRECTORY = Path("/state/windlass/dev/x")
PORTS = {"etcd": 1, "etcd-peer": 2, "kube-apiserver": 3, "kube-controller-manager": 4}
BINARIES = {name: f"/bin/{name}" for name in components.START_ORDER}


def _state(**changes: object) -> ClusterState:
    return ClusterState("x", PORTS, BINARIES, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("component", components.START_ORDER)
def test_every_command_line_names_the_directory(component: str) -> None:
    """An unrecorded process is recognized by it."""
    command = components.command_line(component, _state(), DIRECTORY)
    assert command[0] == f"/bin/{component}"
    assert any(f"{DIRECTORY}/" in argument for argument in command)


@pytest.mark.parametrize("component", components.START_ORDER)
def test_everything_listens_on_loopback_only(component: str) -> None:
    """A local cluster is not reachable from other machines."""
    command = components.command_line(component, _state(), DIRECTORY)
    addresses = [
        argument.partition("=")[2]
        for argument in command
        if argument.startswith(("--listen-", "--bind-address="))
    ]
    assert addresses
    assert all("127.0.0.1" in address for address in addresses)


def test_own_etcd_skips_fsync_on_its_port() -> None:
    """Speed matters on a local cluster, power cuts do not."""
    command = components.command_line("etcd", _state(), DIRECTORY)
    assert "--unsafe-no-fsync=true" in command
    assert "--listen-client-urls=http://127.0.0.1:1" in command


def test_foreign_etcd_is_used_under_its_prefix_and_not_started() -> None:
    """Several API servers may share an external etcd."""
    state = _state(foreign_etcd="http://127.0.0.1:9", etcd_prefix="/w1")
    command = components.command_line("kube-apiserver", state, DIRECTORY)
    assert "--etcd-servers=http://127.0.0.1:9" in command
    assert "--etcd-prefix=/w1" in command
    assert components.cluster_components(state) == ("kube-apiserver", "kube-controller-manager")


def test_extra_arguments_come_last_and_only_to_the_api_server() -> None:
    """The last flag wins, so a test can override ours."""
    state = _state(extra_api_server_args=("--v=4",))
    assert components.command_line("kube-apiserver", state, DIRECTORY)[-1] == "--v=4"
    assert "--v=4" not in components.command_line("kube-controller-manager", state, DIRECTORY)


def test_controller_manager_is_no_administrator() -> None:
    """It has an identity of its own, so that RBAC applies to it too."""
    command = components.command_line("kube-controller-manager", _state(), DIRECTORY)
    assert f"--kubeconfig={DIRECTORY}/controller-manager.kubeconfig" in command
