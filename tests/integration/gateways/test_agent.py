"""The real agent: a push becomes files, a scan, a status; faults only delay it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import time
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
from tests.support.processes import windlass_command
from tests.support.processes.operator import eventually
from windlass.gateways.wire.routing import NormalizeRules
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

VIEW = "projects/line/view/view.json"
NEW_VIEW = {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'}
PROPS = f"{CORE}/ignition/props/config.json"


@pytest.fixture
def harness(cluster: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[AgentHarness]:
    """A pod's surroundings, with a running gateway and no agent yet."""
    with agent_harness(cluster, namespace, tmp_path) as made:
        yield made


def _synced(harness: AgentHarness) -> AgentHarness:
    harness.publish()
    harness.agent.start()
    harness.await_synced()
    harness.await_booted()
    return harness


def _posts(harness: AgentHarness) -> tuple[int, int]:
    posts = harness.gateway.posts
    return posts.get("projects", 0), posts.get("config", 0)


def test_a_push_becomes_files_a_scan_and_a_status(harness: AgentHarness) -> None:
    """Twice: the first commit brings everything, the second one file and one scan."""
    _synced(harness)
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
    assert [past.result for past in second.history] == ["Synced", "Synced"]
    assert harness.agent.metric("windlass_agent_sync_total") == 2
    counted = "windlass_agent_sync_duration_seconds_count"
    for phase in ("fetch", "plan", "stage", "apply", "scan"):
        assert harness.agent.metric(f'{counted}{{phase="{phase}"}}') == 2
    for name in ("fetch_bytes_total", "peak_rss_bytes", "sync_skipped_total"):
        assert harness.agent.metric(f"windlass_agent_{name}") > 0
    assert harness.agent.plan["digest"] == second.plan_digest
    lines = [json.loads(line) for line in harness.agent.log.read_text().splitlines()]
    (started, audit) = [line for line in lines if line["message"] == "files synced"]
    assert (audit["role"], audit["cr"], audit["commit"]) == ("agent", "site", commit)
    assert {"namespace", "pod", "gateway", "ref", "tx", "duration_ms"} <= audit.keys()
    assert (started["trigger"], audit["trigger"]) == ("start", "poll")
    assert (audit["commit_author"], audit["pod_uid"]) == ("Someone Else", harness.pod_uid)
    assert (audit["scan_result"], audit["result"]) == ("projects=200", "Synced")
    assert audit["tree_digest"] == second.tree_digest


def test_an_idle_agent_writes_nothing(harness: AgentHarness) -> None:
    """Neither the cluster nor the disk changes while there is nothing to do (APP-13)."""
    _synced(harness)

    def observed() -> object:
        found = harness.admin.get("configmaps", harness.status_name)
        state = harness.data / ".ignition-sync"
        files = {path: path.stat().st_mtime_ns for path in state.rglob("*")}
        return found["metadata"]["resourceVersion"], files, _posts(harness)

    assert unchanged_for(3.0, observed)


@pytest.mark.scenario("G19")
def test_another_repository_is_followed(harness: AgentHarness) -> None:
    """The address changes in the metadata, and no restart is needed."""
    _synced(harness)
    harness.repository_name = "other"
    harness.repository = harness.served.create("other", {f"{SERVICE}/{VIEW}": '{"other": 1}'})
    harness.cr_annotations["allow-mass-delete"] = harness.tip
    harness.publish()
    harness.await_synced()
    assert harness.files[VIEW] == b'{"other": 1}'


@pytest.mark.scenario("G34")
def test_a_broken_file_is_named_and_changes_nothing(harness: AgentHarness) -> None:
    """The report has file, line and column; the next good commit heals it."""
    _synced(harness)
    before = harness.files
    harness.push({f"{SERVICE}/{PROPS}": '{\n "a": 1,\n}'})
    report = harness.await_report("error", sync_status="Error", reason="ConfigSyntaxError")
    assert f"{PROPS}:3:1" in report.error_message
    assert harness.files == before
    assert report.applied_commit != harness.tip
    harness.push({f"{SERVICE}/{PROPS}": '{"systemName": "x"}'})
    harness.await_synced(error_message="")


