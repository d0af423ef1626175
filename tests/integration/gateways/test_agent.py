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
def bench(cluster: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[AgentHarness]:
    """A pod's surroundings, with a running gateway and no agent yet."""
    with agent_harness(cluster, namespace, tmp_path) as made:
        yield made


def _synced(bench: AgentHarness) -> AgentHarness:
    bench.publish()
    bench.agent.start()
    bench.await_synced()
    bench.await_booted()
    return bench


def _posts(bench: AgentHarness) -> tuple[int, int]:
    posts = bench.gateway.posts
    return posts.get("projects", 0), posts.get("config", 0)


def test_a_push_becomes_files_a_scan_and_a_status(bench: AgentHarness) -> None:
    """Twice: the first commit brings everything, the second one file and one scan."""
    _synced(bench)
    first = bench.await_synced(scan_pending=False, files_changed=6)
    assert (first.added, first.projects_synced) == (6, ("line",))
    assert first.last_scan_result == "projects=200 config=200"
    assert _posts(bench) == (1, 1)
    commit = bench.push(NEW_VIEW)
    second = bench.await_synced(commit, files_changed=1)
    assert (second.modified, second.applied_commit) == (1, commit)
    assert _posts(bench) == (2, 1)
    assert bench.files[VIEW] == b'{"root": {"x": 2}}'
    digests = {
        path: hashlib.sha256(content).hexdigest()
        for path, content in bench.files.items()
        if path.startswith("projects/")
    }
    loaded = bench.gateway.loaded
    assert {path: loaded[path] for path in digests} == digests
    assert bench.gateway.torn == []
    assert [past.result for past in second.history] == ["Synced", "Synced"]
    assert bench.agent.metric("windlass_agent_sync_total") == 2
    counted = "windlass_agent_sync_duration_seconds_count"
    for phase in ("fetch", "plan", "stage", "apply", "scan"):
        assert bench.agent.metric(f'{counted}{{phase="{phase}"}}') == 2
    for name in ("fetch_bytes_total", "peak_rss_bytes", "sync_skipped_total"):
        assert bench.agent.metric(f"windlass_agent_{name}") > 0
    assert bench.agent.plan["digest"] == second.plan_digest
    lines = [json.loads(line) for line in bench.agent.log.read_text().splitlines()]
    (started, audit) = [line for line in lines if line["message"] == "files synced"]
    assert (audit["role"], audit["cr"], audit["commit"]) == ("agent", "site", commit)
    assert {"namespace", "pod", "gateway", "ref", "tx", "duration_ms"} <= audit.keys()
    assert (started["trigger"], audit["trigger"]) == ("start", "poll")
    assert (audit["commit_author"], audit["pod_uid"]) == ("Someone Else", bench.pod_uid)
    assert (audit["scan_result"], audit["result"]) == ("projects=200", "Synced")
    assert audit["tree_digest"] == second.tree_digest


def test_an_idle_agent_writes_nothing(bench: AgentHarness) -> None:
    """Neither the cluster nor the disk changes while there is nothing to do (APP-13)."""
    _synced(bench)

    def seen() -> object:
        found = bench.admin.get("configmaps", bench.status_name)
        state = bench.data / ".ignition-sync"
        files = {path: path.stat().st_mtime_ns for path in state.rglob("*")}
        return found["metadata"]["resourceVersion"], files, _posts(bench)

    assert unchanged_for(3.0, seen)


@pytest.mark.scenario("G19")
def test_another_repository_is_followed(bench: AgentHarness) -> None:
    """The address changes in the metadata, and no restart is needed."""
    _synced(bench)
    bench.repository_name = "other"
    bench.repository = bench.served.create("other", {f"{SERVICE}/{VIEW}": '{"other": 1}'})
    bench.cr_annotations["allow-mass-delete"] = bench.tip
    bench.publish()
    bench.await_synced()
    assert bench.files[VIEW] == b'{"other": 1}'


@pytest.mark.scenario("G34")
def test_a_broken_file_is_named_and_changes_nothing(bench: AgentHarness) -> None:
    """The report has file, line and column; the next good commit heals it."""
    _synced(bench)
    before = bench.files
    bench.push({f"{SERVICE}/{PROPS}": '{\n "a": 1,\n}'})
    report = bench.await_report("error", sync_status="Error", reason="ConfigSyntaxError")
    assert f"{PROPS}:3:1" in report.error_message
    assert bench.files == before
    assert report.applied_commit != bench.tip
    bench.push({f"{SERVICE}/{PROPS}": '{"systemName": "x"}'})
    bench.await_synced(error_message="")


@pytest.mark.scenario("G36")
def test_an_annotation_alone_syncs_anew(bench: AgentHarness) -> None:
    """The same commit with another system name gets another hash and other bytes."""
    bench.spec["normalize"] = {"systemName": True}
    _synced(bench)
    assert bench.files[PROPS] == b'{ "systemName": "site" }'
    assert bench.metadata.routing.normalize == NormalizeRules(system_name=True)
    bench.say_pod(system_name="north")
    report = bench.await_synced(system_name="north")
    assert bench.files[PROPS] == b'{ "systemName": "north" }'
    assert report.modified == 1


@pytest.mark.scenario("G47")
def test_drift_is_reported_then_put_right(bench: AgentHarness) -> None:
    """A hand edit counts; with Remediate it is gone, and the gateway reads it again."""
    bench.policy |= {"drift_seconds": 0.5}
    _synced(bench)
    before = bench.files
    (bench.data / VIEW).write_text("edited")

    def reported() -> bool:
        report = bench.report
        return report is not None and report.drift is not None and report.drift.modified == 1

    eventually(reported, "drift reported")
    assert bench.files[VIEW] == b"edited"
    posts = _posts(bench)
    bench.policy |= {"drift_mode": "Remediate"}
    bench.publish()
    bench.await_report("remediated", sync_status="Synced", reason="DriftRemediated")
    assert bench.files == before
    assert _posts(bench) == (posts[0] + 1, posts[1])


@pytest.mark.scenario("G50")
def test_a_good_volume_starts_without_anybody(bench: AgentHarness) -> None:
    """Git and the API server are away: the gateway starts on what is there."""
    _synced(bench)
    assert bench.agent.signal(signal.SIGTERM) == 0
    bench.relay.cut()
    bench.gateway.mode("refused")
    began = time.monotonic()
    bench.agent.start()
    eventually(lambda: bench.agent.may_start, "the gateway may start", seconds=25.0)
    assert time.monotonic() - began < 25.0


@pytest.mark.scenario("G50")
def test_degraded_is_shown_while_git_is_down(bench: AgentHarness) -> None:
    """An older tree runs, and the report says why it is older."""
    _synced(bench)
    old = bench.tip
    gone = "http://127.0.0.1:9/site.git"
    source = dataclasses.replace(bench.metadata.source, git_url=gone, commit="1" * 40)  # type: ignore[type-var]
    bench.publish(source=source)
    report = bench.await_report("degraded", degraded=True, reason="SourceUnavailable")
    assert report.error_message.startswith("Unavailable: ")
    assert (report.sync_status, report.synced_commit) == ("Error", old)
    del bench.changes["source"]
    bench.publish()
    bench.await_synced(degraded=False)


@pytest.mark.scenario("G51")
def test_an_empty_volume_waits_for_git(bench: AgentHarness) -> None:
    """The gate stays closed and the report says so; with StartAnyway it opens."""
    bench.gateway.mode("refused")
    source = bench.metadata.source
    assert source is not None
    bench.publish(source=dataclasses.replace(source, git_url="http://127.0.0.1:9/site.git"))
    bench.agent.start()
    report = bench.await_report("waiting", sync_status="Pending", reason="WaitingForGit")
    assert "127.0.0.1" in report.error_message
    status, text = bench.agent.probe("/startupz")
    assert (status, "first sync" in text) == (503, True)
    assert bench.agent.probe("/healthz")[0] == 200
    bench.policy |= {"initial_sync": "StartAnyway"}
    bench.publish()
    eventually(lambda: bench.agent.may_start, "the gateway may start")


def test_a_first_sync_before_the_gateway_starts_needs_no_scan(bench: AgentHarness) -> None:
    """The gateway reads its files at boot; what the boot rewrites is restored."""
    bench.gateway.mode("refused")
    bench.publish()
    bench.agent.start()
    bench.await_synced(last_scan_result="at boot")
    eventually(lambda: bench.agent.may_start, "the gateway may start")
    (bench.data / PROPS).write_text("{}")
    bench.gateway.mode("ok")
    eventually(lambda: bench.files[PROPS] != b"{}", "restored after boot")
    bench.await_synced(scan_pending=False)
    eventually(lambda: _posts(bench) == (0, 1), "one scan")


def test_nothing_told_means_waiting(bench: AgentHarness) -> None:
    """Without a ConfigMap the gateway does not boot empty; with a pause it may (STA-4)."""
    bench.gateway.mode("refused")
    bench.agent.start()
    eventually(lambda: bench.agent.probe("/startupz")[0] == 503, "the probe answers")
    assert unchanged_for(1.0, lambda: bench.agent.probe("/startupz")[0])
    bench.spec["paused"] = True
    bench.publish()
    bench.await_report("paused", sync_status="Paused", reason="PausedWithoutData")
    eventually(lambda: bench.agent.may_start, "the gateway may start")
    assert bench.files == {}
    bench.spec["paused"] = False
    bench.publish()
    bench.await_report("synced", applied_commit=bench.tip)


def test_a_newer_state_stops_writes_and_not_the_gateway(bench: AgentHarness) -> None:
    """The volume was used by a newer agent: nothing is touched, and the gateway starts."""
    _synced(bench)
    bench.agent.kill()
    state = bench.data / ".ignition-sync" / "state.json"
    state.write_text(json.dumps({"schema": 99}))
    bench.push(NEW_VIEW)
    bench.gateway.mode("refused")
    bench.agent.start()
    report = bench.await_report("refused", sync_status="Error", reason="VolumeLocked")
    assert "newer version of windlass" in report.error_message
    eventually(lambda: bench.agent.may_start, "the gateway may start", seconds=40.0)
    assert bench.files[VIEW] == b'{"root": {"x": 1}}'
    assert json.loads(state.read_text()) == {"schema": 99}


@pytest.mark.scenario("G53")
def test_a_killed_agent_comes_back_quietly(bench: AgentHarness) -> None:
    """The gateway runs: the gate is open at once, nothing is copied and nothing scanned."""
    _synced(bench)
    posts = _posts(bench)
    bench.agent.kill()
    bench.agent.start()
    eventually(lambda: bench.agent.may_start, "the gateway may run")
    bench.push({"README.md": "another commit, the same files"})
    bench.await_synced()
    assert _posts(bench) == posts


def test_a_death_after_the_commit_point_is_finished(bench: AgentHarness) -> None:
    """SIGKILL in the middle of an apply: the next start completes it and scans."""
    _synced(bench)
    bench.agent.kill()
    posts = _posts(bench)
    commit = bench.push(NEW_VIEW)
    bench.agent.start(WINDLASS_FAILPOINTS="gateways.journal.forward.after=kill")
    assert bench.agent.wait() == -signal.SIGKILL
    bench.agent.start()
    bench.await_synced(commit)
    assert bench.files[VIEW] == b'{"root": {"x": 2}}'
    assert _posts(bench)[0] == posts[0] + 1
    assert bench.agent.metric("windlass_agent_journal_resumes_total") == 1


def test_a_death_before_the_scan_is_followed_by_it(bench: AgentHarness) -> None:
    """The files are there, the scan is still owed: it is made, and nothing is copied."""
    _synced(bench)
    bench.agent.kill()
    posts = _posts(bench)
    commit = bench.push(NEW_VIEW)
    bench.agent.start(WINDLASS_FAILPOINTS="gateways.scan.before=kill")
    assert bench.agent.wait() == -signal.SIGKILL
    inode = (bench.data / VIEW).stat().st_ino
    bench.agent.start()
    bench.await_synced(commit)
    assert _posts(bench)[0] == posts[0] + 1
    assert (bench.data / VIEW).stat().st_ino == inode


def test_sigterm_ends_at_once_and_leaves_nothing(bench: AgentHarness) -> None:
    """A stop while the gateway does not answer to a scan takes no time."""
    _synced(bench)
    bench.gateway.mode("never-completes")
    bench.push(NEW_VIEW)
    bench.await_report("scanning", reason="Scanning", applied_commit=bench.tip)
    began = time.monotonic()
    assert bench.agent.signal(signal.SIGTERM) == 0
    assert time.monotonic() - began < 10.0
    assert list((bench.data / ".ignition-sync" / "staging").iterdir()) == []
    bench.gateway.mode("ok")
    bench.agent.start()
    bench.await_synced()


@pytest.mark.scenario("G54", "G55")
def test_a_rotated_token_ends_the_refusal(bench: AgentHarness) -> None:
    """A wrong token keeps the scan pending; the right one is used without a restart."""
    _synced(bench)
    posts = _posts(bench)
    old = bench.tip
    bench.token_file.write_text("agent:wrong")
    bench.push(NEW_VIEW)
    report = bench.await_report("refused", reason="ScanUnauthorized", scan_pending=True)
    assert (report.synced_commit, report.applied_commit) == (old, bench.tip)
    assert bench.files[VIEW] == b'{"root": {"x": 2}}'
    bench.token_file.write_text(TOKEN)
    bench.await_synced(scan_pending=False)
    assert _posts(bench)[0] >= posts[0] + 1


def test_the_api_server_may_be_away(bench: AgentHarness) -> None:
    """Drift is put right without it, and what happened is told afterwards."""
    bench.policy |= {"drift_seconds": 0.5, "drift_mode": "Remediate"}
    _synced(bench)
    bench.relay.cut()
    before = bench.files
    (bench.data / VIEW).write_text("edited")
    eventually(lambda: bench.files == before, "remediated")
    commit = bench.push(NEW_VIEW)
    assert unchanged_for(1.0, lambda: bench.files)
    bench.relay.mend()
    bench.await_synced(commit)


def test_a_new_status_object_is_reported_to(bench: AgentHarness) -> None:
    """The object was deleted: writing waits, and a new one gets the whole report."""
    _synced(bench)
    bench.admin.delete("configmaps", bench.status_name)
    commit = bench.tip
    bench.make_status_object()
    bench.publish()
    bench.await_synced(commit)


def test_files_from_before_the_first_sync_wait_for_a_word(bench: AgentHarness) -> None:
    """Later commits leave them; the annotation alone lets them go, and nothing else is copied."""
    theirs = bench.data / CORE / "ignition/user-source/default/config.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    _synced(bench)
    commit = bench.push(NEW_VIEW)
    report = bench.await_synced(commit)
    assert theirs.exists()
    assert report.deleted == 0
    assert "1 file existed before the directory was synced" in report.error_message
    assert f'allow-mass-delete="{commit}"' in report.error_message
    bench.cr_annotations["allow-mass-delete"] = commit
    bench.publish()
    bench.await_report("deleted", sync_status="Synced", deleted=1, modified=0, error_message="")
    assert not theirs.exists()


def test_a_spent_rollback_does_not_keep_a_fresh_volume_empty(bench: AgentHarness) -> None:
    """The annotation stays on the IgnitionSync; a new volume has nothing to undo and is synced."""
    bench.cr_annotations["rollback"] = "*"
    _synced(bench)
    assert bench.files[VIEW] == b'{"root": {"x": 1}}'
    eventually(lambda: bench.agent.may_start, "the gateway may start")
    assert "UndoUnavailable" not in bench.agent.log.read_text()


@pytest.mark.scenario("G48")
def test_a_rollback_is_asked_for_once(bench: AgentHarness) -> None:
    """The bytes are back, the bad commit does not return, another one is applied."""
    _synced(bench)
    before = bench.files
    bad = bench.push(NEW_VIEW)
    bench.await_synced(bad)
    bench.cr_annotations["rollback"] = "site"
    bench.publish()
    report = bench.await_report("rolled back", sync_status="Error", reason="RolledBack")
    assert bad[:7] in report.error_message
    assert bench.files == before
    eventually(lambda: _posts(bench)[0] == 3, "the gateway read the old files")
    assert unchanged_for(1.0, lambda: bench.files)
    good = bench.push({f"{SERVICE}/{VIEW}": '{"root": {"x": 3}}'})
    bench.await_synced(good)


@pytest.mark.scenario("G46")
def test_a_dry_run_only_looks(bench: AgentHarness) -> None:
    """Counts and paths are visible, nothing is written and nothing scanned."""
    mappings = [{"source": f"{SERVICE}/projects", "destination": "projects"}]
    bench.spec["profiles"] = {"default": {"mappings": mappings, "dryRun": True}}
    bench.say_pod(profile="default")
    bench.publish()
    bench.agent.start()
    report = bench.await_report("dry run", sync_status="DryRun")
    assert "dry run: 3 files to write, 0 to delete" in report.error_message
    assert VIEW in report.error_message
    assert (bench.files, _posts(bench)) == ({}, (0, 0))
    assert bench.agent.plan["digest"] == report.plan_digest


def test_the_end_of_the_cr_keeps_the_files(bench: AgentHarness) -> None:
    """Neither `terminating` nor a missing ConfigMap touches the gateway (DEL-1, DEL-2)."""
    _synced(bench)
    before = bench.files
    bench.changes["terminating"] = True
    bench.push(NEW_VIEW)
    bench.await_report("told", sync_status="Paused")
    bench.admin.delete("configmaps", f"ignition-sync-metadata-{'site'}")
    assert unchanged_for(1.0, lambda: bench.files)
    assert bench.files == before
    del bench.changes["terminating"]
    bench.publish()
    bench.await_synced()


@pytest.mark.scenario("G42")
def test_many_deletes_wait_for_a_word(bench: AgentHarness) -> None:
    """The guard's message holds the annotation that lifts it."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    bench.publish()
    bench.agent.start()
    bench.push(many)
    bench.await_synced()
    commit = bench.push(dict.fromkeys(many))
    report = bench.await_report("held", reason="MassDeleteGuard")
    assert f'allow-mass-delete="{commit}"' in report.error_message
    bench.cr_annotations["allow-mass-delete"] = commit
    bench.publish()
    assert bench.await_synced(commit).deleted == 40


@pytest.mark.scenario("G44")
def test_a_second_agent_waits_for_the_volume(bench: AgentHarness) -> None:
    """It says whose the volume is, and takes it over when the first one is gone."""
    from tests.support.gateways.agent_harness import AgentRun

    _synced(bench)
    directory = bench.directory / "second"
    directory.mkdir()
    environment = {**bench.agent._environment, "STORE_PATH": str(directory / "store")}
    other = AgentRun(environment, directory / "agent.log", bench.agent._kubeconfig)
    other.start(POD_UID=f"{bench.pod_uid}x")
    try:
        report = bench.await_report("locked", reason="VolumeLocked")
        assert "site-0" in report.error_message
        bench.agent.kill()
        bench.push(NEW_VIEW)
        eventually(lambda: bench.files[VIEW] == b'{"root": {"x": 2}}', "taken over")
    finally:
        other.kill()


@pytest.mark.scenario("G79")
def test_the_desk_and_the_agent_agree(bench: AgentHarness, tmp_path: Path) -> None:
    """The same CR and commit give the same plan digest, and the same tree in a folder."""
    bench.spec["normalize"] = {"systemName": True}
    folder = tmp_path / "desk"
    folder.mkdir()
    cr = tmp_path / "cr.json"
    kind = {"apiVersion": "sync.ignition.io/v1alpha1", "kind": "IgnitionSync"}
    cr.write_text(json.dumps({**kind, **bench._document()}))
    arguments = [
        f"--cr={cr}",
        f"--to={folder}",
        f"--service-path={SERVICE}",
        f"--pod-name={POD}",
        "--insecure-host=127.0.0.1",
        *(f"--label={name}={value}" for name, value in LABELS.items()),
    ]
    planned = _desk(tmp_path, "plan", *arguments, "-o", "json")
    assert planned.returncode == 2, planned.stderr
    _synced(bench)
    report = bench.await_synced()
    assert json.loads(planned.stdout)["digest"] == report.plan_digest
    assert json.loads(planned.stdout) == bench.agent.plan
    assert _desk(tmp_path, "apply", *arguments).returncode == 0
    assert read_files(folder) == bench.files


def _desk(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return windlass_command.run(["gateway", *arguments], environment)
