"""What must be remembered of an Environment beyond what the cluster shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support import manifests as written
from tests.support.manifests import OWNER, PLACE
from windlass.environments.decide import ledger as ledgers
from windlass.environments.decide.inventory import Entry
from windlass.environments.decide.ledger import Ledger, Revision
from windlass.objects.names import JSON

NOW = datetime(2026, 5, 4, 3, 2, 1, 999_999, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
FIRST = written.assembled([written.deployment()], PLACE)
SECOND = written.assembled([written.deployment(), written.service()], PLACE)


def test_what_is_written_is_what_is_read() -> None:
    """Also in whole seconds, so that nothing is written twice for a fraction."""
    ledger = ledgers.looked_at(ledgers.begun(Ledger(), SECOND, NOW), {}, is_ready=True, now=LATER)
    assert ledgers.decoded({"data": ledgers.encoded(ledger)}) == ledger
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
def test_what_cannot_be_read_counts_as_nothing(config_map: JSON) -> None:
    """Whoever edited it by hand stops nothing."""
    assert ledgers.decoded(config_map) == Ledger()


def test_one_part_that_cannot_be_read_leaves_the_other() -> None:
    """The number of the revision survives a broken inventory."""
    data = {**ledgers.encoded(ledgers.begun(Ledger(), FIRST, NOW)), "inventory": "?"}
    assert ledgers.decoded({"data": data}).revision.number == 1


def test_a_revision_is_new_when_the_bundle_is() -> None:
    """The same bundle again is the same revision, with the moment it began."""
    first = ledgers.begun(Ledger(), FIRST, NOW)
    assert (first.revision.number, first.revision.digest) == (1, FIRST.digest)
    assert ledgers.begun(first, FIRST, LATER) == first
    second = ledgers.begun(first, SECOND, LATER)
    assert (second.revision.number, second.revision.ready) == (2, None)
    assert ledgers.begun(second, FIRST, LATER).revision.number == 3


def test_a_ledger_that_lost_count_goes_on_from_what_was_reported() -> None:
    """Whether it is gone, older or newer than the report."""
    assert ledgers.begun(Ledger(), FIRST, NOW, at_least=7).revision.number == 8
    first = ledgers.begun(Ledger(), FIRST, NOW)
    assert ledgers.begun(first, FIRST, LATER, at_least=7).revision.number == 8
    assert ledgers.begun(first, FIRST, LATER, at_least=1) == first
    assert ledgers.begun(first, SECOND, LATER, at_least=1).revision.number == 2


def test_the_first_readiness_is_noted_once() -> None:
    """It says since when a revision serves."""
    begun = ledgers.begun(Ledger(), FIRST, NOW)
    assert ledgers.looked_at(begun, {}, is_ready=False, now=NOW) == begun
    ready = ledgers.looked_at(begun, {}, is_ready=True, now=NOW)
    assert ready.revision.ready == NOW.replace(microsecond=0)
    assert ledgers.looked_at(ready, {}, is_ready=True, now=LATER) == ready
    assert ledgers.looked_at(ready, {}, is_ready=False, now=LATER) == ready


def test_a_revision_that_begins_again_has_all_of_its_time() -> None:
    """Its number and what it serves stay."""
    ready = ledgers.looked_at(ledgers.begun(Ledger(), FIRST, NOW), {}, is_ready=True, now=NOW)
    again = ledgers.begun_again(ready, LATER)
    assert again.revision.began == LATER.replace(microsecond=0)
    assert (again.revision.number, again.revision.ready) == (1, ready.revision.ready)
    assert again.inventory == ready.inventory


def test_what_is_gone_is_forgotten_only_after_the_rest_was_noted() -> None:
    """Narrowing touches what is named, nothing else."""
    begun = ledgers.begun(ledgers.begun(Ledger(), SECOND, NOW), FIRST, NOW)
    service = Entry("", "Service", "web")
    assert service in begun.inventory
    [member] = FIRST.members
    live = {**member.object, "metadata": {**member.object["metadata"], "uid": "u1"}}
    after = ledgers.applied(begun, [live], [service])
    assert after.inventory == (Entry("apps", "Deployment", "web", "u1"),)
    assert after.revision == begun.revision


def test_a_lost_inventory_is_recovered_and_a_kept_one_is_not_looked_for() -> None:
    """The cluster is searched only where nothing is remembered."""
    [member] = FIRST.members
    live = {**member.object, "metadata": {**member.object["metadata"], "uid": "u1"}}
    found = ledgers.recovered(Ledger((), Revision(4)), [live], OWNER.uid)
    assert found == Ledger((Entry("apps", "Deployment", "web", "u1"),), Revision(4))
    assert ledgers.recovered(found, iter(()), OWNER.uid) is found