@pytest.mark.scenario("G36")
def test_an_annotation_alone_syncs_anew(harness: AgentHarness) -> None:
    """The same commit with another system name gets another hash and other bytes."""
    harness.spec["normalize"] = {"systemName": True}
    _synced(harness)
    assert harness.files[PROPS] == b'{ "systemName": "site" }'
    assert harness.metadata.routing.normalize == NormalizeRules(system_name=True)
    harness.annotate_pod(system_name="north")
    report = harness.await_synced(system_name="north")
    assert harness.files[PROPS] == b'{ "systemName": "north" }'
    assert report.modified == 1


@pytest.mark.scenario("G47")
def test_drift_is_reported_then_put_right(harness: AgentHarness) -> None:
    """A hand edit counts; with Remediate it is gone, and the gateway reads it again."""
    harness.policy |= {"drift_seconds": 0.5}
    _synced(harness)
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
def test_a_good_volume_starts_without_anybody(harness: AgentHarness) -> None:
    """Git and the API server are away: the gateway starts on what is there."""
    _synced(harness)
    assert harness.agent.signal(signal.SIGTERM) == 0
    harness.relay.cut()
    harness.gateway.mode("refused")
    began = time.monotonic()
    harness.agent.start()
    eventually(lambda: harness.agent.may_start, "the gateway may start", seconds=25.0)
    assert time.monotonic() - began < 25.0


@pytest.mark.scenario("G50")
def test_degraded_is_shown_while_git_is_down(harness: AgentHarness) -> None:
    """An older tree runs, and the report says why it is older."""
    _synced(harness)
    old = harness.tip
    gone = "http://127.0.0.1:9/site.git"
    source = dataclasses.replace(harness.metadata.source, git_url=gone, commit="1" * 40)  # type: ignore[type-var]
    harness.publish(source=source)
    report = harness.await_report("degraded", degraded=True, reason="SourceUnavailable")
    assert report.error_message.startswith("Unavailable: ")
    assert (report.sync_status, report.synced_commit) == ("Error", old)
    del harness.changes["source"]
    harness.publish()
    harness.await_synced(degraded=False)


@pytest.mark.scenario("G51")
def test_an_empty_volume_waits_for_git(harness: AgentHarness) -> None:
    """The gate stays closed and the report says so; with StartAnyway it opens."""
    harness.gateway.mode("refused")
    source = harness.metadata.source
    assert source is not None
    harness.publish(source=dataclasses.replace(source, git_url="http://127.0.0.1:9/site.git"))
    harness.agent.start()
    report = harness.await_report("waiting", sync_status="Pending", reason="WaitingForGit")
    assert "127.0.0.1" in report.error_message
    status, text = harness.agent.probe("/startupz")
    assert (status, "first sync" in text) == (503, True)
    assert harness.agent.probe("/healthz")[0] == 200
    harness.policy |= {"initial_sync": "StartAnyway"}
    harness.publish()
    eventually(lambda: harness.agent.may_start, "the gateway may start")


def test_a_first_sync_before_the_gateway_starts_needs_no_scan(harness: AgentHarness) -> None:
    """The gateway reads its files at boot; what the boot rewrites is restored."""
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


def test_nothing_told_means_waiting(harness: AgentHarness) -> None:
    """Without a ConfigMap the gateway does not boot empty; with a pause it may (STA-4)."""
    harness.gateway.mode("refused")
    harness.agent.start()
    eventually(lambda: harness.agent.probe("/startupz")[0] == 503, "the probe answers")
    assert unchanged_for(1.0, lambda: harness.agent.probe("/startupz")[0])
    harness.spec["paused"] = True
    harness.publish()
    harness.await_report("paused", sync_status="Paused", reason="PausedWithoutData")
    eventually(lambda: harness.agent.may_start, "the gateway may start")
    assert harness.files == {}
    harness.spec["paused"] = False
    harness.publish()
    harness.await_report("synced", applied_commit=harness.tip)


def test_a_newer_state_stops_writes_and_not_the_gateway(harness: AgentHarness) -> None:
    """The volume was used by a newer agent: nothing is touched, and the gateway starts."""
    _synced(harness)
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
def test_a_killed_agent_comes_back_quietly(harness: AgentHarness) -> None:
    """The gateway runs: the gate is open at once, nothing is copied and nothing scanned."""
    _synced(harness)
    posts = _posts(harness)
    harness.agent.kill()
    harness.agent.start()
    eventually(lambda: harness.agent.may_start, "the gateway may run")
    harness.push({"README.md": "another commit, the same files"})
    harness.await_synced()
    assert _posts(harness) == posts


