"""Applies on a real directory: what they write, what the manifest has, how they are undone."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.support.gateways import data_directory as site
from windlass.base.errors import Retryable, Stalled
from windlass.gateways.tree.live_tree import SurveyScope
from windlass.gateways.tree.path_rules import STATE_DIRECTORY, SyncRefused
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.volume.lock import LockOwner, VolumeLocked

TREES = {"": {}, "old": site.OLD, "new": site.NEW}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory that holds the old tree."""
    directory = tmp_path / "data"
    directory.mkdir()
    with site.applier(directory) as applier:
        site.sync(applier, site.OLD, "old")
    return directory


def listing(directory: Path) -> dict[str, tuple[int, int]]:
    """Every path below a directory with its inode and modification time."""
    return {
        str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in directory.rglob("*")
    }


def test_an_apply_produces_the_new_tree(data: Path) -> None:
    """Files are added, changed and deleted, also if a file becomes a folder and the reverse."""
    with site.applier(data) as applier:
        applied = site.sync(applier, site.NEW, "new")
        manifest = applier.manifest()
        assert manifest is not None
        assert site.stat_files(applier, site.NEW) == {
            path: entry.stat for path, entry in manifest.files.items()
        }
    assert (applied.put, applied.deleted, applied.touched, applied.warnings) == (7, 3, (), ())
    assert site.assert_complete(data, TREES) == "new"


def test_an_equal_tree_writes_nothing(data: Path) -> None:
    """Applying the same tree again changes neither a file nor our state (APP-13)."""
    with site.applier(data) as applier:
        applier.start()
        before = listing(data)
        assert site.sync(applier, site.OLD, "old").tx == ""
        assert applier.replay() is None
    assert listing(data) == before


def test_a_new_commit_with_equal_files_updates_the_manifest(data: Path) -> None:
    """Only the manifest is written, and the undo is kept."""
    with site.applier(data) as applier:
        site.sync(applier, site.NEW, "new")
        assert site.sync(applier, site.NEW, "newer").tx == ""
        manifest = applier.manifest()
        assert manifest is not None
        assert manifest.commit == "newer"
        assert applier.can_undo()
    site.assert_no_leftovers(data)


def test_equal_files_are_adopted_without_a_write(tmp_path: Path) -> None:
    """A restored volume keeps its equal files; replaced ones can be restored (APP-10)."""
    for path, content in site.OLD.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "projects/site/same").write_bytes(b"by hand")
    before = listing(tmp_path)
    with site.applier(tmp_path) as applier:
        assert site.sync(applier, site.OLD, "old").put == 1
        after = listing(tmp_path)
        unchanged = {path for path in before if after[path] == before[path]}
        assert len(before) - len(unchanged) == 2, "the file and its folder"
        applier.rollback()
        assert applier.manifest() is None
    assert (tmp_path / "projects/site/same").read_bytes() == b"by hand"


@pytest.mark.scenario("G48")
def test_a_rollback_restores_the_bytes_and_can_be_undone(data: Path) -> None:
    """Back and forth, with the same inodes as in the manifest."""
    with site.applier(data) as applier:
        old = applier.manifest()
        site.sync(applier, site.NEW, "new")
        applied = applier.rollback()
        assert (applied.from_commit, applied.to_commit) == ("new", "old")
        assert applier.manifest() == old
        assert old is not None
        assert site.stat_files(applier, site.OLD) == {
            path: entry.stat for path, entry in old.files.items()
        }
        assert site.assert_complete(data, TREES) == "old"
        applier.rollback()
    assert site.assert_complete(data, TREES) == "new"


@pytest.mark.scenario("G48")
def test_a_rollback_restores_manual_edits_as_drift(data: Path) -> None:
    """A file edited before the apply is restored, and still counts as modified."""
    edited = data / "projects/site/view/view.json"
    edited.write_bytes(b"by hand")
    with site.applier(data) as applier:
        site.sync(applier, site.NEW, "new")
        applier.rollback()
        manifest = applier.manifest()
        assert manifest is not None
        path = "projects/site/view/view.json"
        assert edited.read_bytes() == b"by hand"
        assert site.stat_files(applier, [path])[path] != manifest.files[path].stat


def test_without_an_apply_there_is_no_rollback(tmp_path: Path) -> None:
    """An empty volume refuses it."""
    with site.applier(tmp_path) as applier, pytest.raises(Stalled, match="UndoUnavailable"):
        applier.rollback()


def test_an_undo_above_the_cap_is_not_kept(data: Path) -> None:
    """The apply succeeds with a warning; an older undo is never used instead."""
    with site.applier(data, undo_cap=10) as applier:
        (warning,) = site.sync(applier, site.NEW, "new").warnings
        assert warning.startswith("UndoUnavailable")
        assert not applier.can_undo()
        with pytest.raises(Stalled, match="UndoUnavailable"):
            applier.rollback()
    assert site.assert_complete(data, TREES) == "new"


def test_file_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    """Files are 0644 and folders 0755 for the owner of the volume (PRO-6)."""
    mask = os.umask(0o077)
    try:
        with site.applier(tmp_path) as applier:
            site.sync(applier, site.NEW, "new")
    finally:
        os.umask(mask)
    for path in (tmp_path / "projects").rglob("*"):
        wanted = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    assert stat.S_IMODE((tmp_path / STATE_DIRECTORY).stat().st_mode) == 0o700


