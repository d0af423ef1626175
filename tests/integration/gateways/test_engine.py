"""From a commit on a real server to files on a disk."""

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
    """A site over the usual repository."""
    with engine_harness(tmp_path) as made:
        yield made


async def test_a_commit_becomes_files(site: EngineHarness) -> None:
    """Everything below the service path arrives byte for byte, and nothing else."""
    done = await site.engine.sync(site.sync_request())
    wanted = sorted(path for path in site.files)
    assert wanted == [
        f"{CORE}/config-mode.json",
        f"{PROPS}/config.json",
        f"{PROPS}/resource.json",
        "projects/line/project.json",
        "projects/line/view/resource.json",
        VIEW,
    ]
    assert site.files[VIEW] == b'{"root": {"x": 1}}'
    assert frozenset(done.planned.plan.scans) == frozenset(ScanKind)
    assert (done.applied.put, done.planned.added) == (6, 6)
    assert site.applier.manifest() is not None
    assert site.store.targets() == (site.tip,)


async def test_the_external_collection_is_synced_and_others_are_named(site: EngineHarness) -> None:
    """External lands as its own collection; one that nothing maps is a warning, also later on."""
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
    """What no mapping leads to stays on the server."""
    await site.engine.sync(site.sync_request())
    listing = site.store.listing(site.tip)
    assert site.store.missing([listing["README.md"].blob]) == [listing["README.md"].blob]


async def test_a_plan_touches_nothing_and_is_the_plan_of_the_sync(site: EngineHarness) -> None:
    """A look leaves the disk as it is, and tells exactly what a sync then does."""
    planned = await site.engine.plan(site.sync_request())
    assert list(site.data.iterdir()) == []
    done = await site.engine.sync(site.sync_request())
    assert to_json(done.planned.plan) == to_json(planned.plan)
    assert (await site.engine.plan(site.sync_request())).plan.ops == ()


@pytest.mark.scenario("G45")
async def test_the_cost_follows_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed file of many costs one blob, one staged content and no other hash."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": f"x = {n}\n" for n in range(2000)}
    with engine_harness(tmp_path, many) as site:
        await site.engine.sync(site.sync_request())
        site.commit({f"{SERVICE}/projects/line/many/77.py": "x = 'changed'\n"})
        cost: Counter[str] = Counter()
        _count(monkeypatch, cost, CommitStore, "read")
        _count(monkeypatch, cost, Staging, "add")
        _count(monkeypatch, cost, completion, "file_sha256")
        done = await site.engine.sync(site.sync_request())
        assert cost == {"read": 1, "add": 1}
        assert (done.applied.put, done.applied.deleted) == (1, 0)
        assert done.planned.added == 0
        cost.clear()
        again = await site.engine.sync(site.sync_request())
        assert (cost, again.applied.tx) == ({}, "")


def _count(monkeypatch: pytest.MonkeyPatch, cost: Counter[str], where: object, name: str) -> None:
    original = getattr(where, name)

    def counted(*args: object, **kwargs: object) -> object:
        cost[name] += 1
        return original(*args, **kwargs)

    monkeypatch.setattr(where, name, counted)


@pytest.mark.scenario("G36")
async def test_an_annotation_alone_brings_other_files(site: EngineHarness) -> None:
    """The same commit with another system name changes that file, and its signature goes."""
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
async def test_broken_json_stops_everything(site: EngineHarness) -> None:
    """The place is named and the tree is untouched."""
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


async def test_a_template_without_its_variable_is_refused(site: EngineHarness) -> None:
    """Contents with variables are rendered, and an unknown one is named with its line."""
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
    """The mode's collection file is left out with a warning; core's own stays what it is."""
    resources = f"{SERVICE}/config/resources"
    rows = tuple(RoutingMapping(f"{resources}/{name}", CORE) for name in ("core", "prd"))
    site.routing = Routing(profiles={"default": RoutingProfile(rows)})
    site.pod = pod(service_path="", profile="default")
    site.commit(
        {f"{resources}/prd/config-mode.json": '{"parent": "core"}', f"{resources}/prd/a": "x"}
    )
    done = await site.engine.sync(site.sync_request())
    assert json.loads(site.files[f"{CORE}/config-mode.json"])["title"] == "core"
    assert site.files[f"{CORE}/a"] == b"x"
    (warning,) = done.planned.plan.warnings
    assert warning.startswith(
        f"profiles.default.mappings[1]: {resources}/prd/config-mode.json skipped"
    )
    site.routing = Routing(profiles={"default": RoutingProfile(rows[1:])})
    await site.engine.sync(site.sync_request())
    assert f"{CORE}/config-mode.json" in site.files


