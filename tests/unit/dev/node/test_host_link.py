"""Arguments and output of `ip`."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import WindlassError
from windlass_dev.node import allocation, host_link, system
from windlass_dev.node.allocation import Network, Slot

DIRECTORY = Path("/state/x")


def test_a_link_is_created_with_its_identifier() -> None:
    """One command creates and labels it, and moves the other end."""
    first = host_link.machine_batch(Slot(2), DIRECTORY).splitlines()[0]
    assert first.startswith(f"link add windlass2 address {allocation.hardware_address(DIRECTORY)} ")
    assert first.endswith(f"peer name eth0 netns {DIRECTORY}/namespaces/net")


def test_machine_gets_a_link_and_two_routes() -> None:
    """Pods and services are reached through the node."""
    lines = host_link.machine_batch(Slot(2), DIRECTORY).splitlines()[1:]
    assert lines == [
        "address add 10.212.8.1/30 dev windlass2",
        "link set windlass2 up",
        "route add 10.212.9.0/24 via 10.212.8.2 dev windlass2",
        "route add 10.212.10.0/24 via 10.212.8.2 dev windlass2",
    ]


def test_cluster_reaches_the_machine() -> None:
    """Everything outside the cluster goes to this end of the link."""
    lines = host_link.cluster_batch(Slot(2)).splitlines()
    assert lines[0] == "link set lo up"
    assert lines[-1] == "route add default via 10.212.8.1"


@pytest.mark.parametrize(
    ("answer", "networks"),
    [
        ("", []),
        ('[{"dst":"default"},{"dst":"10.212.1.0/24"}]', [Network("10.212.1.0/24")]),
        ('[{"dst":"10.1.2.3"},{"dst":"fe80::/64"},{}]', [Network("10.1.2.3/32")]),
    ],
)
def test_routes_are_read(answer: str, networks: list[Network]) -> None:
    """Hosts are routes as well; other families are ignored."""
    assert host_link.parse_routes(answer) == networks


@pytest.mark.parametrize(
    ("appeared", "reason"), [(True, host_link.SLOT_TAKEN), (False, "NodeFailed")]
)
def test_a_link_taken_meanwhile_is_not_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appeared: bool, reason: str
) -> None:
    """A cluster of another user may take the same link between choosing and creating it."""

    def refuse(*command: str, text: str = "") -> str:
        if appeared:
            (tmp_path / "windlass2").mkdir()
        raise WindlassError("NodeFailed", "File exists")

    monkeypatch.setattr(host_link, "_INTERFACES", tmp_path)
    monkeypatch.setattr(system, "run_command", refuse)
    with pytest.raises(WindlassError) as caught:
        host_link.create(Slot(2), DIRECTORY)
    assert caught.value.reason == reason
