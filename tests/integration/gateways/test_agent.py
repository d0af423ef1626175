"""The real agent: a push becomes files, a scan and a status; faults only delay it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways.agent_harness import (
    LABELS,
    POD,
    AgentHarness,
    agent_harness,
    unchanged_for,
)
from tests.support.gateways.engine_harness import CORE, SERVICE, read_files
from tests.support.gateways.mock_gateway import TOKEN
from tests.support.git.http_server import commit_files
from tests.support.processes import windlass_command
from tests.support.processes.operator import eventually
from windlass.gateways.wire.routing import NormalizeRules
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

VIEW = "projects/line/view/view.json"
NEW_VIEW = {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'}
PROPS = f"{CORE}/ignition/props/config.json"
MANY = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}


@pytest.fixture
def harness(cluster: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[AgentHarness]:
    """The environment of a pod, with a running gateway and no agent yet."""
    with agent_harness(cluster, namespace, tmp_path) as prepared:
        yield prepared


def _start_and_sync(harness: AgentHarness) -> AgentHarness:
    harness.publish()
    harness.agent.start()
    harness.await_synced()
    harness.await_booted()
    return harness


def _posts(harness: AgentHarness) -> tuple[int, int]:
    posts = harness.gateway.posts
    return posts.get("projects", 0), posts.get("config", 0)


def _sync_killed_at(harness: AgentHarness, failpoint: str) -> tuple[str, int]:
    """The second commit, whose sync SIGKILL ends there, and the project scans before it."""
    _start_and_sync(harness)
    harness.agent.kill()
    posts, _ = _posts(harness)
    commit = harness.push(NEW_VIEW)
    harness.agent.start(WINDLASS_FAILPOINTS=f"{failpoint}=kill")
    assert harness.agent.wait() == -signal.SIGKILL
    return commit, posts


def test_a_push_becomes_files_a_scan_and_a_status(harness: AgentHarness) -> None:
    """Twice: the first commit writes all files, the second one file with one scan."""
    _start_and_sync(harness)
    first = harness.await_synced(scan_pending=False, files_changed=6)
    assert (first.added, first.projects_synced) == (6, ("line",))
    assert first.last_scan_result == "projects=200 config=200"
    assert _posts(harness) == (1, 1)
    commit = harness.push(NEW_VIEW)
    second = harness.await_synced(commit, files_changed=1)
    assert (second.modified, second.applied_commit) == (1, commit)
    assert _posts(harness) == (2, 1)
    assert harness.files[VIEW] == b'{"root": {"x": 2}}'
    digests = {
        path: hashlib.sha256(content).hexdigest()
        for path, content in harness.files.items()
        if path.startswith("projects/")
    }
    loaded = harness.gateway.loaded
    assert {path: loaded[path] for path in digests} == digests
    assert harness.gateway.torn == []
    assert [entry.result for entry in second.history] == ["Synced", "Synced"]
    assert harness.agent.metric("windlass_agent_sync_total") == 2
    duration_count = "windlass_agent_sync_duration_seconds_count"
    for phase in ("fetch", "plan", "stage", "apply", "scan"):
        assert harness.agent.metric(f'{duration_count}{{phase="{phase}"}}') == 2
    for name in ("fetch_bytes_total", "peak_rss_bytes", "sync_skipped_total"):
        assert harness.agent.metric(f"windlass_agent_{name}") > 0
    assert harness.agent.plan["digest"] == second.plan_digest
    lines = [json.loads(line) for line in harness.agent.log.read_text().splitlines()]
    (first_line, audit_line) = [line for line in lines if line["message"] == "files synced"]
    assert (audit_line["role"], audit_line["cr"], audit_line["commit"]) == ("agent", "site", commit)
    assert {"namespace", "pod", "gateway", "ref", "tx", "duration_ms"} <= audit_line.keys()
    assert (first_line["trigger"], audit_line["trigger"]) == ("start", "poll")
    assert (audit_line["commit_author"], audit_line["pod_uid"]) == ("Someone Else", harness.pod_uid)
    assert (audit_line["scan_result"], audit_line["result"]) == ("projects=200", "Synced")
    assert audit_line["tree_digest"] == second.tree_digest


def test_an_idle_agent_writes_nothing(harness: AgentHarness) -> None:
    """Neither the cluster nor the disk changes while there is nothing to do (APP-13)."""
    _start_and_sync(harness)

    def observed() -> object:
        config_map = harness.admin.get("configmaps", harness.status_name)
        state = harness.data / ".ignition-sync"
        files = {path: path.stat().st_mtime_ns for path in state.rglob("*")}
        return config_map["metadata"]["resourceVersion"], files, _posts(harness)

    assert unchanged_for(3.0, observed)


@pytest.mark.scenario("G19")
def test_another_repository_is_followed(harness: AgentHarness) -> None:
    """The address changes in the metadata; no restart is needed."""
    _start_and_sync(harness)
    harness.repository_name = "other"
    harness.repository = harness.served.create("other", {f"{SERVICE}/{VIEW}": '{"other": 1}'})
    harness.cr_annotations["allow-mass-delete"] = harness.tip
    harness.publish()
    harness.await_synced()
    assert harness.files[VIEW] == b'{"other": 1}'


@pytest.mark.scenario("G34")
def test_a_broken_file_is_named_and_changes_nothing(harness: AgentHarness) -> None:
    """The report has file, line and column; the next valid commit is synced."""
    _start_and_sync(harness)
    before = harness.files
    harness.push({f"{SERVICE}/{PROPS}": '{\n "a": 1,\n}'})
    report = harness.await_report("error", sync_status="Error", reason="ConfigSyntaxError")
    assert f"{PROPS}:3:1" in report.error_message
    assert harness.files == before
    assert report.applied_commit != harness.tip
    harness.push({f"{SERVICE}/{PROPS}": '{"systemName": "x"}'})
    harness.await_synced(error_message="")


@pytest.mark.scenario("G36")
def test_a_changed_annotation_alone_causes_a_sync(harness: AgentHarness) -> None:
    """The same commit with another system name gets another hash and other bytes."""
    harness.spec["normalize"] = {"systemName": True}
    _start_and_sync(harness)
    assert harness.files[PROPS] == b'{ "systemName": "site" }'
    assert harness.metadata.routing.normalize == NormalizeRules(system_name=True)
    harness.annotate_pod(system_name="north")
    report = harness.await_synced(system_name="north")
    assert harness.files[PROPS] == b'{ "systemName": "north" }'
    assert report.modified == 1


@pytest.mark.scenario("G47")
def test_drift_is_reported_then_remediated(harness: AgentHarness) -> None:
    """A manual edit is drift; with Remediate it is reverted, and the gateway is scanned."""
    harness.policy |= {"drift_seconds": 0.5}
    _start_and_sync(harness)
    before = harness.files
    (harness.data / VIEW).write_text("edited")

    def reported() -> bool:
        report = harness.report
        return report is not None and report.drift is not None and report.drift.modified == 1

    eventually(reported, "drift reported")
    assert harness.files[VIEW] == b"edited"
    posts = _posts(harness)
    harness.policy |= {"drift_mode": "Remediate"}
    harness.publish()
    harness.await_report("remediated", sync_status="Synced", reason="DriftRemediated")
    assert harness.files == before
    assert _posts(harness) == (posts[0] + 1, posts[1])


@pytest.mark.scenario("G50")
def test_a_synced_volume_starts_without_git_and_api_server(harness: AgentHarness) -> None:
    """The gateway starts on the files of the last sync."""
    _start_and_sync(harness)
    assert harness.agent.signal(signal.SIGTERM) == 0
    harness.relay.cut()
    harness.gateway.mode("refused")
    harness.agent.start()
    eventually(lambda: harness.agent.may_start, "the gateway may start")


@pytest.mark.scenario("G50")
def test_a_gateway_is_degraded_while_git_is_down(harness: AgentHarness) -> None:
    """It runs on an older tree, and the report has the cause."""
    _start_and_sync(harness)
    synced_commit = harness.tip
    unreachable = "http://127.0.0.1:9/site.git"
    source = dataclasses.replace(harness.metadata.source, git_url=unreachable, commit="1" * 40)  # type: ignore[type-var]
    harness.publish(source=source)
    report = harness.await_report("degraded", degraded=True, reason="SourceUnavailable")
    assert report.error_message.startswith("Unavailable: ")
    assert (report.sync_status, report.synced_commit) == ("Error", synced_commit)
    del harness.changes["source"]
    harness.publish()
    harness.await_synced(degraded=False)


@pytest.mark.scenario("G51")
def test_an_empty_volume_waits_for_git(harness: AgentHarness) -> None:
    """The startup gate stays closed and the report has the reason; with StartAnyway it opens."""
    harness.gateway.mode("refused")
    source = harness.metadata.source
    assert source is not None
    harness.publish(source=dataclasses.replace(source, git_url="http://127.0.0.1:9/site.git"))
    harness.agent.start()
    report = harness.await_report("waiting", sync_status="Pending", reason="WaitingForGit")
    assert "127.0.0.1" in report.error_message
    eventually(lambda: "first sync" in harness.agent.probe("/startupz")[1], "the gate's reason")
    assert harness.agent.probe("/startupz")[0] == 503
    assert harness.agent.probe("/healthz")[0] == 200
    harness.policy |= {"initial_sync": "StartAnyway"}
    harness.publish()
    eventually(lambda: harness.agent.may_start, "the gateway may start")


def test_a_first_sync_before_the_gateway_starts_needs_no_scan(harness: AgentHarness) -> None:
    """The gateway reads its files at boot; files that the boot rewrites are restored."""
    harness.gateway.mode("refused")
    harness.publish()
    harness.agent.start()
    harness.await_synced(last_scan_result="at boot")
    eventually(lambda: harness.agent.may_start, "the gateway may start")
    (harness.data / PROPS).write_text("{}")
    harness.gateway.mode("ok")
    eventually(lambda: harness.files[PROPS] != b"{}", "restored after boot")
    harness.await_synced(scan_pending=False)
    eventually(lambda: _posts(harness) == (0, 1), "one scan")


def test_without_metadata_the_gateway_does_not_start(harness: AgentHarness) -> None:
    """It does not start empty without a ConfigMap; with a pause it may (STA-4)."""
    harness.gateway.mode("refused")
    harness.agent.start()
    eventually(lambda: harness.agent.probe("/startupz")[0] == 503, "the probe responds")
    assert unchanged_for(1.0, lambda: harness.agent.probe("/startupz")[0])
    harness.spec["paused"] = True
    harness.publish()
    harness.await_report("paused", sync_status="Paused", reason="PausedWithoutData")
    eventually(lambda: harness.agent.may_start, "the gateway may start")
    assert harness.files == {}
    harness.spec["paused"] = False
    harness.publish()
    harness.await_report("synced", applied_commit=harness.tip)


def test_a_newer_state_stops_writes_but_not_the_gateway(harness: AgentHarness) -> None:
    """The volume was used by a newer agent: nothing is written, and the gateway starts."""
    _start_and_sync(harness)
    harness.agent.kill()
    state = harness.data / ".ignition-sync" / "state.json"
    state.write_text(json.dumps({"schema": 99}))
    harness.push(NEW_VIEW)
    harness.gateway.mode("refused")
    harness.agent.start()
    report = harness.await_report("refused", sync_status="Error", reason="VolumeLocked")
    assert "newer version of windlass" in report.error_message
    eventually(lambda: harness.agent.may_start, "the gateway may start", seconds=40.0)
    assert harness.files[VIEW] == b'{"root": {"x": 1}}'
    assert json.loads(state.read_text()) == {"schema": 99}


@pytest.mark.scenario("G53")
def test_a_restarted_agent_copies_and_scans_nothing(harness: AgentHarness) -> None:
    """The gateway runs, so the startup gate is open at once."""
    _start_and_sync(harness)
    posts = _posts(harness)
    harness.agent.kill()
    harness.agent.start()
    eventually(lambda: harness.agent.may_start, "the gateway may run")
    harness.push({"README.md": "another commit, the same files"})
    harness.await_synced()
    assert _posts(harness) == posts


def test_an_apply_killed_after_the_commit_point_is_completed(harness: AgentHarness) -> None:
    """The next start completes it and scans."""
    commit, posts = _sync_killed_at(harness, "gateways.journal.forward.after")
    harness.agent.start()
    harness.await_synced(commit)
    assert harness.files[VIEW] == b'{"root": {"x": 2}}'
    assert _posts(harness)[0] == posts + 1
    assert harness.agent.metric("windlass_agent_journal_resumes_total") == 1


def test_a_scan_is_made_after_a_kill_before_it(harness: AgentHarness) -> None:
    """The files are in place and the scan is pending: it is made, and nothing is copied."""
    commit, posts = _sync_killed_at(harness, "gateways.scan.before")
    inode = (harness.data / VIEW).stat().st_ino
    harness.agent.start()
    harness.await_synced(commit)
    assert _posts(harness)[0] == posts + 1
    assert (harness.data / VIEW).stat().st_ino == inode


def test_a_scan_is_made_of_a_gateway_that_answers_late(harness: AgentHarness) -> None:
    """SCN-6: a running gateway that is silent for a while will not read its files by itself."""
    commit, posts = _sync_killed_at(harness, "gateways.scan.before")
    harness.gateway.mode("frozen")
    harness.agent.start()
    late = "the gateway is unresponsive"
    eventually(lambda: late in harness.agent.log.read_text(), "the gateway does not answer")
    harness.gateway.mode("ok")
    harness.await_synced(commit)
    assert _posts(harness)[0] == posts + 1


def test_a_gateway_that_stopped_answering_is_reported(harness: AgentHarness) -> None:
    """Once it may have been started, it is scanned: else it would be pending for ever."""
    harness.spec["ignition"] = {"scan": {"requestTimeout": "1s"}}
    _start_and_sync(harness)
    harness.gateway.mode("frozen")
    harness.push(NEW_VIEW)
    harness.await_report("the failed scan", sync_status="Error", scan_pending=True, seconds=90.0)
    harness.gateway.mode("ok")
    harness.await_synced()


def test_sigterm_ends_at_once_and_leaves_no_staging(harness: AgentHarness) -> None:
    """Also while the gateway never completes a scan."""
    _start_and_sync(harness)
    harness.gateway.mode("never-completes")
    harness.push(NEW_VIEW)
    harness.await_report("scanning", reason="Scanning", applied_commit=harness.tip)
    assert harness.agent.signal(signal.SIGTERM) == 0
    # It would say so after the deadline for its end.
    assert "sync interrupted by shutdown" not in harness.agent.log.read_text()
    assert list((harness.data / ".ignition-sync" / "staging").iterdir()) == []
    harness.gateway.mode("ok")
    harness.agent.start()
    harness.await_synced()


@pytest.mark.scenario("G54", "G55")
def test_a_rotated_token_is_used_without_a_restart(harness: AgentHarness) -> None:
    """A wrong token keeps the scan pending; the right one completes it."""
    _start_and_sync(harness)
    posts = _posts(harness)
    synced_commit = harness.tip
    harness.token_file.write_text("agent:wrong")
    harness.push(NEW_VIEW)
    report = harness.await_report("refused", reason="ScanUnauthorized", scan_pending=True)
    assert (report.synced_commit, report.applied_commit) == (synced_commit, harness.tip)
    assert harness.files[VIEW] == b'{"root": {"x": 2}}'
    harness.token_file.write_text(TOKEN)
    harness.await_synced(scan_pending=False)
    assert _posts(harness)[0] >= posts[0] + 1


def test_an_agent_works_without_the_api_server(harness: AgentHarness) -> None:
    """Drift is remediated meanwhile, and reported afterwards."""
    harness.policy |= {"drift_seconds": 0.5, "drift_mode": "Remediate"}
    _start_and_sync(harness)
    harness.relay.cut()
    before = harness.files
    (harness.data / VIEW).write_text("edited")
    eventually(lambda: harness.files == before, "remediated")
    commit = harness.push(NEW_VIEW)
    assert unchanged_for(1.0, lambda: harness.files)
    harness.relay.restore()
    harness.await_synced(commit)


def test_a_new_status_object_gets_the_whole_report(harness: AgentHarness) -> None:
    """The old one was deleted; writes wait for the new one."""
    _start_and_sync(harness)
    harness.admin.delete("configmaps", harness.status_name)
    commit = harness.tip
    harness.create_status_object()
    harness.publish()
    harness.await_synced(commit)


def test_adopted_files_are_deleted_only_with_an_allowance(harness: AgentHarness) -> None:
    """Later commits keep them; the annotation alone deletes them, and nothing else is copied."""
    adopted = harness.data / CORE / "ignition/user-source/default/config.json"
    adopted.parent.mkdir(parents=True)
    adopted.write_text("{}")
    _start_and_sync(harness)
    commit = harness.push(NEW_VIEW)
    report = harness.await_synced(commit)
    assert adopted.exists()
    assert report.deleted == 0
    assert "1 file existed before the directory was synced" in report.error_message
    assert f'allow-mass-delete="{commit}"' in report.error_message
    harness.cr_annotations["allow-mass-delete"] = commit
    harness.publish()
    harness.await_report("deleted", sync_status="Synced", deleted=1, modified=0, error_message="")
    assert not adopted.exists()


def test_warnings_are_reported_while_their_cause_lasts(harness: AgentHarness) -> None:
    """After a first sync, an incremental one, and one that a restart completes."""
    resources = f"{SERVICE}/config/resources"
    qa, prd = (f"{resources}/{name}/config-mode.json" for name in ("qa", "prd"))
    harness.push({qa: "{}"})
    report = _start_and_sync(harness).await_synced()
    assert report.error_message.startswith(f"1 config collection is not synced: qa in {resources}")
    assert harness.await_synced(harness.push(NEW_VIEW)).error_message == report.error_message
    harness.agent.kill()
    odd = f"{SERVICE}/projects/line/odd.json"
    commit = harness.push({prd: "{}", odd: "{"})
    harness.agent.start(WINDLASS_FAILPOINTS="gateways.journal.forward.after=kill")
    assert harness.agent.wait() == -signal.SIGKILL
    harness.agent.start()
    report = harness.await_synced(commit)
    assert report.error_message.startswith("2 warnings, first: 2 config collections are not synced")
    report = harness.await_synced(harness.push({qa: None, prd: None, odd: None}))
    assert report.error_message == ""


def _write_adopted(harness: AgentHarness, folder: str, count: int) -> Path:
    """Files that nobody committed, in a directory that is not managed yet."""
    adopted = harness.data / folder
    adopted.mkdir(parents=True)
    for number in range(count):
        (adopted / f"{number}.json").write_text("{}")
    return adopted


def _annotate(harness: AgentHarness, commit: str) -> None:
    """Approve the deletions of a commit on the IgnitionSync; empty removes the annotation."""
    harness.cr_annotations["allow-mass-delete"] = commit
    harness.publish()


def _await_message(harness: AgentHarness, *parts: str) -> str:
    """The message of the report once it has these parts."""

    def message() -> str:
        report = harness.report
        text = report.error_message if report is not None else ""
        return text if all(part in text for part in parts) else ""

    return eventually(message, f"a message with {parts}")


def _answer_again(harness: AgentHarness) -> None:
    """Remove the annotation, wait for the question, and set it."""
    commit = harness.tip
    _annotate(harness, "")
    _await_message(harness, f'annotate with ignition-sync.io/allow-mass-delete="{commit}"')
    _annotate(harness, commit)


def test_an_old_annotation_deletes_no_file_of_a_new_gateway(harness: AgentHarness) -> None:
    """It names the commit since long ago; the first sync asks, and no later one at it deletes."""
    adopted = _write_adopted(harness, f"{CORE}/ignition/user-source", 20)
    harness.cr_annotations["allow-mass-delete"] = harness.tip
    _start_and_sync(harness)
    harness.annotate_pod(system_name="north")
    harness.await_synced()
    assert len(list(adopted.iterdir())) == 20
    _await_message(harness, "20 files existed", "which was set before this message")
    harness.agent.kill()
    harness.agent.start()
    harness.annotate_pod(system_name="south")
    harness.await_synced()
    assert len(list(adopted.iterdir())) == 20
    _answer_again(harness)
    harness.await_report("deleted", sync_status="Synced", deleted=20, error_message="")
    assert not adopted.exists()


def test_an_old_annotation_deletes_no_file_of_a_directory_mapped_later(
    harness: AgentHarness,
) -> None:
    """Also after it was an answer for other directories."""
    first = _write_adopted(harness, f"{CORE}/ignition/user-source", 2)
    second = _write_adopted(harness, "extra", 20)
    _start_and_sync(harness)
    _await_message(harness, "2 files existed", "annotate with")
    _annotate(harness, harness.tip)
    harness.await_report("deleted", sync_status="Synced", deleted=2, error_message="")
    assert not first.exists()
    view = f"{SERVICE}/projects/line/view"
    harness.spec["additionalFiles"] = [{"source": view, "dest": "extra", "type": "dir"}]
    harness.publish()
    harness.await_synced()
    harness.annotate_pod(system_name="north")
    harness.await_synced()
    assert len(list(second.iterdir())) == 22
    _await_message(harness, "20 files existed", "which was set before this message")
    _answer_again(harness)
    harness.await_report("deleted", sync_status="Synced", deleted=20, error_message="")
    assert len(list(second.iterdir())) == 2


def test_a_question_is_remembered_by_the_next_agent(harness: AgentHarness) -> None:
    """It was asked before the restart, and the annotation is set while no agent runs."""
    adopted = _write_adopted(harness, f"{CORE}/ignition/user-source", 2)
    _start_and_sync(harness)
    _await_message(harness, "2 files existed", "annotate with")
    assert harness.agent.signal(signal.SIGTERM) == 0
    _annotate(harness, harness.tip)
    harness.agent.start()
    harness.await_report("deleted", sync_status="Synced", deleted=2, error_message="")
    assert not adopted.exists()


def test_an_agent_without_a_record_of_questions_asks(harness: AgentHarness) -> None:
    """The state is lost, or of a version that did not record them; the annotation is there.

    Also if the agent does not know yet that it is: stored metadata may be older.
    """
    adopted = _write_adopted(harness, f"{CORE}/ignition/user-source", 2)
    _start_and_sync(harness)
    _await_message(harness, "2 files existed", "annotate with")
    assert harness.agent.signal(signal.SIGTERM) == 0
    state = harness.data / ".ignition-sync" / "state.json"
    kept = json.loads(state.read_text())
    del kept["deleteRequest"]
    state.write_text(json.dumps(kept))
    _annotate(harness, harness.tip)
    harness.relay.cut()
    harness.agent.start()
    eventually(lambda: harness.agent.may_start, "the gateway may start")
    eventually(
        lambda: harness.agent.metric("windlass_agent_sync_skipped_total") > 0, "the agent rests"
    )
    harness.relay.restore()
    _await_message(harness, "2 files existed", "which was set before this message")
    assert len(list(adopted.iterdir())) == 2
    _answer_again(harness)
    harness.await_report("deleted", sync_status="Synced", deleted=2, error_message="")


def test_an_old_rollback_request_does_not_keep_a_new_volume_empty(harness: AgentHarness) -> None:
    """The annotation stays on the IgnitionSync; a new volume has nothing to undo and is synced."""
    harness.cr_annotations["rollback"] = "*"
    _start_and_sync(harness)
    assert harness.files[VIEW] == b'{"root": {"x": 1}}'
    eventually(lambda: harness.agent.may_start, "the gateway may start")
    assert "UndoUnavailable" not in harness.agent.log.read_text()


@pytest.mark.scenario("G48")
def test_a_rollback_request_acts_once(harness: AgentHarness) -> None:
    """The bytes are restored, the bad commit is not synced again, another one is."""
    _start_and_sync(harness)
    before = harness.files
    bad = harness.push(NEW_VIEW)
    harness.await_synced(bad)
    harness.cr_annotations["rollback"] = "site"
    harness.publish()
    report = harness.await_report("rolled back", sync_status="Error", reason="RolledBack")
    assert bad[:7] in report.error_message
    assert harness.files == before
    eventually(lambda: _posts(harness)[0] == 3, "the gateway read the old files")
    assert unchanged_for(1.0, lambda: harness.files)
    good = harness.push({f"{SERVICE}/{VIEW}": '{"root": {"x": 3}}'})
    harness.await_synced(good)


@pytest.mark.scenario("G46")
def test_a_dry_run_only_plans(harness: AgentHarness) -> None:
    """Counts, paths and warnings are reported; nothing is written or scanned."""
    mappings = [{"source": f"{SERVICE}/projects", "destination": "projects"}]
    harness.spec["profiles"] = {"default": {"mappings": mappings, "dryRun": True}}
    harness.annotate_pod(profile="default")
    harness.push({f"{SERVICE}/projects/line/odd.json": "{"})
    harness.agent.start()
    report = harness.await_report("dry run", sync_status="DryRun")
    assert "dry run: 4 files to write, 0 to delete" in report.error_message
    assert VIEW in report.error_message
    assert "; projects/line/odd.json:1:2: invalid JSON" in report.error_message
    assert (harness.files, _posts(harness)) == ({}, (0, 0))
    assert harness.agent.plan["digest"] == report.plan_digest


def test_deleting_the_cr_keeps_the_files(harness: AgentHarness) -> None:
    """Neither `terminating` nor a missing ConfigMap changes the gateway (DEL-1, DEL-2)."""
    _start_and_sync(harness)
    before = harness.files
    harness.changes["terminating"] = True
    harness.push(NEW_VIEW)
    harness.await_report("deletion reported", sync_status="Paused")
    harness.admin.delete("configmaps", f"ignition-sync-metadata-{'site'}")
    assert unchanged_for(1.0, lambda: harness.files)
    assert harness.files == before
    del harness.changes["terminating"]
    harness.publish()
    harness.await_synced()


def _delete_many(harness: AgentHarness) -> tuple[str, str]:
    """A commit that deletes 40 files which Git had, and the message of the guard that holds it."""
    harness.push(MANY)
    harness.await_synced()
    commit = harness.push(dict.fromkeys(MANY))
    return commit, harness.await_report("held", reason="MassDeleteGuard").error_message


@pytest.mark.scenario("G42")
def test_many_deletes_need_an_allowance(harness: AgentHarness) -> None:
    """The message of the guard contains the annotation that allows them."""
    harness.publish()
    harness.agent.start()
    commit, message = _delete_many(harness)
    assert f'allow-mass-delete="{commit}"' in message
    harness.cr_annotations["allow-mass-delete"] = commit
    harness.publish()
    assert harness.await_synced(commit).deleted == 40


@pytest.mark.scenario("G42")
def test_the_guard_names_every_file_that_its_annotation_deletes(harness: AgentHarness) -> None:
    """Those that Git had and, apart from them, those from before the directory was synced."""
    adopted = _write_adopted(harness, f"{CORE}/ignition/user-source", 30)
    harness.publish()
    harness.agent.start()
    commit, message = _delete_many(harness)
    assert message.startswith("40 files would be deleted, ")
    assert "and 30 files from before the directory was synced: " in message
    assert message.endswith(f'allow-mass-delete="{commit}"')
    _annotate(harness, commit)
    assert harness.await_synced(commit).deleted == 70
    assert not adopted.exists()


@pytest.mark.scenario("G42")
def test_an_approval_given_beforehand_deletes_only_files_that_git_had(
    harness: AgentHarness,
) -> None:
    """The commit determines these; about adopted files nobody was asked yet."""
    adopted = _write_adopted(harness, f"{CORE}/ignition/user-source", 30)
    harness.publish()
    harness.agent.start()
    harness.push(MANY)
    harness.await_synced()
    _annotate(harness, commit_files(harness.repository, dict.fromkeys(MANY)))
    assert harness.await_synced().deleted == 40
    _await_message(harness, "30 files existed", "which was set before this message")
    assert len(list(adopted.iterdir())) == 30


@pytest.mark.scenario("G42")
def test_an_approval_of_another_routing_lifts_no_guard(harness: AgentHarness) -> None:
    """The annotation names the commit, but was set before the spec was edited."""
    commit_files(harness.repository, MANY)
    harness.spec["additionalFiles"] = [
        {"source": f"{SERVICE}/projects/line/many", "dest": "extra", "type": "dir"}
    ]
    harness.cr_annotations["allow-mass-delete"] = harness.tip
    _start_and_sync(harness)
    del harness.spec["additionalFiles"]
    harness.publish()
    report = harness.await_report("held", reason="MassDeleteGuard")
    assert "which was set before this message" in report.error_message
    assert len(list((harness.data / "extra").iterdir())) == 40
    _answer_again(harness)
    assert harness.await_synced().deleted == 40


@pytest.mark.scenario("G44")
def test_a_second_agent_waits_for_the_volume(harness: AgentHarness) -> None:
    """It reports the owner of the volume, and takes it over when the first one is gone."""
    from tests.support.gateways.agent_harness import AgentRun

    _start_and_sync(harness)
    directory = harness.directory / "second"
    directory.mkdir()
    environment = {**harness.agent._environment, "STORE_PATH": str(directory / "store")}
    second = AgentRun(environment, directory / "agent.log", harness.agent._kubeconfig)
    second.start(POD_UID=f"{harness.pod_uid}x")
    try:
        report = harness.await_report("locked", reason="VolumeLocked")
        assert "site-0" in report.error_message
        harness.agent.kill()
        harness.push(NEW_VIEW)
        eventually(lambda: harness.files[VIEW] == b'{"root": {"x": 2}}', "taken over")
    finally:
        second.kill()


@pytest.mark.scenario("G79")
def test_the_command_line_and_the_agent_agree(harness: AgentHarness, tmp_path: Path) -> None:
    """The same CR and commit give the same plan digest, and the same tree in a folder."""
    harness.spec["normalize"] = {"systemName": True}
    folder = tmp_path / "local"
    folder.mkdir()
    cr = tmp_path / "cr.json"
    kind = {"apiVersion": "sync.ignition.io/v1alpha1", "kind": "IgnitionSync"}
    cr.write_text(json.dumps({**kind, **harness._document()}))
    arguments = [
        f"--cr={cr}",
        f"--to={folder}",
        f"--service-path={SERVICE}",
        f"--pod-name={POD}",
        "--insecure-host=127.0.0.1",
        *(f"--label={name}={value}" for name, value in LABELS.items()),
    ]
    planned = _run_local(tmp_path, "plan", *arguments, "-o", "json")
    assert planned.returncode == 2, planned.stderr
    _start_and_sync(harness)
    report = harness.await_synced()
    assert json.loads(planned.stdout)["digest"] == report.plan_digest
    assert json.loads(planned.stdout) == harness.agent.plan
    assert _run_local(tmp_path, "apply", *arguments).returncode == 0
    assert read_files(folder) == harness.files


def _run_local(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return windlass_command.run(["gateway", *arguments], environment)


def test_a_rollback_request_that_was_removed_can_be_made_again(harness: AgentHarness) -> None:
    """Also after a restart in between: the agent has stored that the request is gone."""
    _start_and_sync(harness)
    before = harness.files
    harness.await_synced(harness.push(NEW_VIEW))
    harness.cr_annotations["rollback"] = "*"
    harness.publish()
    harness.await_report("rolled back", sync_status="Error", reason="RolledBack")
    del harness.cr_annotations["rollback"]
    good = harness.push({f"{SERVICE}/{VIEW}": '{"root": {"x": 3}}'})
    harness.await_synced(good)
    good_files = harness.files
    harness.await_synced(harness.push({f"{SERVICE}/{VIEW}": '{"root": {"x": 4}}'}))
    harness.agent.kill()
    harness.agent.start()
    harness.cr_annotations["rollback"] = "*"
    harness.publish()
    harness.await_report("rolled back again", sync_status="Error", reason="RolledBack")
    assert harness.files == good_files != before


def test_the_resource_of_the_token_to_scan_with_is_no_drift(harness: AgentHarness) -> None:
    """The gateway wrote it, and no sync deletes it: only the other file is extra."""
    harness.policy |= {"drift_seconds": 0.5}
    _start_and_sync(harness)
    tokens = harness.data / CORE / "ignition/api-token"
    for name in ("agent", "other"):
        (tokens / name).mkdir(parents=True)
        (tokens / name / "config.json").write_text("{}")

    def extra_files() -> int:
        report = harness.report
        return report.drift.extra if report is not None and report.drift is not None else 0

    eventually(lambda: extra_files() == 1, "one extra file reported")


def test_a_token_is_kept_while_the_name_to_scan_with_is_unknown(harness: AgentHarness) -> None:
    """Without the key file neither remediation nor a commit deletes it; other extra files go."""
    harness.policy |= {"drift_seconds": 0.5, "drift_mode": "Remediate"}
    _start_and_sync(harness)
    harness.token_file.unlink()
    token = harness.data / CORE / "ignition/api-token/agent/config.json"
    extra = harness.data / CORE / "ignition/extra/config.json"
    for path in (token, extra):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    eventually(lambda: not extra.exists(), "the other extra file deleted")
    harness.push(NEW_VIEW)
    eventually(lambda: harness.files[VIEW] == b'{"root": {"x": 2}}', "the commit on the disk")
    assert token.exists()
    harness.token_file.write_text(TOKEN)
    harness.await_synced(scan_pending=False)
    assert token.exists()
