"""A rollback that is asked for happens once, whatever comes in between (DRF-6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways.engine_harness import SERVICE, EngineHarness, engine_harness
from windlass.base.errors import Retryable, Stalled
from windlass.gateways.agent.interrupt import Interrupt
from windlass.gateways.agent.operations import GatewayOperations

VIEW = "projects/line/view/view.json"


class Killed(Exception):
    """Stands in for the end of the process."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[EngineHarness]:
    """A data directory with a repository behind it."""
    with engine_harness(tmp_path) as found:
        yield found


async def _synced_twice(site: EngineHarness) -> tuple[GatewayOperations, str, dict[str, bytes]]:
    """Hands that have brought a bad commit over a good one; the bad one, and the good files."""
    work = await site.operations()
    await work.sync(site.sync_request(), Interrupt(), trigger="")
    before = site.files
    bad = site.commit({f"{SERVICE}/{VIEW}": '{"bad": true}'})
    await work.sync(site.sync_request(), Interrupt(), trigger="")
    assert site.files != before
    return work, bad, before


async def _failed_rollback(
    site: EngineHarness, work: GatewayOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback that is asked for while the disk is full."""

    def full() -> None:
        raise Retryable("DiskFull", "no room")

    with monkeypatch.context() as patched:
        patched.setattr(site.applier, "rollback", full)
        with pytest.raises(Retryable):
            await work.rollback("site", "")


async def test_a_fault_delays_a_rollback(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not count as heeded before it is done."""
    work, bad, before = await _synced_twice(site)
    await _failed_rollback(site, work, monkeypatch)
    assert work.state.rollback == ""
    await work.rollback("site", "")
    assert site.files == before
    assert work.state.rollback == "site"
    assert work.state.rolled_back is not None
    assert work.state.rolled_back.commit == bad
    assert work.state.pending == ("projects",)


async def test_a_crash_after_a_rollback_does_not_undo_it(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files were back, the memory did not say so yet: nothing is undone a second time."""
    work, bad, before = await _synced_twice(site)
    real = site.applier.rollback

    def killed() -> None:
        real()
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(site.applier, "rollback", killed)
        with pytest.raises(Killed):
            await work.rollback("site", "")
    assert site.files == before
    later = await site.operations()
    assert later.state.rollback == ""
    await later.rollback("site", "")
    assert site.files == before
    assert later.state.rolled_back is not None
    assert later.state.rolled_back.commit == bad
    assert later.state.pending == ("config", "projects")


@pytest.mark.parametrize("request_value", ["site", "site@20260101-000000"])
async def test_where_nothing_was_applied_a_rollback_is_nothing_to_do(
    site: EngineHarness, request_value: str
) -> None:
    """A request that outlived its volume is heeded on the next one without an error."""
    work = await site.operations()
    assert await work.rollback(request_value, "") is False
    assert (work.state.rollback, work.state.pending) == (request_value, ())
    await work.sync(site.sync_request(), Interrupt(), trigger="")
    assert work.state.rolled_back is None
    assert site.files


async def test_what_cannot_be_undone_is_said_once(site: EngineHarness) -> None:
    """A request that nothing can fulfil must not keep later commits away."""
    work, _, _ = await _synced_twice(site)
    with pytest.raises(Stalled, match=r"snapshot .* not found"):
        await work.rollback("site@20260101-000000", "")
    assert work.state.rollback == "site@20260101-000000"


async def test_a_wish_given_up_is_begun_anew(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After another sync the same word means the undo of that one."""
    work, _, _ = await _synced_twice(site)
    await _failed_rollback(site, work, monkeypatch)
    before = site.files
    site.commit({f"{SERVICE}/{VIEW}": '{"worse": true}'})
    await work.sync(site.sync_request(), Interrupt(), trigger="")
    await work.rollback("site", "")
    assert site.files == before
