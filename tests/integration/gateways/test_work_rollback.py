"""A requested rollback happens once, whatever happens in between (DRF-6)."""

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
    """A data directory and its repository."""
    with engine_harness(tmp_path) as harness:
        yield harness


async def _sync_twice(site: EngineHarness) -> tuple[GatewayOperations, str, dict[str, bytes]]:
    """Sync a good, then a bad commit; returns operations, the bad commit and the good files."""
    operations = await site.operations()
    await operations.sync(site.sync_request(), Interrupt(), trigger="")
    before = site.files
    bad = site.commit({f"{SERVICE}/{VIEW}": '{"bad": true}'})
    await operations.sync(site.sync_request(), Interrupt(), trigger="")
    assert site.files != before
    return operations, bad, before


async def _fail_rollback(
    site: EngineHarness, operations: GatewayOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Request a rollback while the disk is full."""

    def full() -> None:
        raise Retryable("DiskFull", "no room")

    with monkeypatch.context() as patched:
        patched.setattr(site.applier, "rollback", full)
        with pytest.raises(Retryable):
            await operations.rollback("site", "")


async def test_a_fault_delays_a_rollback(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request counts as handled only after the rollback."""
    operations, bad, before = await _sync_twice(site)
    await _fail_rollback(site, operations, monkeypatch)
    assert operations.state.rollback == ""
    await operations.rollback("site", "")
    assert site.files == before
    assert operations.state.rollback == "site"
    assert operations.state.rolled_back is not None
    assert operations.state.rolled_back.commit == bad
    assert operations.state.pending == ("projects",)


async def test_a_crash_after_a_rollback_does_not_undo_it(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files were restored, but not recorded in the state: nothing is undone twice."""
    operations, bad, before = await _sync_twice(site)
    rollback = site.applier.rollback

    def killed() -> None:
        rollback()
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(site.applier, "rollback", killed)
        with pytest.raises(Killed):
            await operations.rollback("site", "")
    assert site.files == before
    restarted = await site.operations()
    assert restarted.state.rollback == ""
    await restarted.rollback("site", "")
    assert site.files == before
    assert restarted.state.rolled_back is not None
    assert restarted.state.rolled_back.commit == bad
    assert restarted.state.pending == ("config", "projects")


@pytest.mark.parametrize("request_value", ["site", "site@20260101-000000"])
async def test_a_rollback_without_an_apply_does_nothing(
    site: EngineHarness, request_value: str
) -> None:
    """A request from before a new volume is handled without an error."""
    operations = await site.operations()
    assert await operations.rollback(request_value, "") is False
    assert (operations.state.rollback, operations.state.pending) == (request_value, ())
    await operations.sync(site.sync_request(), Interrupt(), trigger="")
    assert operations.state.rolled_back is None
    assert site.files


async def test_an_impossible_rollback_is_reported_once(site: EngineHarness) -> None:
    """A request that cannot be fulfilled does not block later commits."""
    operations, _, _ = await _sync_twice(site)
    with pytest.raises(Stalled, match=r"snapshot .* not found"):
        await operations.rollback("site@20260101-000000", "")
    assert operations.state.rollback == "site@20260101-000000"


async def test_a_failed_rollback_request_starts_over_after_a_sync(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After another sync the same request undoes that one."""
    operations, _, _ = await _sync_twice(site)
    await _fail_rollback(site, operations, monkeypatch)
    before = site.files
    site.commit({f"{SERVICE}/{VIEW}": '{"worse": true}'})
    await operations.sync(site.sync_request(), Interrupt(), trigger="")
    await operations.rollback("site", "")
    assert site.files == before
