"""From a commit on a real git server to files on a disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways import engine_memory
from tests.support.gateways.engine_harness import (
    CORE,
    SERVICE,
    EngineHarness,
    engine_harness,
    pod,
    resource_json,
)
from windlass.base.errors import Retryable, Stalled
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted
from windlass.gateways.agent.sync import SyncEngine
from windlass.gateways.tree.deletes import DeleteAllowance, DeleteSafety
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.plan import to_json
from windlass.gateways.tree.scan_rules import ScanKind
from windlass.gateways.volume import completion
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import LockOwner
from windlass.gateways.volume.staging import DiskReserve, Staging
from windlass.gateways.wire.routing import (
    NormalizeRules,
    PatchSet,
    Routing,
    RoutingFile,
    RoutingMapping,
    RoutingProfile,
    hash_routing,
)
from windlass.git.commit_store import CommitStore
from windlass.git.errors import GitError

VIEW = "projects/line/view/view.json"
PROPS = f"{CORE}/ignition/props"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[EngineHarness]:
    """A harness with the usual repository."""
    with engine_harness(tmp_path) as harness:
        yield harness


async def test_a_commit_becomes_files(site: EngineHarness) -> None:
    """All files below the service path are synced byte for byte, and no others."""
    result = await site.engine.sync(site.sync_request())
    paths = sorted(path for path in site.files)
    assert paths == [
        f"{CORE}/config-mode.json",
        f"{PROPS}/config.json",
        f"{PROPS}/resource.json",
        "projects/line/project.json",
        "projects/line/view/resource.json",
        VIEW,
    ]
    assert site.files[VIEW] == b'{"root": {"x": 1}}'
    assert frozenset(result.planned.plan.scans) == frozenset(ScanKind)
    assert (result.applied.put, result.planned.added) == (6, 6)
    assert site.applier.manifest() is not None
    assert site.store.targets() == (site.tip,)


async def test_the_external_collection_is_synced_and_others_are_warnings(
    site: EngineHarness,
) -> None:
    """An unmapped collection is a warning in every sync until it is deleted."""
    resources = f"{SERVICE}/config/resources"
    site.commit({f"{resources}/external/config-mode.json": '{"parent": "system"}'})
    first = await site.engine.sync(site.sync_request())
    assert site.files["config/resources/external/config-mode.json"] == b'{"parent": "system"}'
    assert first.planned.plan.warnings == ()
    site.commit({f"{resources}/qa/config-mode.json": "{}"})
    second = await site.engine.sync(site.sync_request())
    (warning,) = second.planned.plan.warnings
    assert warning.startswith(f"1 config collection is not synced: qa in {resources}; ")
    site.commit({f"{resources}/qa/config-mode.json": None})
    assert (await site.engine.sync(site.sync_request())).planned.plan.warnings == ()


@pytest.mark.scenario("G13")
async def test_only_mapped_blobs_are_fetched(site: EngineHarness) -> None:
    """Blobs without a mapping stay on the server."""
    await site.engine.sync(site.sync_request())
    listing = site.store.listing(site.tip)
    assert site.store.missing([listing["README.md"].blob]) == [listing["README.md"].blob]


async def test_a_plan_writes_nothing_and_equals_the_plan_of_the_sync(site: EngineHarness) -> None:
    """Byte for byte."""
    planned = await site.engine.plan(site.sync_request())
    assert list(site.data.iterdir()) == []
    result = await site.engine.sync(site.sync_request())
    assert to_json(result.planned.plan) == to_json(planned.plan)
    assert (await site.engine.plan(site.sync_request())).plan.ops == ()


@pytest.mark.scenario("G45")
async def test_the_cost_of_a_sync_follows_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One changed file of many costs one blob, one staged content and no other hash."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": f"x = {n}\n" for n in range(2000)}
    with engine_harness(tmp_path, many) as site:
        await site.engine.sync(site.sync_request())
        site.commit({f"{SERVICE}/projects/line/many/77.py": "x = 'changed'\n"})
        cost: Counter[str] = Counter()
        _count(monkeypatch, cost, CommitStore, "read")
        _count(monkeypatch, cost, Staging, "add")
        _count(monkeypatch, cost, completion, "file_sha256")
        result = await site.engine.sync(site.sync_request())
        assert cost == {"read": 1, "add": 1}
        assert (result.applied.put, result.applied.deleted) == (1, 0)
        assert result.planned.added == 0
        cost.clear()
        unchanged = await site.engine.sync(site.sync_request())
        assert (cost, unchanged.applied.tx) == ({}, "")


def _count(monkeypatch: pytest.MonkeyPatch, cost: Counter[str], owner: object, name: str) -> None:
    original = getattr(owner, name)

    def counted(*args: object, **kwargs: object) -> object:
        cost[name] += 1
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)


@pytest.mark.scenario("G36")
async def test_a_changed_annotation_alone_changes_files(site: EngineHarness) -> None:
    """The same commit with another system name changes that file, and removes its signature."""
    await site.engine.sync(site.sync_request())
    site.routing = Routing(normalize=NormalizeRules(system_name=True))
    first = await site.engine.sync(site.sync_request())
    assert site.files[f"{PROPS}/config.json"] == b'{ "systemName": "site" }'
    assert b"lastModificationSignature" not in site.files[f"{PROPS}/resource.json"]
    site.pod = pod(system_name="north")
    second = await site.engine.sync(site.sync_request())
    assert site.files[f"{PROPS}/config.json"] == b'{ "systemName": "north" }'
    assert first.planned.plan.profile_hash != second.planned.plan.profile_hash
    assert [op.path for op in second.planned.plan.ops] == [f"{PROPS}/config.json"]


@pytest.mark.scenario("G34")
async def test_broken_json_refuses_the_sync(site: EngineHarness) -> None:
    """The error has the position, and the tree is unchanged."""
    await site.engine.sync(site.sync_request())
    before = site.files
    site.commit(
        {f"{SERVICE}/{PROPS}/config.json": '{\n "a": 1,\n}', f"{SERVICE}/{VIEW}": '{"new": 1}'}
    )
    with pytest.raises(SyncRefused) as refused:
        await site.engine.sync(site.sync_request())
    assert refused.value.reason == "ConfigSyntaxError"
    assert f"{PROPS}/config.json:3:1" in refused.value.message
    assert site.files == before
    assert list((site.data / ".ignition-sync" / "staging").iterdir()) == []


@pytest.mark.scenario("G22")
async def test_a_mode_directory_called_core_never_makes_core_its_own_parent(
    site: EngineHarness,
) -> None:
    """Its mode file is mapped because of that name, and refused because of its parent."""
    mappings = [RoutingMapping(f"{SERVICE}/{CORE}", CORE), RoutingMapping("modes/dev/core", CORE)]
    site.routing = Routing(profiles={"default": RoutingProfile(tuple(mappings))})
    site.pod = pod(service_path="", profile="default")
    site.commit({"modes/dev/core/config-mode.json": '{"parent": "core"}'})
    with pytest.raises(SyncRefused) as refused:
        await site.engine.sync(site.sync_request())
    assert refused.value.reason == "ConfigSyntaxError"
    assert f'{CORE}/config-mode.json: parent "core" is' in refused.value.message
    assert site.files == {}
    site.commit({"modes/dev/core/config-mode.json": None, "modes/dev/core/a.json": "{}"})
    await site.engine.sync(site.sync_request())
    assert site.files[f"{CORE}/config-mode.json"] == b'{"title": "core", "enabled": true}'


async def test_a_template_without_its_variable_is_refused(site: EngineHarness) -> None:
    """Templates are rendered; an unknown variable is reported with its line."""
    mapping = RoutingMapping("tpl", "projects/line/view", template=True)
    site.routing = Routing(profiles={"default": RoutingProfile((mapping,), vars={"who": "north"})})
    site.pod = pod(service_path="", profile="default")
    site.commit({"tpl/a.txt": "hello {{.Vars.who}}"})
    await site.engine.sync(site.sync_request())
    assert site.files == {"projects/line/view/a.txt": b"hello north"}
    site.commit({"tpl/a.txt": "hello\n{{.Vars.whom}}"})
    with pytest.raises(SyncRefused, match=r"a\.txt:2"):
        await site.engine.sync(site.sync_request())


async def test_a_profile_overlay_never_makes_core_its_own_parent(site: EngineHarness) -> None:
    """The mode's collection file is omitted with a warning; core's own file stays."""
    resources = f"{SERVICE}/config/resources"
    mappings = tuple(RoutingMapping(f"{resources}/{name}", CORE) for name in ("core", "prd"))
    site.routing = Routing(profiles={"default": RoutingProfile(mappings)})
    site.pod = pod(service_path="", profile="default")
    site.commit(
        {f"{resources}/prd/config-mode.json": '{"parent": "core"}', f"{resources}/prd/a": "x"}
    )
    result = await site.engine.sync(site.sync_request())
    assert json.loads(site.files[f"{CORE}/config-mode.json"])["title"] == "core"
    assert site.files[f"{CORE}/a"] == b"x"
    (warning,) = result.planned.plan.warnings
    assert warning.startswith(
        f"profiles.default.mappings[1]: {resources}/prd/config-mode.json skipped"
    )
    site.routing = Routing(profiles={"default": RoutingProfile(mappings[1:])})
    await site.engine.sync(site.sync_request())
    assert f"{CORE}/config-mode.json" in site.files


async def test_patches_and_their_globs_are_templates_too(site: EngineHarness) -> None:
    """A value is rendered before it is parsed as JSON."""
    patch = PatchSet(
        {".name": "{{.GatewayName}}", ".port": "{{.Vars.port}}"}, "{{.GatewayName}}/db.json"
    )
    mapping = RoutingMapping("tpl", "projects/line", patches=(patch,))
    site.routing = Routing(profiles={"default": RoutingProfile((mapping,), vars={"port": "8088"})})
    site.pod = pod(service_path="", profile="default")
    site.commit({"tpl/site/db.json": '{"name": "", "port": 0}'})
    await site.engine.sync(site.sync_request())
    patched = json.loads(site.files["projects/line/site/db.json"])
    assert patched == {"name": "site", "port": 8088}


async def test_paths_of_additional_files_are_templates(site: EngineHarness) -> None:
    """An unknown variable is refused."""
    extra = RoutingFile("labels/{{.PodName}}.txt", "user-lib/{{.GatewayName}}/")
    site.routing = Routing(additional_files=(extra,))
    site.commit({"labels/site-0.txt": "first"})
    await site.engine.sync(site.sync_request())
    assert site.files["user-lib/site/site-0.txt"] == b"first"
    site.routing = Routing(additional_files=(RoutingFile("README.md", "{{.Nothing}}"),))
    with pytest.raises(
        SyncRefused, match=r"additionalFiles\[0\]\.dest: .*unknown variable `\.Nothing`"
    ):
        await site.engine.sync(site.sync_request())


@pytest.mark.scenario("G37")
async def test_a_git_lfs_pointer_is_refused(site: EngineHarness) -> None:
    """Nothing is written, and the path is named."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    site.commit({f"{SERVICE}/projects/line/big.bin": pointer})
    with pytest.raises(SyncRefused, match=r"projects/line/big\.bin") as refused:
        await site.engine.sync(site.sync_request())
    assert refused.value.reason == "LfsPointer"
    assert site.files == {}


