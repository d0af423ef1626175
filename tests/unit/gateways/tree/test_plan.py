"""The plan of a sync: which steps, in which order, and when none."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from tests.support.gateways.sync_model import Commit, GatewayModel, annotated_pod
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.deletes import DeletePolicy, DeleteSafety
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.manifest import ManagedRoot
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import (
    NormalizeRules,
    Routing,
    RoutingFile,
    RoutingMapping,
    RoutingProfile,
)


def _gateway(*mapped: tuple[str, str], policy: DeletePolicy = "Mirror") -> GatewayModel:
    profile = RoutingProfile(tuple(RoutingMapping(source, to) for source, to in mapped))
    return GatewayModel(annotated_pod(), Routing({"default": profile}), DeleteSafety(policy))


def test_resource_files_are_written_last_and_deleted_first() -> None:
    """APP-6: a reader never sees a resource.json that lists a missing payload."""
    files = {
        "s/p/project.json": b"1",
        "s/p/v/resource.json": b"2",
        "s/p/v/view.json": b"3",
        "s/p/v/z/deep": b"4",
        "s/keep": b"5",
    }
    gateway = _gateway(("s", "projects"))
    assert gateway.sync(Commit(files)).steps == [
        ("mkdir", "projects"),
        ("put", "projects/keep"),
        ("mkdir", "projects/p"),
        ("mkdir", "projects/p/v"),
        ("put", "projects/p/v/view.json"),
        ("mkdir", "projects/p/v/z"),
        ("put", "projects/p/v/z/deep"),
        ("put", "projects/p/v/resource.json"),
        ("put", "projects/p/project.json"),
    ]
    assert gateway.sync(Commit({"s/keep": b"5"})).steps == [
        ("delete", "projects/p/project.json"),
        ("delete", "projects/p/v/resource.json"),
        ("delete", "projects/p/v/view.json"),
        ("delete", "projects/p/v/z/deep"),
        ("rmdir", "projects/p/v/z"),
        ("rmdir", "projects/p/v"),
        ("rmdir", "projects/p"),
    ]


def test_files_are_written_in_the_order_of_mappings() -> None:
    """A resource.json waits for a payload of a later mapping in its folder."""
    gateway = _gateway(("b", "x"), ("a", "x"), ("c", "w"))
    result = gateway.plan(
        Commit({"b/r/resource.json": b"1", "b/r/one": b"2", "a/r/two": b"3", "c/f": b"4"})
    )
    assert result.paths("put") == ["x/r/one", "x/r/two", "x/r/resource.json", "w/f"]


@pytest.mark.scenario("G21")
def test_a_change_in_core_alone_keeps_the_overlay() -> None:
    """The mode's file still wins; core's new file is written."""
    core, mode = "s/config/resources/core", "s/config/resources/prd"
    files = {f"{core}/a": b"core", f"{core}/b": b"1", f"{mode}/a": b"mode"}
    gateway = GatewayModel(annotated_pod(service_path="s", deployment_mode="prd"))
    gateway.sync(Commit(files))
    result = gateway.sync(Commit({**files, f"{core}/a": b"core2", f"{core}/b": b"2"}))
    assert result.paths("put") == ["config/resources/core/b"]
    assert gateway.disk.files["config/resources/core/a"] == b"mode"


@pytest.mark.scenario("G23")
def test_all_spellings_of_a_destination_give_the_same_plan() -> None:
    """A file deleted in Git is deleted on the gateway, however the root is spelled."""
    digests = set()
    for spelling in ("projects/", "projects", "./projects/"):
        gateway = _gateway(("s", spelling))
        gateway.sync(Commit({"s/a": b"1", "s/b": b"2"}))
        result = gateway.sync(Commit({"s/a": b"1"}))
        assert result.steps == [("delete", "projects/b")]
        assert gateway.disk.files == {"projects/a": b"1"}
        digests.add(plans.to_json(msgspec.structs.replace(result.plan, profile_hash="", digest="")))
    assert len(digests) == 1


@pytest.mark.scenario("G24")
def test_a_file_at_the_data_root_leaves_other_files_unchanged() -> None:
    """Also after a hundred syncs."""
    extra = (RoutingFile("factory.json", "."),)
    gateway = GatewayModel(annotated_pod(service_path="s"), Routing(additional_files=extra))
    for path in ("db/internal", "keystore.jks", "gateway.xml", "config/local/uuid"):
        gateway.disk.write(path, b"live")
    other_stats = dict(gateway.disk.stats)
    for number in range(100):
        gateway.sync(Commit({"factory.json": b"%d" % number, "s/projects/p": b"1"}))
    assert gateway.disk.files["factory.json"] == b"99"
    assert {path: gateway.disk.stats[path] for path in other_stats} == other_stats


@pytest.mark.scenario("G25")
def test_a_directory_at_the_data_root_deletes_only_below_its_entries() -> None:
    """The data directory itself is never managed."""
    gateway = _gateway(("s", "."))
    gateway.disk.write("other/x", b"live")
    gateway.sync(Commit({"s/a/x": b"1", "s/b/x": b"2", "s/b/y": b"3"}))
    result = gateway.sync(Commit({"s/b/x": b"2"}))
    assert result.plan.roots == (ManagedRoot("b", "dir"),)
    assert sorted(gateway.disk.files) == ["b/x", "other/x"]
    assert sorted(gateway.disk.directories) == ["b", "other"]


@pytest.mark.scenario("G28")
def test_runtime_files_are_neither_written_nor_deleted() -> None:
    """The gateway's store keeps bytes and times although Git contains such paths."""
    gateway = _gateway(("s", "projects"))
    gateway.disk.write("projects/.resources/ab", b"live")
    gateway.disk.write("projects/old/.resources/cd", b"live")
    before = dict(gateway.disk.stats)
    gateway.sync(Commit({"s/.resources/ab": b"git", "s/a": b"1", "s/old/x": b"1"}))
    gateway.sync(Commit({"s/.resources/ef": b"git", "s/a": b"2"}))
    assert {path: gateway.disk.stats[path] for path in before} == before
    assert sorted(gateway.disk.files) == sorted([*before, "projects/a"])


