"""The audit record of a sync is logged once, when the sync has ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.support.gateways.engine_harness import SERVICE, EngineHarness, engine_harness
from windlass.base.clock import SystemClock
from windlass.base.errors import Retryable
from windlass.base.redaction import process
from windlass.gateways.agent.approvals import DeleteRequest
from windlass.gateways.agent.interrupt import Interrupt
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.agent.scanner import GatewayScanner
from windlass.gateways.volume.transaction import Transaction
from windlass.gateways.wire.metadata import GatewayEndpoint, SyncPolicy
from windlass.gateways.wire.routing import hash_routing
from windlass.telemetry.gateways import AgentMetrics

VIEW = "projects/line/view/view.json"
OFF = SyncPolicy(scan_mode="Off")


class Killed(Exception):
    """Stands in for the end of the process."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[EngineHarness]:
    """A data directory and its repository."""
    with engine_harness(tmp_path) as harness:
        yield harness


@pytest.fixture
def log_lines() -> Iterator[list[Any]]:
    """The captured log lines."""
    with capture_logs() as lines:
        yield lines


async def _operations(site: EngineHarness) -> GatewayOperations:
    """The operations of a started agent; nothing listens on the gateway's port."""
    scanner = GatewayScanner("http://127.0.0.1:9", site.directory / "no-token")
    metrics = AgentMetrics(CollectorRegistry())
    operations = GatewayOperations(
        site.applier, site.store, lambda _: scanner, SystemClock(), metrics, pod_uid="uid-1"
    )
    await operations.start()
    return operations


def _records(log_lines: list[Any]) -> list[Any]:
    return [line for line in log_lines if line.get("action")]


async def _sync(operations: GatewayOperations, site: EngineHarness) -> None:
    await operations.sync(site.sync_request(), Interrupt(), trigger="", cause="poll")