async def test_caps_are_checked_before_staging(site: EngineHarness) -> None:
    """A file over the cap refuses the sync."""
    with pytest.raises(SyncRefused, match=r"safety\.maxFileSize is 20"):
        await site.engine.sync(site.sync_request(caps=Caps(max_file_bytes=20)))
    assert site.files == {}


@pytest.mark.scenario("G42")
async def test_many_deletes_need_an_allowance(site: EngineHarness) -> None:
    """The guard refuses the sync until deletes are allowed for this commit."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    site.commit(many)
    await site.engine.sync(site.sync_request())
    site.commit(dict.fromkeys(many))
    with pytest.raises(SyncRefused) as refused:
        await site.engine.sync(site.sync_request())
    assert refused.value.reason == "MassDeleteGuard"
    assert site.tip in refused.value.message
    safety = DeleteSafety(allowed=DeleteAllowance(site.tip, hash_routing(site.routing), None))
    result = await site.engine.sync(site.sync_request(safety=safety))
    assert result.applied.deleted == 40


@pytest.mark.scenario("G48")
async def test_a_rollback_undoes_the_last_apply(site: EngineHarness) -> None:
    """The old bytes are restored, and changed kinds have to be scanned."""
    await site.engine.sync(site.sync_request())
    first, before = site.tip, site.files
    site.commit({f"{SERVICE}/{VIEW}": '{"bad": true}'})
    await site.engine.sync(site.sync_request())
    rolled_back = await site.engine.rollback()
    assert site.files == before
    assert rolled_back.manifest is not None
    assert rolled_back.manifest.commit == first
    assert rolled_back.scans == {ScanKind.PROJECTS}


async def test_a_rollback_without_an_apply_is_refused(site: EngineHarness) -> None:
    """The message says that it is not possible."""
    with pytest.raises(Stalled, match="rollback is not possible"):
        await site.engine.rollback()


@pytest.mark.scenario("G47")
async def test_drift_is_detected_and_stamps_are_ignored(site: EngineHarness) -> None:
    """Edited, missing and extra files are drift; the gateway's own stamps are not."""
    await site.engine.sync(site.sync_request())
    excludes = GlobSet(("**/.resources/**",))
    assert not (await site.engine.find_drift(excludes)).has_drift
    stamped = json.loads(site.files["projects/line/view/resource.json"])
    stamped["attributes"]["lastModification"] = {"actor": "someone", "timestamp": "now"}
    (site.data / "projects/line/view/resource.json").write_text(json.dumps(stamped))
    drift = await site.engine.find_drift(excludes)
    assert (drift.has_drift, drift.noise) == (False, ("projects/line/view/resource.json",))
    (site.data / VIEW).write_text("edited")
    (site.data / "projects/line/project.json").unlink()
    (site.data / "projects/line/strange").write_text("?")
    drift = await site.engine.find_drift(excludes)
    assert (drift.modified, drift.missing, drift.extra) == (
        (VIEW,),
        ("projects/line/project.json",),
        ("projects/line/strange",),
    )
    result = await site.engine.sync(site.sync_request())
    assert (result.applied.put, result.applied.deleted) == (2, 1)
    assert site.files[VIEW] == b'{"root": {"x": 1}}'
    assert json.loads(site.files["projects/line/view/resource.json"]) == stamped