def test_a_death_after_the_commit_point_is_finished(harness: AgentHarness) -> None:
    """SIGKILL in the middle of an apply: the next start completes it and scans."""
    _synced(harness)
    harness.agent.kill()
    posts = _posts(harness)
    commit = harness.push(NEW_VIEW)
    harness.agent.start(WINDLASS_FAILPOINTS="gateways.journal.forward.after=kill")
    assert harness.agent.wait() == -signal.SIGKILL
    harness.agent.start()
    harness.await_synced(commit)
    assert harness.files[VIEW] == b'{"root": {"x": 2}}'
    assert _posts(harness)[0] == posts[0] + 1
    assert harness.agent.metric("windlass_agent_journal_resumes_total") == 1


def test_a_death_before_the_scan_is_followed_by_it(harness: AgentHarness) -> None:
    """The files are there, the scan is still owed: it is made, and nothing is copied."""
    _synced(harness)
    harness.agent.kill()
    posts = _posts(harness)
    commit = harness.push(NEW_VIEW)
    harness.agent.start(WINDLASS_FAILPOINTS="gateways.scan.before=kill")
    assert harness.agent.wait() == -signal.SIGKILL
    inode = (harness.data / VIEW).stat().st_ino
    harness.agent.start()
    harness.await_synced(commit)
    assert _posts(harness)[0] == posts[0] + 1
    assert (harness.data / VIEW).stat().st_ino == inode


def test_sigterm_ends_at_once_and_leaves_nothing(harness: AgentHarness) -> None:
    """A stop while the gateway does not answer to a scan takes no time."""
    _synced(harness)
    harness.gateway.mode("never-completes")
    harness.push(NEW_VIEW)
    harness.await_report("scanning", reason="Scanning", applied_commit=harness.tip)
    began = time.monotonic()
    assert harness.agent.signal(signal.SIGTERM) == 0
    assert time.monotonic() - began < 10.0
    assert list((harness.data / ".ignition-sync" / "staging").iterdir()) == []
    harness.gateway.mode("ok")
    harness.agent.start()
    harness.await_synced()


@pytest.mark.scenario("G54", "G55")
def test_a_rotated_token_ends_the_refusal(harness: AgentHarness) -> None:
    """A wrong token keeps the scan pending; the right one is used without a restart."""
    _synced(harness)
    posts = _posts(harness)
    old = harness.tip
    harness.token_file.write_text("agent:wrong")
    harness.push(NEW_VIEW)
    report = harness.await_report("refused", reason="ScanUnauthorized", scan_pending=True)
    assert (report.synced_commit, report.applied_commit) == (old, harness.tip)
    assert harness.files[VIEW] == b'{"root": {"x": 2}}'
    harness.token_file.write_text(TOKEN)
    harness.await_synced(scan_pending=False)
    assert _posts(harness)[0] >= posts[0] + 1


def test_the_api_server_may_be_away(harness: AgentHarness) -> None:
    """Drift is put right without it, and what happened is told afterwards."""
    harness.policy |= {"drift_seconds": 0.5, "drift_mode": "Remediate"}
    _synced(harness)
    harness.relay.cut()
    before = harness.files
    (harness.data / VIEW).write_text("edited")
    eventually(lambda: harness.files == before, "remediated")
    commit = harness.push(NEW_VIEW)
    assert unchanged_for(1.0, lambda: harness.files)
    harness.relay.restore()
    harness.await_synced(commit)


def test_a_new_status_object_is_reported_to(harness: AgentHarness) -> None:
    """The object was deleted: writing waits, and a new one gets the whole report."""
    _synced(harness)
    harness.admin.delete("configmaps", harness.status_name)
    commit = harness.tip
    harness.create_status_object()
    harness.publish()
    harness.await_synced(commit)