async def test_patches_and_their_files_are_templates_too(site: EngineHarness) -> None:
    """A value is rendered before it is read as JSON; the file it goes to may be named by one."""
    patch = PatchSet(
        {".name": "{{.GatewayName}}", ".port": "{{.Vars.port}}"}, "{{.GatewayName}}/db.json"
    )
    mapping = RoutingMapping("tpl", "projects/line", patches=(patch,))
    site.routing = Routing(profiles={"default": RoutingProfile((mapping,), vars={"port": "8088"})})
    site.pod = pod(service_path="", profile="default")
    site.commit({"tpl/site/db.json": '{"name": "", "port": 0}'})
    await site.engine.sync(site.sync_request())
    made = json.loads(site.files["projects/line/site/db.json"])
    assert made == {"name": "site", "port": 8088}


async def test_additional_files_go_where_their_templates_lead(site: EngineHarness) -> None:
    """Nothing is written to a path that is called like the template."""
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
async def test_a_pointer_to_large_storage_is_refused(site: EngineHarness) -> None:
    """Nothing is written, and the path is named."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    site.commit({f"{SERVICE}/projects/line/big.bin": pointer})
    with pytest.raises(SyncRefused, match=r"projects/line/big\.bin") as refused:
        await site.engine.sync(site.sync_request())
    assert refused.value.reason == "LfsPointer"
    assert site.files == {}


async def test_caps_hold_before_a_byte_is_staged(site: EngineHarness) -> None:
    """A file over the cap refuses the sync."""
    with pytest.raises(SyncRefused, match=r"safety\.maxFileSize is 20"):
        await site.engine.sync(site.sync_request(caps=Caps(max_file_bytes=20)))
    assert site.files == {}


@pytest.mark.scenario("G42")
async def test_many_deletes_need_a_word(site: EngineHarness) -> None:
    """The guard holds the sync until this very commit is allowed to delete."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    site.commit(many)
    await site.engine.sync(site.sync_request())
    site.commit(dict.fromkeys(many))
    with pytest.raises(SyncRefused) as refused:
        await site.engine.sync(site.sync_request())
    assert refused.value.reason == "MassDeleteGuard"
    assert site.tip in refused.value.message
    allowed = DeleteSafety(allowed=DeleteAllowance(site.tip, hash_routing(site.routing)))
    done = await site.engine.sync(site.sync_request(safety=allowed))
    assert done.applied.deleted == 40


@pytest.mark.scenario("G48")
async def test_the_last_apply_is_undone(site: EngineHarness) -> None:
    """The old bytes are back, and what changed has to be scanned."""
    await site.engine.sync(site.sync_request())
    first, before = site.tip, site.files
    site.commit({f"{SERVICE}/{VIEW}": '{"bad": true}'})
    await site.engine.sync(site.sync_request())
    undone = await site.engine.rollback()
    assert site.files == before
    assert undone.manifest is not None
    assert undone.manifest.commit == first
    assert undone.scans == {ScanKind.PROJECTS}


async def test_there_may_be_nothing_to_undo(site: EngineHarness) -> None:
    """A volume without an apply says so."""
    with pytest.raises(Stalled, match="rollback is not possible"):
        await site.engine.rollback()


