"""What an agent reports about its gateway."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.gateways.agent import state, status
from windlass.gateways.agent.decisions import SyncVersion
from windlass.gateways.agent.inputs import AgentIdentity
from windlass.gateways.agent.state import AgentState, LastSync
from windlass.gateways.agent.status import GatewayCondition, StatusFacts
from windlass.gateways.tree import deletes
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.tree.manifest import Manifest, ManifestEntry
from windlass.gateways.wire import agent_report

IDENTITY = AgentIdentity("site-0", "uid", "plant", "site")
OLD, NEW = "1" * 40, "2" * 40


def _manifest(*paths: str) -> Manifest:
    files = {path: ManifestEntry("a" * 64, 1, "b" * 40) for path in paths}
    return Manifest(commit=NEW, profile_hash="p", files=files)


def test_the_applied_commit_precedes_the_synced_one() -> None:
    """Between apply and scan the two commits differ (SCN-5)."""
    agent_state = AgentState(
        read=SyncVersion(OLD, "q"),
        pending=("projects",),
        last_sync=LastSync(
            time=datetime(2030, 1, 1, tzinfo=UTC), seconds=2.46, added=1, modified=2, deleted=3
        ),
    )
    manifest_summary = state.summarize_manifest(
        _manifest("projects/a/project.json", "projects/b/x/y", "projects/z")
    )
    facts = StatusFacts("site", agent_state, manifest_summary, FileDrift(modified=("x",)), "r")
    report = status.build_report(IDENTITY, GatewayCondition("Syncing", "Scanning"), facts)
    assert (report.applied_commit, report.synced_commit) == (NEW, OLD)
    assert (report.profile_hash, report.routing_hash) == ("q", "r")
    assert (report.scan_pending, report.files_changed) == (True, 6)
    assert report.last_sync_duration == "2.5s"
    assert report.projects_synced == ("a", "b")
    assert report.drift == agent_report.DriftCounts(modified=1)
    assert (
        agent_report.decode(status.encode_report(IDENTITY, GatewayCondition("Syncing"), facts))
        is not None
    )


def test_an_agent_without_state_can_report() -> None:
    """The first report of a pod."""
    report = status.build_report(
        IDENTITY, GatewayCondition("Pending"), StatusFacts("", AgentState(), None)
    )
    assert (report.gateway, report.synced_commit) == ("site-0", "")


def test_equal_trees_have_equal_digests() -> None:
    """Whatever commit they came from, and in whatever order they were listed."""
    first, second = _manifest("a/b", "c"), _manifest("c", "a/b")
    assert state.tree_digest(first) == state.tree_digest(second)
    assert state.tree_digest(first) != state.tree_digest(_manifest("a/b"))


def test_one_warning_is_reported_as_it_is_and_several_by_number_and_first() -> None:
    """The first is what a user may have to decide."""
    assert status.warning_text((), 0) == ""
    assert status.warning_text(("a is not synced",), 1) == "a is not synced"
    assert status.warning_text(("a", "b"), 3) == "3 warnings, first: a"


def test_the_annotation_that_confirms_deletes_is_reported_whole() -> None:
    """Beside other warnings, and whatever the names of the files: a report cuts its texts."""
    paths = [f"config/resources/core/{number}/{'x' * 90}" for number in range(100_000, 100_010)]
    kept = deletes.confirmation_warning(paths, commit=NEW, is_early=False)
    condition = GatewayCondition("Synced", "Synced", status.warning_text((kept,), 100))
    facts = StatusFacts("site", AgentState(), None)
    report = agent_report.decode(status.encode_report(IDENTITY, condition, facts))
    assert report is not None
    assert f'allow-mass-delete="{NEW}"' in report.error_message