def test_files_from_before_the_first_sync_wait_for_a_word(harness: AgentHarness) -> None:
    """Later commits leave them; the annotation alone lets them go, and nothing else is copied."""
    theirs = harness.data / CORE / "ignition/user-source/default/config.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    _synced(harness)
    commit = harness.push(NEW_VIEW)
    report = harness.await_synced(commit)
    assert theirs.exists()
    assert report.deleted == 0
    assert "1 file existed before the directory was synced" in report.error_message
    assert f'allow-mass-delete="{commit}"' in report.error_message
    harness.cr_annotations["allow-mass-delete"] = commit
    harness.publish()
    harness.await_report("deleted", sync_status="Synced", deleted=1, modified=0, error_message="")
    assert not theirs.exists()


def test_a_spent_rollback_does_not_keep_a_fresh_volume_empty(harness: AgentHarness) -> None:
    """The annotation stays on the IgnitionSync; a new volume has nothing to undo and is synced."""
    harness.cr_annotations["rollback"] = "*"
    _synced(harness)
    assert harness.files[VIEW] == b'{"root": {"x": 1}}'
    eventually(lambda: harness.agent.may_start, "the gateway may start")
    assert "UndoUnavailable" not in harness.agent.log.read_text()


@pytest.mark.scenario("G48")
def test_a_rollback_is_asked_for_once(harness: AgentHarness) -> None:
    """The bytes are back, the bad commit does not return, another one is applied."""
    _synced(harness)
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
def test_a_dry_run_only_looks(harness: AgentHarness) -> None:
    """Counts and paths are visible, nothing is written and nothing scanned."""
    mappings = [{"source": f"{SERVICE}/projects", "destination": "projects"}]
    harness.spec["profiles"] = {"default": {"mappings": mappings, "dryRun": True}}
    harness.annotate_pod(profile="default")
    harness.publish()
    harness.agent.start()
    report = harness.await_report("dry run", sync_status="DryRun")
    assert "dry run: 3 files to write, 0 to delete" in report.error_message
    assert VIEW in report.error_message
    assert (harness.files, _posts(harness)) == ({}, (0, 0))
    assert harness.agent.plan["digest"] == report.plan_digest


def test_the_end_of_the_cr_keeps_the_files(harness: AgentHarness) -> None:
    """Neither `terminating` nor a missing ConfigMap touches the gateway (DEL-1, DEL-2)."""
    _synced(harness)
    before = harness.files
    harness.changes["terminating"] = True
    harness.push(NEW_VIEW)
    harness.await_report("told", sync_status="Paused")
    harness.admin.delete("configmaps", f"ignition-sync-metadata-{'site'}")
    assert unchanged_for(1.0, lambda: harness.files)
    assert harness.files == before
    del harness.changes["terminating"]
    harness.publish()
    harness.await_synced()


@pytest.mark.scenario("G42")
def test_many_deletes_wait_for_a_word(harness: AgentHarness) -> None:
    """The guard's message holds the annotation that lifts it."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    harness.publish()
    harness.agent.start()
    harness.push(many)
    harness.await_synced()
    commit = harness.push(dict.fromkeys(many))
    report = harness.await_report("held", reason="MassDeleteGuard")
    assert f'allow-mass-delete="{commit}"' in report.error_message
    harness.cr_annotations["allow-mass-delete"] = commit
    harness.publish()
    assert harness.await_synced(commit).deleted == 40


@pytest.mark.scenario("G44")
def test_a_second_agent_waits_for_the_volume(harness: AgentHarness) -> None:
    """It says whose the volume is, and takes it over when the first one is gone."""
    from tests.support.gateways.agent_harness import AgentRun

    _synced(harness)
    directory = harness.directory / "second"
    directory.mkdir()
    environment = {**harness.agent._environment, "STORE_PATH": str(directory / "store")}
    other = AgentRun(environment, directory / "agent.log", harness.agent._kubeconfig)
    other.start(POD_UID=f"{harness.pod_uid}x")
    try:
        report = harness.await_report("locked", reason="VolumeLocked")
        assert "site-0" in report.error_message
        harness.agent.kill()
        harness.push(NEW_VIEW)
        eventually(lambda: harness.files[VIEW] == b'{"root": {"x": 2}}', "taken over")
    finally:
        other.kill()


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
    _synced(harness)
    report = harness.await_synced()
    assert json.loads(planned.stdout)["digest"] == report.plan_digest
    assert json.loads(planned.stdout) == harness.agent.plan
    assert _run_local(tmp_path, "apply", *arguments).returncode == 0
    assert read_files(folder) == harness.files


def _run_local(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return windlass_command.run(["gateway", *arguments], environment)
