"""Applies on a volume that fails: full, read-only, across file systems, with links in the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gateways import data_directory as site
from tests.support.gateways.crash_runner import copy_tree, memory_directory
from windlass.base import failpoint
from windlass.base.errors import Retryable, WindlassError
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.volume.data_directory import UnsafePath
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.staging import DiskReserve

TREES = {"": {}, "old": site.OLD, "new": site.NEW}

Mount = Callable[[Path, str], None]


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory that holds the old tree, with space for copies beside it."""
    with memory_directory() as directory:
        (directory / "data").mkdir()
        with site.applier(directory / "data") as applier:
            site.sync(applier, site.OLD, "old")
        yield directory / "data"


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts file systems in memory; skips the test if that is not allowed."""
    mounted: list[Path] = []

    def mount_tmpfs(path: Path, options: str) -> None:
        path.mkdir(parents=True, exist_ok=True)
        finished = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True
        )
        if finished.returncode != 0:
            pytest.skip("mounting needs rights that this process does not have")
        mounted.append(path)

    yield mount_tmpfs
    for path in reversed(mounted):
        subprocess.run(["umount", str(path)], check=True)


def record_failpoints(data: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every failpoint that an apply of the new tree reaches, with the number of the visit."""
    visits: list[str] = []
    with monkeypatch.context() as patch, site.applier(data) as applier:
        patch.setattr(failpoint, "reach", visits.append)
        site.sync(applier, site.NEW, "new")
    return [(name, visits[:index].count(name) + 1) for index, name in enumerate(visits)]


def at_visit(name: str, visit: int, act: Callable[[], None]) -> Callable[[str], None]:
    """A `reach` that acts once, at one visit to one failpoint."""
    remaining = visit

    def reach(reached: str) -> None:
        nonlocal remaining
        if reached == name:
            remaining -= 1
            if remaining == 0:
                act()

    return reach


