"""Address blocks of nodes."""

from __future__ import annotations

import itertools

import pytest

from windlass_dev.node import allocation
from windlass_dev.node.allocation import Network, Slot


def test_addresses_of_a_slot() -> None:
    """Logs and documents contain them, so they do not change."""
    third = Slot(3)
    assert str(third.block) == "10.212.12.0/22"
    assert (third.host_address, third.node_address) == ("10.212.12.1", "10.212.12.2")
    assert (str(third.pods), str(third.services)) == ("10.212.13.0/24", "10.212.14.0/24")
    assert (third.service_address, third.dns_address) == ("10.212.14.1", "10.212.14.10")


def test_slots_share_no_address() -> None:
    """Pods, services and link lie in the slot's own block, and blocks do not overlap."""
    slots = [Slot(number) for number in range(allocation.SLOT_COUNT)]
    assert all(one.pods.subnet_of(one.block) for one in slots)
    assert all(one.services.subnet_of(one.block) for one in slots)
    assert all(not one.pods.overlaps(one.services) for one in slots)
    pairs = itertools.combinations(slots, 2)
    assert not any(one.block.overlaps(other.block) for one, other in pairs)


def test_names_of_links_fit_the_kernel() -> None:
    """An interface's name has at most 15 characters, and identifies the slot."""
    last = Slot(allocation.SLOT_COUNT - 1)
    assert len(last.link) <= 15
    assert allocation.slot_number(last.link) == last.number


@pytest.mark.parametrize("link", ["eth0", "windlass", "windlassx", "windlass1x", "mywindlass1"])
def test_other_links_are_not_ours(link: str) -> None:
    """Only our own naming counts."""
    assert allocation.slot_number(link) is None


def test_used_or_routed_slots_are_skipped() -> None:
    """The lowest that is neither; a wider route does not matter."""
    routes = [Network("10.212.4.0/24"), Network("10.0.0.0/8"), Network("0.0.0.0/0")]
    assert allocation.lowest_free_slot({0}, routes) == Slot(2)
    assert allocation.lowest_free_slot((), ()) == Slot(0)


def test_a_route_to_all_blocks_leaves_none() -> None:
    """No node is better than addresses of another network."""
    assert allocation.lowest_free_slot((), [Network("10.212.0.0/16")]) is None