@pytest.mark.scenario("G47")
async def test_drift_is_seen_and_stamps_are_not(site: EngineHarness) -> None:
    """A hand edit, a lost file and a strange one count; the gateway's own stamps do not."""
    await site.engine.sync(site.sync_request())
    excludes = GlobSet(("**/.resources/**",))
    assert not (await site.engine.find_drift(excludes)).has_drift
    stamped = json.loads(site.files["projects/line/view/resource.json"])
    stamped["attributes"]["lastModification"] = {"actor": "someone", "timestamp": "now"}
    (site.data / "projects/line/view/resource.json").write_text(json.dumps(stamped))
    found = await site.engine.find_drift(excludes)
    assert (found.has_drift, found.noise) == (False, ("projects/line/view/resource.json",))
    (site.data / VIEW).write_text("edited")
    (site.data / "projects/line/project.json").unlink()
    (site.data / "projects/line/strange").write_text("?")
    found = await site.engine.find_drift(excludes)
    assert (found.modified, found.missing, found.extra) == (
        (VIEW,),
        ("projects/line/project.json",),
        ("projects/line/strange",),
    )
    done = await site.engine.sync(site.sync_request())
    assert (done.applied.put, done.applied.deleted) == (2, 1)
    assert site.files[VIEW] == b'{"root": {"x": 1}}'
    assert json.loads(site.files["projects/line/view/resource.json"]) == stamped


async def test_everything_is_hashed_on_demand(site: EngineHarness) -> None:
    """A change that left size, time and inode alone is found by a full look only."""
    await site.engine.sync(site.sync_request())
    path = site.data / VIEW
    stat = path.stat()
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not (await site.engine.find_drift(GlobSet(()))).has_drift
    assert (await site.engine.find_drift(GlobSet(()), everything=True)).modified == (VIEW,)


async def test_equal_files_are_adopted_unwritten(site: EngineHarness) -> None:
    """A volume that has the files already gets a manifest and no write."""
    await site.engine.sync(site.sync_request())
    (site.data / ".ignition-sync" / "manifest.json").unlink()
    inode = (site.data / VIEW).stat().st_ino
    done = await site.engine.sync(site.sync_request())
    assert (done.applied.tx, done.applied.put) == ("", 0)
    assert (site.data / VIEW).stat().st_ino == inode
    assert site.applier.manifest() is not None