async def test_a_full_check_hashes_all_files(site: EngineHarness) -> None:
    """Only it detects a change that kept size, time and inode."""
    await site.engine.sync(site.sync_request())
    path = site.data / VIEW
    stat = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not (await site.engine.find_drift(GlobSet(()))).has_drift
    assert (await site.engine.find_drift(GlobSet(()), everything=True)).modified == (VIEW,)


async def test_equal_files_are_adopted_without_a_write(site: EngineHarness) -> None:
    """A volume that already has the files gets a manifest and no write."""
    await site.engine.sync(site.sync_request())
    (site.data / ".ignition-sync" / "manifest.json").unlink()
    inode = (site.data / VIEW).stat().st_ino
    result = await site.engine.sync(site.sync_request())
    assert (result.applied.tx, result.applied.put) == ("", 0)
    assert (site.data / VIEW).stat().st_ino == inode
    assert site.applier.manifest() is not None


async def test_a_large_file_is_read_in_chunks(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never as a whole; an equal one on the disk is adopted."""
    large = "0123456789abcdef" * (9 * 65536)
    site.commit({f"{SERVICE}/projects/line/large.bin": large})
    sizes: list[int] = []
    original = CommitStore.read

    def read(self: CommitStore, blob: str) -> bytes:
        content = original(self, blob)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(CommitStore, "read", read)
    await site.engine.sync(site.sync_request())
    path = site.data / "projects/line/large.bin"
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(large.encode()).digest()
    assert max(sizes) < 1024
    (site.data / ".ignition-sync" / "manifest.json").unlink()
    inode = path.stat().st_ino
    assert (await site.engine.sync(site.sync_request())).applied.put == 0
    assert path.stat().st_ino == inode


async def test_a_large_file_without_disk_space_refuses_the_sync(site: EngineHarness) -> None:
    """The error is that of the disk, not that of the pipe."""
    site.commit({f"{SERVICE}/projects/line/large.bin": "0123456789abcdef" * (9 * 65536)})
    reserve = DiskReserve(share=1.0, minimum=0)
    site.applier.close()
    site.applier = DataVolume(site.data, LockOwner("uid-1", "site-0", "node-a"), reserve=reserve)
    with pytest.raises(Retryable, match="must stay free"):
        await SyncEngine(site.applier, site.store).sync(site.sync_request())
    assert site.files == {}


@pytest.mark.scenario("G17")
async def test_a_commit_that_cannot_be_fetched_changes_nothing(
    site: EngineHarness, tmp_path: Path
) -> None:
    """The files of the last sync stay."""
    await site.engine.sync(site.sync_request())
    before = site.files
    with pytest.raises(GitError):
        await site.engine.sync(site.sync_request(commit="1" * 40))
    assert site.files == before


async def test_a_sync_is_interrupted_before_its_commit_point(site: EngineHarness) -> None:
    """Nothing is changed and no staging is left."""
    interrupt = Interrupt()
    interrupt.set()
    with pytest.raises(SyncInterrupted):
        await site.engine.sync(site.sync_request(), interrupt)
    assert site.files == {}

    late = Interrupt()
    loop = asyncio.get_running_loop()

    def interrupt_late(_: object) -> None:
        asyncio.run_coroutine_threadsafe(_set(late), loop).result(30)

    with pytest.raises(SyncInterrupted):
        await site.engine.sync(site.sync_request(), late, before_commit=interrupt_late)
    assert site.files == {}
    assert list((site.data / ".ignition-sync" / "staging").iterdir()) == []


async def _set(interrupt: Interrupt) -> None:
    interrupt.set()


@pytest.mark.scenario("G14")
async def test_the_requested_commit_is_synced_not_the_tip(site: EngineHarness) -> None:
    """Also if the branch has moved since."""
    requested = site.tip
    site.commit({f"{SERVICE}/{VIEW}": '{"newer": 1}'})
    await site.engine.sync(site.sync_request(commit=requested))
    assert site.files[VIEW] == b'{"root": {"x": 1}}'


async def test_a_missing_payload_is_a_warning(site: EngineHarness) -> None:
    """It is named, and does not stop the sync."""
    site.commit(
        {f"{SERVICE}/projects/line/view/resource.json": resource_json("view.json", "gone.bin")}
    )
    result = await site.engine.sync(site.sync_request())
    assert any("gone.bin" in warning for warning in result.planned.warnings)


async def test_warnings_are_repeated_while_their_cause_lasts(site: EngineHarness) -> None:
    """Also by syncs that change other files, and for a payload deleted in the same sync."""
    await site.engine.sync(site.sync_request())
    site.commit({f"{SERVICE}/{VIEW}": None, f"{SERVICE}/projects/line/data.json": "{"})
    for number in range(2):
        site.commit({f"{SERVICE}/projects/line/code.py": f"x = {number}"})
        warnings = (await site.engine.sync(site.sync_request())).planned.warnings
        assert [warning.partition(":")[0] for warning in warnings] == [
            "projects/line/data.json",
            "projects/line/view/resource.json",
        ]
    site.commit({f"{SERVICE}/{VIEW}": "{}", f"{SERVICE}/projects/line/data.json": "{}"})
    assert (await site.engine.sync(site.sync_request())).planned.warnings == ()


async def test_a_manifest_of_an_earlier_version_is_completed(site: EngineHarness) -> None:
    """Its missing data about a kept resource.json is read from the disk in the next sync."""
    site.commit(
        {f"{SERVICE}/projects/line/view/resource.json": resource_json("view.json", "gone.bin")}
    )
    await site.engine.sync(site.sync_request())
    before = site.applier.manifest()
    _downgrade_manifest(site)
    site.commit({f"{SERVICE}/projects/line/code.py": "x = 1"})
    result = await site.engine.sync(site.sync_request())
    assert any("gone.bin" in warning for warning in result.planned.warnings)
    assert result.applied.put == 1
    after = site.applier.manifest()
    assert before is not None
    assert after is not None
    for path, entry in before.files.items():
        assert after.files[path] == entry


async def test_an_upgrade_keeps_files_of_unknown_origin(site: EngineHarness) -> None:
    """An older manifest has no adoption record: unmanaged files are kept and named."""
    await site.engine.sync(site.sync_request())
    (site.data / "projects/line/theirs").write_text("?")
    _downgrade_manifest(site)
    assert not (await site.engine.find_drift(GlobSet(()))).has_drift
    site.commit({f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    result = await site.engine.sync(site.sync_request())
    assert (result.applied.put, result.applied.deleted) == (1, 0)
    (warning,) = result.planned.plan.warnings
    assert "is kept: projects/line/theirs." in warning
    assert not (await site.engine.find_drift(GlobSet(()))).has_drift
    (site.data / "projects/line/newer").write_text("?")
    assert (await site.engine.find_drift(GlobSet(()))).extra == ("projects/line/newer",)
    assert (await site.engine.sync(site.sync_request())).applied.deleted == 1
    assert "projects/line/theirs" in site.files


def _downgrade_manifest(site: EngineHarness) -> None:
    """Rewrite the manifest as a version without adoption and warnings wrote it."""
    path = site.data / ".ignition-sync" / "manifest.json"
    body = json.loads(path.read_text())
    body["files"] = {name: entry[:7] for name, entry in body["files"].items()}
    for newer in ("adopted", "excludes"):
        body.pop(newer, None)
    path.unlink()
    path.write_text(json.dumps(body))


@pytest.mark.scenario("G20")
def test_memory_does_not_grow_with_the_repository(tmp_path: Path) -> None:
    """100 MB of files, small and large, are synced with less than 90 MiB."""
    assert engine_memory.peak_mib(tmp_path, small=400, large=2) <= 90
