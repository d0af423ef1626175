"""What an agent says about its gateway."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass.gateways.agent import state, status
from windlass.gateways.agent.decisions import SyncVersion
from windlass.gateways.agent.inputs import AgentIdentity
from windlass.gateways.agent.state import AgentState, LastSync
from windlass.gateways.agent.status import GatewayCondition, StatusFacts
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.tree.manifest import Manifest, ManifestEntry
from windlass.gateways.wire import agent_report

WHO = AgentIdentity("site-0", "uid", "plant", "site")
OLD, NEW = "1" * 40, "2" * 40


def _manifest(*paths: str) -> Manifest:
    files = {path: ManifestEntry("a" * 64, 1, "b" * 40) for path in paths}
    return Manifest(commit=NEW, profile_hash="p", files=files)


def test_what_is_on_the_disk_is_not_yet_what_was_read() -> None:
    """Between apply and scan the two commits differ (SCN-5)."""
    memory = AgentState(
        read=SyncVersion(OLD, "q"),
        pending=("projects",),
        last_sync=LastSync(
            time=datetime(2030, 1, 1, tzinfo=UTC), seconds=2.46, added=1, modified=2, deleted=3
        ),
    )
    held = state.summarize_manifest(
        _manifest("projects/a/project.json", "projects/b/x/y", "projects/z")
    )
    known = StatusFacts("site", memory, held, FileDrift(modified=("x",)), "r")
    report = status.build_report(WHO, GatewayCondition("Syncing", "Scanning"), known)
    assert (report.applied_commit, report.synced_commit) == (NEW, OLD)
    assert (report.profile_hash, report.routing_hash) == ("q", "r")
    assert (report.scan_pending, report.files_changed) == (True, 6)
    assert report.last_sync_duration == "2.5s"
    assert report.projects_synced == ("a", "b")
    assert report.drift == agent_report.DriftCounts(modified=1)
    assert (
        agent_report.decode(status.encode_report(WHO, GatewayCondition("Syncing"), known))
        is not None
    )


def test_an_agent_that_knows_nothing_can_speak() -> None:
    """The first report of a pod."""
    report = status.build_report(
        WHO, GatewayCondition("Pending"), StatusFacts("", AgentState(), None)
    )
    assert (report.gateway, report.synced_commit) == ("site-0", "")


def test_equal_trees_have_equal_digests() -> None:
    """Whatever commit they came from, and in whatever order they were listed."""
    first, second = _manifest("a/b", "c"), _manifest("c", "a/b")
    assert state.tree_digest(first) == state.tree_digest(second)
    assert state.tree_digest(first) != state.tree_digest(_manifest("a/b"))