def test_an_abandoned_transaction_leaves_no_staging(data: Path) -> None:
    """Leaving the block before a commit deletes all staged contents."""
    with site.applier(data) as applier, applier.begin() as transaction:
        transaction.stage("projects/site/same", (b"in ", b"parts"))
    assert site.assert_complete(data, TREES) == "old"


def test_an_interrupted_transaction_stops_before_its_commit_point(data: Path) -> None:
    """A newer commit interrupts the staging of the one before (APP-11)."""
    with site.applier(data) as applier, applier.begin() as transaction:
        transaction.stage("projects/site/same", b"x")
        transaction.interrupt()
        with pytest.raises(Retryable, match="newer"):
            site.commit_files(applier, transaction, site.NEW, "new")
    assert site.assert_complete(data, TREES) == "old"


def test_staged_contents_are_hashed_once_and_checked(data: Path) -> None:
    """A plan with another digest than the staged one is refused before any change."""
    with site.applier(data) as applier, applier.begin() as transaction:
        staged = transaction.stage("projects/site/same", iter([b"some", b"thing"]))
        assert (staged.sha256, staged.size) == (site.digest(b"something"), 9)
        plan = site.make_plan((PlanStep("put", "projects/site/same", "0" * 64, 9),), None, "bad")
        with pytest.raises(ValueError, match="not staged"):
            transaction.commit(plan, site.expected_manifest(applier, site.OLD, "bad"))
    assert site.assert_complete(data, TREES) == "old"


@pytest.mark.parametrize("path", ["config/local/x", ".ignition-sync/lock", "db/config.idb"])
def test_protected_paths_are_refused(path: str, data: Path) -> None:
    """No plan changes files of the gateway."""
    with site.applier(data) as applier, applier.begin() as transaction:
        transaction.stage(path, b"x")
        plan = site.make_plan((PlanStep("put", path, site.digest(b"x"), 1),), None, "bad")
        with pytest.raises(SyncRefused, match="UnsafePath"):
            transaction.commit(plan, site.expected_manifest(applier, site.OLD, "bad"))
    assert site.assert_complete(data, TREES) == "old"


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "journal"])
def test_a_newer_schema_stops_writes(name: str, data: Path) -> None:
    """State of a newer windlass is not changed, and the message has the remedy."""
    (data / STATE_DIRECTORY / name).write_bytes(b'{"schema": 99, "commit": "x"}')
    before = listing(data / "projects")
    with (
        site.applier(data) as applier,
        pytest.raises(SyncRefused, match="newer version") as refused,
    ):
        site.sync(applier, site.NEW, "new")
    assert "99" in str(refused.value)
    assert listing(data / "projects") == before


def test_a_damaged_journal_is_refused_with_the_remedy(data: Path) -> None:
    """Nothing is derived from an invalid document."""
    (data / STATE_DIRECTORY / "journal").write_bytes(b"{")
    with site.applier(data) as applier, pytest.raises(Stalled, match="restore the volume"):
        applier.start()


def test_a_lost_staging_is_replayed_to_the_old_tree(data: Path) -> None:
    """A journal without its staged contents is undone (APP-7)."""
    with site.applier(data) as applier, applier.begin() as transaction:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction, "_complete", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                site.commit_files(applier, transaction, site.NEW, "new")
        for staged in (data / STATE_DIRECTORY / "staging").glob("*/[0-9]"):
            staged.unlink()
        replayed = applier.replay()
    assert replayed is not None
    assert replayed.tree == "old"
    assert site.assert_complete(data, TREES) == "old"


def test_a_file_written_during_an_apply_is_reported(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the gateway saves after our rename has drifted; the apply succeeds."""
    path = "projects/site/view/resource.json"
    with site.applier(data) as applier:
        rename = applier.directory.rename

        def rename_and_save(source: str, destination: str) -> None:
            rename(source, destination)
            if destination == path:
                (data / path).unlink()
                (data / path).write_bytes(b"saved by the gateway")

        monkeypatch.setattr(applier.directory, "rename", rename_and_save)
        assert site.sync(applier, site.NEW, "new").touched == (path,)
        manifest = applier.manifest()
        assert manifest is not None
        assert manifest.files[path].stat is None
    site.assert_no_leftovers(data)


def test_deleting_the_state_under_a_running_agent_causes_an_adoption(data: Path) -> None:
    """A lock on a deleted file protects nothing, so it is acquired again."""
    with site.applier(data) as applier:
        applier.start()
        shutil.rmtree(data / STATE_DIRECTORY)
        site.sync(applier, site.NEW, "new")
        with (
            site.applier(data, LockOwner("uid-2", "other", "node-a")) as other,
            pytest.raises(VolumeLocked, match="gateway-0"),
        ):
            other.start()
    assert site.assert_complete(data, TREES) == "new"


def test_a_survey_reports_links_and_protected_paths_without_entering(data: Path) -> None:
    """Symlinks, pipes and protected folders are listed; nothing behind them is."""
    (data / "projects/link").symlink_to("/etc")
    os.mkfifo(data / "projects/pipe")
    (data / "projects/.resources").mkdir()
    (data / "projects/.resources/x").write_bytes(b"")
    with site.applier(data) as applier:
        live = applier.survey(SurveyScope(("projects",), ("config", "config/x")))
        assert set(live.files) == set(site.OLD)
        assert live.others == {
            "projects/link": "symlink",
            "projects/pipe": "special",
            "projects/.resources": "protected",
        }
        assert applier.hash_files([*site.OLD, "projects/link", "projects/pipe", "absent"]) == {
            path: site.digest(content) for path, content in site.OLD.items()
        }