@pytest.mark.scenario("G43")
@pytest.mark.parametrize("action", ["full", "error"])
def test_a_fault_at_any_side_effect_is_survived(
    action: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree is complete at once wherever a step failed; the next sync succeeds."""
    recorded = data.with_name("recorded")
    copy_tree(data, recorded)
    for number, (name, visit) in enumerate(record_failpoints(recorded, monkeypatch)):
        if number % 3 != ("full", "error").index(action):
            continue
        copy = data.with_name("copy")
        copy_tree(data, copy)
        with site.applier(copy) as applier:
            _fail_once(applier, f"{name}={action}@{visit}", monkeypatch)
            site.sync(applier, site.NEW, "new")
        assert site.assert_complete(copy, TREES) == "new", name
        shutil.rmtree(copy)


def _fail_once(applier: DataVolume, armed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoint, "_armed", failpoint._parse(armed))
    monkeypatch.setattr(failpoint, "_visits", failpoint.Counter())
    try:
        site.sync(applier, site.NEW, "new")
    except Retryable as error:
        reason = error.reason
    else:
        reason = None
    monkeypatch.setattr(failpoint, "_armed", {})
    assert reason in (None, "DiskFull" if "full" in armed else "Internal")
    complete_trees = (site.expected_tree(site.OLD), site.expected_tree(site.NEW))
    assert site.read_tree(applier.directory.root) in complete_trees, armed


@pytest.mark.scenario("G43")
def test_a_full_volume_keeps_the_old_tree_until_there_is_space(
    tmp_path: Path, mount: Mount
) -> None:
    """A real ENOSPC while staging; the same sync succeeds once space was freed."""
    data = tmp_path / "volume"
    mount(data, "size=2m")
    with site.applier(data) as applier:
        site.sync(applier, site.OLD, "old")
        ballast = data / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        larger = {**site.NEW, "projects/site/large.bin": bytes(3 << 19)}
        with pytest.raises(Retryable, match="DiskFull"):
            site.sync(applier, larger, "larger")
        assert ballast.exists()
        ballast.unlink()
        assert site.assert_complete(data, TREES) == "old"
        site.sync(applier, larger, "larger")
    assert site.assert_complete(data, {"larger": larger}) == "larger"


@pytest.mark.scenario("G43")
def test_the_reserve_is_never_touched(data: Path) -> None:
    """If the gateway would be left without disk space, nothing is staged."""
    with (
        DataVolume(data, site.OWNER, reserve=DiskReserve(share=1.0)) as applier,
        pytest.raises(Retryable, match="must stay free"),
    ):
        site.sync(applier, site.NEW, "new")
    assert site.assert_complete(data, TREES) == "old"


def test_a_read_only_volume_has_its_own_reason(tmp_path: Path, mount: Mount) -> None:
    """EROFS is VolumeReadOnly, and the tree is unchanged."""
    data = tmp_path / "volume"
    mount(data, "size=2m")
    with site.applier(data) as applier:
        site.sync(applier, site.OLD, "old")
    subprocess.run(["mount", "-o", "remount,ro", str(data)], check=True)
    with site.applier(data) as applier, pytest.raises(Retryable, match="VolumeReadOnly"):
        site.sync(applier, site.NEW, "new")
    subprocess.run(["mount", "-o", "remount,rw", str(data)], check=True)
    assert site.assert_complete(data, TREES) == "old"


def test_a_folder_on_another_file_system_is_written_and_rolled_back(
    data: Path, mount: Mount
) -> None:
    """If a rename is refused, files are copied beside their destination (APP-8)."""
    shutil.rmtree(data / "projects/site/view")
    mount(data / "projects/site/view", "size=2m")
    with site.applier(data) as applier:
        site.sync(applier, site.NEW, "new")
        assert site.assert_complete(data, TREES) == "new"
        manifest = applier.manifest()
        assert manifest is not None
        path = "projects/site/view/view.json"
        assert site.stat_files(applier, [path])[path] == manifest.files[path].stat
        site.sync(applier, site.OLD, "old")
        applier.rollback()
        assert site.assert_complete(data, TREES) == "new"


def test_a_bind_mount_is_detected_by_trying(data: Path, tmp_path: Path, mount: Mount) -> None:
    """A bind mount has the same device and still refuses renames."""
    mount(tmp_path / "probe", "size=1m")
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copytree(data / "projects/site/view", outside, dirs_exist_ok=True)
    shutil.rmtree(data / "projects/site/view")
    (data / "projects/site/view").mkdir()
    view = str(data / "projects/site/view")
    subprocess.run(["mount", "--bind", str(outside), view], check=True)
    try:
        with site.applier(data) as applier:
            assert applier.directory.is_other_filesystem("projects", "projects/site/view")
            assert not applier.directory.is_other_filesystem("projects", "projects/site")
            site.sync(applier, site.NEW, "new")
            assert site.assert_complete(data, TREES) == "new"
            applier.rollback()
        assert site.assert_complete(data, TREES) == "old"
    finally:
        subprocess.run(["umount", view], check=True)


@pytest.mark.scenario("G38")
def test_a_symlink_on_the_path_is_refused(data: Path, tmp_path: Path) -> None:
    """Neither a linked folder nor a linked file is written through, replaced or deleted."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(data / "projects/site/view")
    (data / "projects/site/view").symlink_to(outside)
    with site.applier(data) as applier, applier.begin() as transaction:
        path = "projects/site/view/view.json"
        transaction.stage(path, b"x")
        plan = site.make_plan((PlanStep("put", path, site.digest(b"x"), 1),), None, "new")
        with pytest.raises(UnsafePath, match="symlink"):
            transaction.commit(plan, site.expected_manifest(applier, {}, "new"))
    assert not list(outside.iterdir())
    assert (data / "projects/site/view").is_symlink()


@pytest.mark.scenario("G38")
def test_a_folder_swapped_for_a_symlink_is_never_written_through(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment; the target stays unchanged, and swapping back lets the apply end."""
    recorded = data.with_name("recorded")
    copy_tree(data, recorded)
    visits = record_failpoints(recorded, monkeypatch)
    for name, visit in visits[::2]:
        copy, outside = data.with_name("copy"), data.with_name("outside")
        copy_tree(data, copy)
        outside.mkdir()
        view, away = copy / "projects/site/view", data.with_name("away")

        def swap(view: Path = view, away: Path = away, outside: Path = outside) -> None:
            view.rename(away)
            view.symlink_to(outside)

        with site.applier(copy) as applier:
            with monkeypatch.context() as patch:
                patch.setattr(failpoint, "reach", at_visit(name, visit, swap))
                refusal = _sync_or_refusal(applier)
            assert not list(outside.iterdir()), f"written through at {name}"
            if away.exists():
                assert view.is_symlink()
                view.unlink()
                away.rename(view)
            assert refusal is None or refusal.reason in ("UnsafePath", "Retrying")
            applier.start()
        site.assert_complete(copy, TREES)
        shutil.rmtree(copy)
        outside.rmdir()


@pytest.mark.scenario("G38")
def test_a_folder_swapped_repeatedly_is_never_written_through(data: Path) -> None:
    """Continuous swapping cannot cause a write outside the volume."""
    outside, away = data.with_name("outside"), data.with_name("away")
    outside.mkdir()
    view = data / "projects/site/view"
    stop = threading.Event()

    def swapping() -> None:
        while not stop.is_set() or away.exists():
            # A restore may just have created the folder again.
            with contextlib.suppress(OSError):
                view.rename(away)
                view.symlink_to(outside)
            with contextlib.suppress(OSError):
                shutil.rmtree(view) if not view.is_symlink() else view.unlink()
                away.rename(view)

    thread = threading.Thread(target=swapping)
    thread.start()
    try:
        with site.applier(data) as applier:
            for number in range(40):
                files = site.NEW if number % 2 == 0 else site.OLD
                content = files["projects/site/view/view.json"]
                _put_view(applier, content)
    finally:
        stop.set()
        thread.join()
    assert not list(outside.iterdir())
    with site.applier(data) as applier:
        applier.start()
        site.sync(applier, site.NEW, "new")
    assert site.assert_complete(data, TREES) == "new"


def _put_view(applier: DataVolume, content: bytes) -> None:
    path = "projects/site/view/view.json"
    try:
        with applier.begin() as transaction:
            transaction.stage(path, content)
            step = PlanStep("put", path, site.digest(content), len(content))
            manifest = applier.manifest()
            assert manifest is not None
            transaction.commit(site.make_plan((step,), manifest, manifest.commit), manifest)
    except (UnsafePath, Retryable) as error:
        reason = error.reason
    else:
        reason = None
    assert reason in (None, "UnsafePath", "Retrying")


def _sync_or_refusal(applier: DataVolume) -> WindlassError | None:
    try:
        site.sync(applier, site.NEW, "new")
    except WindlassError as error:
        return error
    except FileNotFoundError:
        # The test's own read of the tree met the swap.
        return None
    return None


def test_a_file_system_without_hard_links_gets_copies(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undo and placement fall back to copies if links are refused."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "link", refuse)
    with site.applier(data) as applier:
        assert site.sync(applier, site.NEW, "new").touched == ()
        assert site.assert_complete(data, TREES) == "new"
        applier.rollback()
    assert site.assert_complete(data, TREES) == "old"