def test_a_plan_has_a_digest_and_its_scans() -> None:
    """APP-1: the digest covers all other fields; only touched kinds are scanned."""
    gateway = _gateway(("s", "projects"), ("c", "config/resources/core"), ("u", "user-lib"))
    first = gateway.sync(Commit({"s/a": b"1", "c/a": b"1", "u/a": b"1"})).plan
    assert first.scans == ("projects", "config")
    assert (first.from_commit, first.schema) == ("", 1)
    without_digest = msgspec.structs.replace(first, digest="")
    assert first.digest == hashlib.sha256(plans.to_json(without_digest)).hexdigest()
    second = gateway.sync(Commit({"s/a": b"1", "c/a": b"2", "u/a": b"2"})).plan
    assert second.scans == ("config",)
    assert second.from_commit == first.to_commit
    assert second.counts() == {"put": 2}
    put = second.ops[0]
    assert (put.source, put.size, put.why) == (
        "c/a",
        1,
        "content: profiles.default.mappings[1]",
    )


def test_adoption_keeps_equal_files_and_overwrites_others() -> None:
    """APP-10: a file that already has the desired content is not written again."""
    gateway = _gateway(("s", "projects"))
    gateway.disk.write("projects/same", b"1")
    gateway.disk.write("projects/other", b"live")
    gateway.disk.write("projects/extra", b"live")
    result = gateway.sync(Commit({"s/same": b"1", "s/other": b"git"}))
    assert result.steps == [("put", "projects/other")]
    assert gateway.disk.files["projects/extra"] == b"live"
    assert gateway.plan(Commit({"s/same": b"1", "s/other": b"git"})).changes.render == ()


@pytest.mark.parametrize("policy", ["Mirror", "Manifest", "Never"])
def test_a_file_becomes_a_directory_and_back(policy: DeletePolicy) -> None:
    """The managed path in the way is deleted first under every policy."""
    gateway = _gateway(("s", "x"), policy=policy)
    gateway.sync(Commit({"s/a": b"1", "s/k": b"1"}))
    result = gateway.sync(Commit({"s/a/b/c": b"2", "s/k": b"1"}))
    assert result.steps == [
        ("delete", "x/a"),
        ("mkdir", "x/a"),
        ("mkdir", "x/a/b"),
        ("put", "x/a/b/c"),
    ]
    reverted = gateway.sync(Commit({"s/a": b"1", "s/k": b"1"}))
    assert reverted.steps == [
        ("delete", "x/a/b/c"),
        ("rmdir", "x/a/b"),
        ("rmdir", "x/a"),
        ("put", "x/a"),
    ]