async def test_a_large_file_goes_by_in_pieces(
    site: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never read as a whole, and is adopted where it lies already."""
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


async def test_a_large_file_that_finds_no_room_ends_the_sync(site: EngineHarness) -> None:
    """The error of the disk comes through, not that of the pipe."""
    site.commit({f"{SERVICE}/projects/line/large.bin": "0123456789abcdef" * (9 * 65536)})
    greedy = DiskReserve(share=1.0, minimum=0)
    site.applier.close()
    site.applier = DataVolume(site.data, LockOwner("uid-1", "site-0", "node-a"), reserve=greedy)
    with pytest.raises(Retryable, match="must stay free"):
        await SyncEngine(site.applier, site.store).sync(site.sync_request())
    assert site.files == {}


@pytest.mark.scenario("G17")
async def test_git_down_leaves_the_tree(site: EngineHarness, tmp_path: Path) -> None:
    """A commit that cannot be had changes nothing."""
    await site.engine.sync(site.sync_request())
    before = site.files
    with pytest.raises(GitError):
        await site.engine.sync(site.sync_request(commit="1" * 40))
    assert site.files == before


async def test_a_sync_is_given_up_before_its_commit_point(site: EngineHarness) -> None:
    """Something newer came: nothing is changed and nothing is left over."""
    interrupt = Interrupt()
    interrupt.set()
    with pytest.raises(SyncInterrupted):
        await site.engine.sync(site.sync_request(), interrupt)
    assert site.files == {}

    late = Interrupt()
    loop = asyncio.get_running_loop()

    def ask(_: object) -> None:
        asyncio.run_coroutine_threadsafe(_set(late), loop).result(5)

    with pytest.raises(SyncInterrupted):
        await site.engine.sync(site.sync_request(), late, before_commit=ask)
    assert site.files == {}
    assert list((site.data / ".ignition-sync" / "staging").iterdir()) == []


async def _set(interrupt: Interrupt) -> None:
    interrupt.set()


@pytest.mark.scenario("G14")
async def test_the_order_decides_not_the_tip(site: EngineHarness) -> None:
    """The branch moved on after the commit was named."""
    wanted = site.tip
    site.commit({f"{SERVICE}/{VIEW}": '{"newer": 1}'})
    await site.engine.sync(site.sync_request(commit=wanted))
    assert site.files[VIEW] == b'{"root": {"x": 1}}'


async def test_warnings_name_what_the_gateway_would_miss(site: EngineHarness) -> None:
    """A listed payload that is not there is said, and does not stop the sync."""
    site.commit(
        {f"{SERVICE}/projects/line/view/resource.json": resource_json("view.json", "gone.bin")}
    )
    done = await site.engine.sync(site.sync_request())
    assert any("gone.bin" in warning for warning in done.planned.warnings)


async def test_warnings_are_repeated_while_their_cause_lasts(site: EngineHarness) -> None:
    """Also by syncs that change other files, and for a payload that goes in that very sync."""
    await site.engine.sync(site.sync_request())
    site.commit({f"{SERVICE}/{VIEW}": None, f"{SERVICE}/projects/line/data.json": "{"})
    for number in range(2):
        site.commit({f"{SERVICE}/projects/line/code.py": f"x = {number}"})
        found = (await site.engine.sync(site.sync_request())).planned.warnings
        assert [text.partition(":")[0] for text in found] == [
            "projects/line/data.json",
            "projects/line/view/resource.json",
        ]
    site.commit({f"{SERVICE}/{VIEW}": "{}", f"{SERVICE}/projects/line/data.json": "{}"})
    assert (await site.engine.sync(site.sync_request())).planned.warnings == ()


async def test_a_manifest_of_an_earlier_version_is_completed(site: EngineHarness) -> None:
    """What it does not say about a kept resource.json is read from the disk in the next sync."""
    site.commit(
        {f"{SERVICE}/projects/line/view/resource.json": resource_json("view.json", "gone.bin")}
    )
    await site.engine.sync(site.sync_request())
    before = site.applier.manifest()
    _as_written_before(site)
    site.commit({f"{SERVICE}/projects/line/code.py": "x = 1"})
    done = await site.engine.sync(site.sync_request())
    assert any("gone.bin" in warning for warning in done.planned.warnings)
    assert done.applied.put == 1
    after = site.applier.manifest()
    assert before is not None
    assert after is not None
    for path, entry in before.files.items():
        assert after.files[path] == entry


async def test_an_upgrade_keeps_what_nobody_knows_the_origin_of(site: EngineHarness) -> None:
    """The manifest of an earlier version has no record: unmanaged files stay, and are named."""
    await site.engine.sync(site.sync_request())
    (site.data / "projects/line/theirs").write_text("?")
    _as_written_before(site)
    site.commit({f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    done = await site.engine.sync(site.sync_request())
    assert (done.applied.put, done.applied.deleted) == (1, 0)
    (warning,) = done.planned.plan.warnings
    assert "is kept: projects/line/theirs." in warning
    assert not (await site.engine.find_drift(GlobSet(()))).has_drift
    (site.data / "projects/line/newer").write_text("?")
    assert (await site.engine.find_drift(GlobSet(()))).extra == ("projects/line/newer",)
    assert (await site.engine.sync(site.sync_request())).applied.deleted == 1
    assert "projects/line/theirs" in site.files


def _as_written_before(site: EngineHarness) -> None:
    """Turn the manifest into what a version without adoption and warnings wrote."""
    path = site.data / ".ignition-sync" / "manifest.json"
    body = json.loads(path.read_text())
    body["files"] = {name: entry[:7] for name, entry in body["files"].items()}
    for newer in ("adopted", "excludes"):
        body.pop(newer, None)
    path.unlink()
    path.write_text(json.dumps(body))


@pytest.mark.scenario("G20")
def test_memory_does_not_grow_with_the_repository(tmp_path: Path) -> None:
    """100 MB of files, small and large, pass through less than 90 MiB."""
    assert engine_memory.peak_mib(tmp_path, small=400, large=2) <= 90
