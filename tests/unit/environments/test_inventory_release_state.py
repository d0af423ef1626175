"""The release state of an Environment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET
from windlass.environments import inventory
from windlass.environments.inventory import InventoryEntry, ReleaseRevision, ReleaseState
from windlass.objects.names import JSON

NOW = datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
FIRST = written.build_bundle([written.deployment()], TARGET)
SECOND = written.build_bundle([written.deployment(), written.service()], TARGET)


def test_what_is_written_is_what_is_read() -> None:
    """Also in whole seconds, so that nothing is written twice for a fraction."""
    ledger = inventory.record_rollout(
        inventory.begin_revision(ReleaseState(), SECOND, NOW), {}, is_ready=True, now=LATER
    )
    assert inventory.decode_state({"data": inventory.encode_state(ledger)}) == ledger
    assert ledger.revision.began == NOW.replace(microsecond=0)


@pytest.mark.parametrize(
    "config_map",
    [
        None,
        {},
        {"data": None},
        {"data": {}},
        {"data": {"inventory": "{", "revision": "no"}},
        {"data": {"inventory": "[1]", "revision": "[]"}},
        {"data": {"inventory": "null", "revision": '{"number": "x"}'}},
    ],
)
def test_an_unreadable_state_counts_as_missing(config_map: JSON) -> None:
    """An edit by hand stops nothing."""
    assert inventory.decode_state(config_map) == ReleaseState()


def test_one_part_that_cannot_be_read_leaves_the_other() -> None:
    """The number of the revision survives a broken inventory."""
    data = {
        **inventory.encode_state(inventory.begin_revision(ReleaseState(), FIRST, NOW)),
        "inventory": "?",
    }
    assert inventory.decode_state({"data": data}).revision.number == 1


def test_a_revision_is_new_when_the_bundle_is() -> None:
    """The same bundle again is the same revision, with the moment it began."""
    first = inventory.begin_revision(ReleaseState(), FIRST, NOW)
    assert (first.revision.number, first.revision.digest) == (1, FIRST.digest)
    assert inventory.begin_revision(first, FIRST, LATER) == first
    second = inventory.begin_revision(first, SECOND, LATER)
    assert (second.revision.number, second.revision.ready) == (2, None)
    assert inventory.begin_revision(second, FIRST, LATER).revision.number == 3


def test_a_release_state_that_lost_count_continues_from_the_status() -> None:
    """Whether it is missing, older or newer than the status."""
    assert inventory.begin_revision(ReleaseState(), FIRST, NOW, at_least=7).revision.number == 8
    first = inventory.begin_revision(ReleaseState(), FIRST, NOW)
    assert inventory.begin_revision(first, FIRST, LATER, at_least=7).revision.number == 8
    assert inventory.begin_revision(first, FIRST, LATER, at_least=1) == first
    assert inventory.begin_revision(first, SECOND, LATER, at_least=1).revision.number == 2


def test_a_lost_state_of_a_serving_environment_continues_with_an_upgrade() -> None:
    """Where objects remain; in a new namespace everything is installed."""
    remaining = ReleaseState((InventoryEntry("apps", "Deployment", "web", "u1"),))
    for state, was_serving, is_upgrade in (
        (remaining, True, True),
        (remaining, False, False),
        (ReleaseState(), True, False),
        (inventory.begin_revision(ReleaseState(), SECOND, NOW), True, False),
    ):
        begun = inventory.begin_revision(state, FIRST, NOW, at_least=1, was_serving=was_serving)
        assert begun.revision.is_upgrade is is_upgrade


def test_the_first_readiness_is_noted_once() -> None:
    """It is the time since when a revision serves."""
    begun = inventory.begin_revision(ReleaseState(), FIRST, NOW)
    assert inventory.record_rollout(begun, {}, is_ready=False, now=NOW) == begun
    ready = inventory.record_rollout(begun, {}, is_ready=True, now=NOW)
    assert ready.revision.ready == NOW.replace(microsecond=0)
    assert inventory.record_rollout(ready, {}, is_ready=True, now=LATER) == ready
    assert inventory.record_rollout(ready, {}, is_ready=False, now=LATER) == ready


def test_a_revision_that_begins_again_has_all_of_its_time() -> None:
    """Its number and the serving revision stay."""
    ready = inventory.record_rollout(
        inventory.begin_revision(ReleaseState(), FIRST, NOW), {}, is_ready=True, now=NOW
    )
    again = inventory.restart_revision(ready, LATER)
    assert again.revision.began == LATER.replace(microsecond=0)
    assert (again.revision.number, again.revision.ready) == (1, ready.revision.ready)
    assert again.inventory == ready.inventory


def test_pruned_objects_are_removed_after_the_rest_was_noted() -> None:
    """Only the named entries are removed."""
    begun = inventory.begin_revision(
        inventory.begin_revision(ReleaseState(), SECOND, NOW), FIRST, NOW
    )
    service = InventoryEntry("", "Service", "web")
    assert service in begun.inventory
    [member] = FIRST.members
    live = {**member.object, "metadata": {**member.object["metadata"], "uid": "u1"}}
    after = inventory.record_applied(begun, [live], [service])
    assert after.inventory == (InventoryEntry("apps", "Deployment", "web", "u1"),)
    assert after.revision == begun.revision


def test_only_a_lost_inventory_is_recovered_from_the_cluster() -> None:
    """The cluster is searched only where nothing is stored."""
    [member] = FIRST.members
    live = {**member.object, "metadata": {**member.object["metadata"], "uid": "u1"}}
    state = inventory.recover_state(ReleaseState((), ReleaseRevision(4)), [live], OWNER.uid)
    assert state == ReleaseState(
        (InventoryEntry("apps", "Deployment", "web", "u1"),), ReleaseRevision(4)
    )
    assert inventory.recover_state(state, iter(()), OWNER.uid) is state