async def _sync_killed_past_commit_point(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync whose process ends before the files are in place."""

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "_complete", die)
        with pytest.raises(Killed):
            await _sync(await _operations(site), site)


def _write_existing_file(site: EngineHarness) -> None:
    """A file that the first sync finds in a directory that it will manage."""
    existing = site.data / "projects/line/existing.json"
    existing.parent.mkdir(parents=True)
    existing.write_text("{}")


async def test_a_record_waits_for_the_scan_also_across_a_restart(
    site: EngineHarness, log_lines: list[Any]
) -> None:
    """It has trigger, author, both digests and the result of the scan, and is logged once."""
    await _sync(await _operations(site), site)
    assert _records(log_lines) == []
    operations = await _operations(site)
    await operations.scan(GatewayEndpoint(), OFF, is_booting=False)
    (record,) = _records(log_lines)
    assert (record["event"], record["action"]) == ("files synced", "sync")
    assert (record["trigger"], record["commit_author"]) == ("poll", "Someone Else")
    assert (record["commit"], record["previous_commit"]) == (site.tip, "")
    assert (record["scan_result"], record["result"]) == ("off", "Synced")
    assert (record["projects"], record["pod_uid"]) == (("line",), "uid-1")
    assert record["added"] == len(site.files)
    assert operations.applied_tree is not None
    assert record["tree_digest"] == operations.applied_tree.tree_digest
    assert operations.state.audit is None


async def test_the_next_change_logs_the_record_that_was_never_scanned(
    site: EngineHarness, log_lines: list[Any]
) -> None:
    """A sync and a rollback after it; a sync that changes nothing waits for no scan."""
    operations = await _operations(site)
    await _sync(operations, site)
    first = site.tip
    site.commit({f"{SERVICE}/{VIEW}": "{}"})
    await _sync(operations, site)
    await operations.rollback("site", "")
    await operations.scan(GatewayEndpoint(), OFF, is_booting=False)
    logged = [(line["action"], line["commit"], line["scan_result"]) for line in _records(log_lines)]
    assert logged == [
        ("sync", first, "not scanned"),
        ("sync", site.tip, "not scanned"),
        ("rollback", first, "off"),
    ]
    await _sync(operations, site)
    await operations.scan(GatewayEndpoint(), OFF, is_booting=False)
    await _sync(operations, site)
    assert [line["scan_result"] for line in _records(log_lines)][3:] == ["off", "no scan needed"]


async def test_a_sync_completed_at_start_has_a_record(
    site: EngineHarness, log_lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trigger is the start; the author of the commit is known as well."""
    await _sync_killed_past_commit_point(site, monkeypatch)
    operations = await _operations(site)
    await operations.scan(GatewayEndpoint(), OFF, is_booting=False)
    (record,) = _records(log_lines)
    assert (record["trigger"], record["commit"]) == ("start", site.tip)
    assert record["commit_author"] == "Someone Else"
    assert (record["added"], record["modified"]) == (len(site.files), 0)


async def test_the_author_is_redacted(site: EngineHarness) -> None:
    """A commit can claim any author; no secret is written to the disk."""
    operations = await _operations(site)
    process.add("Someone")
    try:
        await _sync(operations, site)
    finally:
        process.discard("Someone")
    assert operations.state.audit is not None
    assert operations.state.audit.commit_author == "[redacted] Else"


async def test_a_sync_completed_at_start_reports_the_files_that_it_kept(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stored before the commit point: the process that plans may not live on."""
    _write_existing_file(site)
    await _sync_killed_past_commit_point(site, monkeypatch)
    restarted = await _operations(site)
    assert restarted.state.delete_request == DeleteRequest(
        site.tip, hash_routing(site.routing), ("projects/line/existing.json",)
    )


async def test_a_sync_completed_at_start_keeps_the_warnings_of_its_plan(
    site: EngineHarness, log_lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest has them, for report and record: the process that plans may not live on."""
    _write_existing_file(site)
    site.commit({f"{SERVICE}/config/resources/qa/config-mode.json": "{}"})
    await _sync_killed_past_commit_point(site, monkeypatch)
    operations = await _operations(site)
    assert operations.applied_tree is not None
    assert operations.applied_tree.warning_count == 1
    (unmapped,) = operations.applied_tree.warnings
    assert unmapped.startswith("1 config collection is not synced: qa")
    await operations.scan(GatewayEndpoint(), OFF, is_booting=False)
    (record,) = _records(log_lines)
    kept, *lasting = record["warnings"]
    assert kept.startswith("1 file existed before the directory was synced")
    assert lasting == [unmapped]


async def test_a_sync_that_fails_leaves_the_warnings_of_the_tree_on_the_disk(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its plan are about a tree that never came; a rollback has the ones before again."""
    operations = await _operations(site)
    await _sync(operations, site)
    before = operations.applied_tree
    site.commit({f"{SERVICE}/config/resources/qa/config-mode.json": "{}", f"{SERVICE}/{VIEW}": "1"})

    def fail(*_: object) -> None:
        raise Retryable("DiskFull", "no space")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit", fail)
        with pytest.raises(Retryable):
            await _sync(operations, site)
    assert operations.applied_tree == before
    restarted = await _operations(site)
    assert restarted.applied_tree == before
    await _sync(restarted, site)
    assert restarted.applied_tree is not None
    assert restarted.applied_tree.warning_count == 1
    await restarted.rollback("site", "")
    assert restarted.applied_tree == before


async def test_many_warnings_are_counted_and_the_first_are_kept(site: EngineHarness) -> None:
    """A manifest must not grow with them."""
    site.commit({f"{SERVICE}/projects/line/{number:02}/a.json": "{" for number in range(30)})
    operations = await _operations(site)
    await _sync(operations, site)
    assert operations.applied_tree is not None
    assert operations.applied_tree.warning_count == 30
    assert len(operations.applied_tree.warnings) == 20
    first = operations.applied_tree
    await _sync(operations, site)
    assert operations.applied_tree == first