def test_an_unmanaged_file_in_the_way_refuses_the_sync() -> None:
    """A file of the gateway where a directory is desired; the error names the path."""
    gateway = _gateway(("s", "x"))
    gateway.disk.write("x/a", b"live")
    with pytest.raises(SyncRefused, match="not created by a sync") as caught:
        gateway.plan(Commit({"s/a/b": b"1"}))
    assert (caught.value.reason, caught.value.path) == ("UnsafePath", "x/a")
    blocked_root = _gateway(("s", "x/y"))
    blocked_root.disk.write("x", b"live")
    with pytest.raises(SyncRefused, match="x on the gateway"):
        blocked_root.plan(Commit({"s/a": b"1"}))


def test_an_unmanaged_directory_is_not_replaced() -> None:
    """A single file cannot replace a whole directory of the gateway."""
    gateway = _gateway(("f", "x"))
    gateway.disk.write("x/inside", b"live")
    with pytest.raises(SyncRefused, match="x on the gateway: it is a directory"):
        gateway.plan(Commit({"f": b"1"}))


@pytest.mark.parametrize("path", ["x", "x/a", "x/a/b"])
def test_a_symlink_in_the_way_refuses_the_sync(path: str) -> None:
    """It is neither followed nor replaced."""
    gateway = _gateway(("s", "x"))
    gateway.disk.directories.update(("x", "x/a"))
    gateway.disk.directories.discard(path)
    gateway.disk.others[path] = "symlink"
    with pytest.raises(SyncRefused, match="it is a symlink") as caught:
        gateway.plan(Commit({"s/a/b": b"1"}))
    assert (caught.value.reason, caught.value.path) == ("UnsafePath", path)


def test_a_symlink_outside_the_plan_is_only_reported() -> None:
    """Its directory is kept too."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a/b": b"1", "s/c": b"1"}))
    gateway.disk.others["x/a/link"] = "symlink"
    result = gateway.sync(Commit({"s/c": b"1"}))
    assert result.steps == [("delete", "x/a/b")]
    assert "x/a/link" in result.plan.warnings[-1]


def test_a_missing_system_name_is_a_warning() -> None:
    """NRM-3: none while a kept file has it, also if that was correct already."""
    gateway = _gateway(("s", "x"))
    gateway.routing = Routing(gateway.routing.profiles, normalize=NormalizeRules(True))
    with_name = Commit({"s/config.json": b'{"systemName":"site"}', "s/a": b"1"})
    assert gateway.sync(with_name).plan.warnings == ()
    assert gateway.plan(with_name).plan.warnings == ()
    without = gateway.plan(Commit({"s/config.json": b"{}", "s/a": b"1"}))
    assert without.plan.warnings[-1].startswith("SystemNameNotFound")


def test_a_tree_that_is_too_large_is_refused() -> None:
    """Kept files count together with new ones."""
    gateway = _gateway(("s", "x"))
    gateway.sync(Commit({"s/a": b"1" * 10}))
    result = gateway.plan(Commit({"s/a": b"1" * 10, "s/b": b"2" * 10}))
    live = gateway.disk.survey(result.layout, gateway.manifest)
    with pytest.raises(SyncRefused, match="20 bytes"):
        plans.build_plan(
            result.layout,
            result.changes,
            result.rendered,
            live,
            gateway.safety,
            manifest=gateway.manifest,
            target=result.target,
            caps=Caps(max_total_bytes=19),
        )


def test_an_unchanged_commit_is_an_empty_plan() -> None:
    """APP-13: no step and no scan."""
    gateway = _gateway(("s", "projects"))
    commit = Commit({"s/a": b"1"})
    gateway.sync(commit)
    result = gateway.plan(commit)
    assert (result.plan.ops, result.plan.scans, result.changes.restat) == ((), (), frozenset())
