"""What every path should be made of."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.support.gateways.sync_model import Commit
from windlass.gateways.render.file_renderer import GatewayRecipes
from windlass.gateways.tree import mapping
from windlass.gateways.tree.layout import Layout, build_layout
from windlass.gateways.tree.manifest import ManagedRoot
from windlass.gateways.tree.mapping import Convention, PathMapping, SourceTree
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import PatchSet, RoutingFile

SITE = {
    "services/site/projects/p/project.json": b"{}",
    "services/site/config/resources/core/config-mode.json": b"core",
    "services/site/config/resources/core/ignition/db/config.json": b"core db",
    "services/site/config/resources/core/ignition/mail/config.json": b"mail",
    "services/site/config/resources/prd/config-mode.json": b"prd",
    "services/site/config/resources/prd/ignition/db/config.json": b"prd db",
    "services/area/projects/q/project.json": b"{}",
    "factory.json": b"f",
}
CORE = "config/resources/core"
MODE = "config/resources/prd"


def _laid(
    files: dict[str, bytes],
    *mappings: PathMapping,
    excludes: tuple[str, ...] = (),
    **others: object,
) -> Layout:
    return build_layout(Commit(files).listing, mappings, excludes, GatewayRecipes(), **others)  # type: ignore[arg-type]


def _convention(files: dict[str, bytes], inputs: Convention) -> Layout:
    return _laid(files, *mapping.convention_mappings(inputs), service_path=inputs.service_path)


@pytest.mark.scenario("G21")
def test_the_mode_lies_over_core() -> None:
    """Later mappings win file by file, and what they won is told."""
    found = _convention(SITE, Convention("services/site", "prd"))
    sources = {path: wanted.source for path, wanted in found.files.items()}
    assert sources == {
        f"{CORE}/config-mode.json": f"services/site/{CORE}/config-mode.json",
        f"{CORE}/ignition/db/config.json": f"services/site/{MODE}/ignition/db/config.json",
        f"{CORE}/ignition/mail/config.json": f"services/site/{CORE}/ignition/mail/config.json",
        "projects/p/project.json": "services/site/projects/p/project.json",
    }
    assert [(one.path, one.winner) for one in found.overrides] == [
        (f"{CORE}/ignition/db/config.json", f"services/site/{MODE}/ignition/db/config.json")
    ]
    assert found.roots == (ManagedRoot(CORE, "dir"), ManagedRoot("projects", "dir"))


@pytest.mark.parametrize("layout", ["overlay", "native"])
def test_an_unknown_mode_is_answered_with_the_modes_that_exist(
    layout: Literal["overlay", "native"],
) -> None:
    """Bare core is not what a mistyped mode means; collections of the gateway are no modes."""
    files = {**SITE, "services/site/config/resources/external/config-mode.json": b"{}"}
    with pytest.raises(SyncRefused, match=r"available: prd$") as caught:
        _convention(files, Convention("services/site", "devv", layout))
    assert caught.value.reason == "SourceMissing"
    assert "devv not found in services/site/config/resources" in caught.value.message
    with pytest.raises(SyncRefused, match="available: no modes"):
        _convention(SITE, Convention("services/area", "prd", layout))


def test_collections_that_no_mapping_covers_are_named() -> None:
    """One warning for all of them; external, the mode and what additionalFiles map are covered."""
    resources = "services/site/config/resources"
    stray = {f"{resources}/{name}/config-mode.json": b"{}" for name in ("external", "dev", "qa")}
    found = _convention({**SITE, **stray}, Convention("services/site", "prd"))
    assert [text for text in found.warnings if "not synced" in text] == [
        f"2 config collections are not synced: dev, qa in {resources}; select a mode with "
        "ignition-sync.io/deployment-mode, or map other collections with additionalFiles or a "
        "profile"
    ]
    extra = tuple(
        RoutingFile(f"{resources}/{name}", f"config/resources/{name}", "dir")
        for name in ("dev", "qa")
    )
    covered = Convention("services/site", "prd", additional_files=extra)
    assert _convention({**SITE, **stray}, covered).warnings == ()


@pytest.mark.scenario("G22")
def test_the_mode_file_of_an_overlay_never_reaches_core() -> None:
    """Core would become its own parent; without one in core there is none either."""
    files = dict(SITE)
    del files["services/site/config/resources/core/config-mode.json"]
    found = _convention(files, Convention("services/site", "prd"))
    assert f"{CORE}/config-mode.json" not in found.files
    native = _convention(SITE, Convention("services/site", "prd", "native"))
    assert "config/resources/prd/config-mode.json" in native.files


def test_equal_content_from_two_mappings_is_no_override() -> None:
    """MAP-7: identical bytes are silent."""
    found = _laid({"a/x": b"1", "b/x": b"1"}, PathMapping("a", "d"), PathMapping("b", "d"))
    assert found.overrides == ()
    assert found.files["d/x"].source == "b/x"


@pytest.mark.parametrize("service", ["services/sit", "services/site/projects/p", "nowhere/x"])
@pytest.mark.scenario("G33")
def test_a_wrong_service_path_is_answered_with_what_exists(service: str) -> None:
    """MAP-4: a typo is found by reading the message."""
    with pytest.raises(SyncRefused) as caught:
        _convention(SITE, Convention(service))
    assert caught.value.reason == "SourceMissing"
    assert {
        "services/sit": "services contains area/, site/",
        "services/site/projects/p": "services/site/projects/p contains project.json",
        "nowhere/x": "the repository root contains factory.json, services/",
    }[service] in caught.value.message


@pytest.mark.scenario("G33")
def test_a_missing_source_is_skipped_or_refused() -> None:
    """Only a required one stops the sync; the message lists what lies there instead."""
    found = _laid(SITE, PathMapping("services/nope", "x"), PathMapping("factory.json", "f"))
    assert [(one.path, one.source) for one in found.skipped] == [("x", "services/nope")]
    assert found.vacant_roots == (ManagedRoot("x", "dir"),)
    with pytest.raises(SyncRefused, match="services contains area/, site/") as caught:
        _laid(SITE, PathMapping("services/nope", "x", required=True))
    assert (caught.value.reason, caught.value.path) == ("SourceMissing", "services/nope")


def test_a_type_that_the_tree_contradicts_is_an_error() -> None:
    """The mapping says what it expects."""
    with pytest.raises(SyncRefused, match=r"factory.json is a file.*has type dir") as caught:
        _laid(SITE, PathMapping("factory.json", "x", kind="dir", origin="m"))
    assert caught.value.reason == "MappingTypeMismatch"


def test_a_file_and_a_directory_of_one_name_are_an_error() -> None:
    """Two mappings cannot both have their way."""
    with pytest.raises(SyncRefused, match="d/x is mapped as a file by one"):
        _laid(
            {"a/x": b"", "b/y": b""},
            PathMapping("a", "d", origin="one"),
            PathMapping("b", "d/x", origin="two"),
        )


@pytest.mark.scenario("G24")
def test_a_file_at_the_data_root_manages_itself_only() -> None:
    """MAP-3: its parent is never a root."""
    extra = (RoutingFile("factory.json", "."), RoutingFile("factory.json", "sub/"))
    found = _convention(SITE, Convention("services/site", additional_files=extra))
    assert ManagedRoot("factory.json", "file") in found.roots
    assert ManagedRoot("sub/factory.json", "file") in found.roots
    assert all(root.path for root in found.roots)


@pytest.mark.scenario("G25")
def test_a_directory_at_the_data_root_is_taken_apart() -> None:
    """MAP-2: each top-level entry becomes a root of its own, protected ones none."""
    files = {"s/projects/p": b"", "s/a.txt": b"", "s/db/x": b"", "s/conf-x/y": b""}
    found = _laid(files, PathMapping("s", "", into_directory=True))
    assert found.roots == (
        ManagedRoot("a.txt", "file"),
        ManagedRoot("conf-x", "dir"),
        ManagedRoot("projects", "dir"),
    )
    assert [one.path for one in found.skipped] == ["db/x"]


@pytest.mark.scenario("G28")
def test_protected_and_excluded_sources_are_skipped_and_listed() -> None:
    """Nobody has to guess why a file did not arrive."""
    files = {"s/.resources/a": b"", "s/x/skip/b": b"", "s/ok": b""}
    found = _laid(files, PathMapping("s", "projects"), excludes=("**/skip/", "never/**"))
    assert list(found.files) == ["projects/ok"]
    assert {one.path: one.why for one in found.skipped} == {
        "projects/.resources/a": "protected path",
        "projects/x/skip/b": "excluded by **/skip/",
    }
    assert found.unused_excludes == ("never/**",)
    assert found.is_off_limits("projects/x/skip/other")
    assert found.is_off_limits("projects/deep/.resources/z")


@pytest.mark.scenario("G37")
def test_an_excluded_link_lets_the_rest_pass() -> None:
    """Policing looks at what is planned, after excludes."""
    commit = Commit({"s/key": b"/run/secret", "s/ok": b""}, {"s/key": 0o120000})
    with pytest.raises(SyncRefused, match="projects/key is a symbolic link"):
        build_layout(commit.listing, [PathMapping("s", "projects")], (), GatewayRecipes())
    found = build_layout(
        commit.listing, [PathMapping("s", "projects")], ("projects/key",), GatewayRecipes()
    )
    assert list(found.files) == ["projects/ok"]


def test_recipes_go_only_where_something_applies() -> None:
    """A plain file is copied; config.json files share one recipe with one id."""
    files = {"s/a/config.json": b"", "s/b/config.json": b"", "s/b/view.json": b""}
    found = build_layout(
        Commit(files).listing, [PathMapping("s", "x")], (), GatewayRecipes(system_name="gw")
    ).files
    assert found["x/b/view.json"].recipe is None
    assert found["x/b/view.json"].recipe_id == ""
    assert found["x/a/config.json"].recipe is found["x/b/config.json"].recipe
    assert found["x/a/config.json"].recipe_id


def test_patches_meet_the_files_their_glob_means() -> None:
    """Relative to the destination; a patch that meets nothing is told."""
    patches = (PatchSet({".a": "1"}, "*/c.json"), PatchSet({".b": "2"}, "none/*"))
    files = {"s/d/c.json": b"{}", "s/c.json": b"{}"}
    found = _laid(files, PathMapping("s", "x", patches=patches, origin="m"))
    assert found.files["x/d/c.json"].recipe is not None
    assert found.files["x/c.json"].recipe is None
    assert found.warnings == ("m: patch 'none/*' matches no planned file",)
    with pytest.raises(SyncRefused, match=r"m\.patches"):
        _laid(files, PathMapping("s", "x", patches=(PatchSet({"]": "1"}, "a"),), origin="m"))


@pytest.mark.scenario("G32")
def test_a_resource_file_knows_the_payloads_that_may_change() -> None:
    """NRM-7: only siblings with a recipe, and only under the policy drop."""
    files = {
        "s/a/config.json": b"",
        "s/a/resource.json": b"",
        "s/b/resource.json": b"",
        "s/b/x": b"",
    }
    listing = Commit(files).listing
    found = build_layout(
        listing, [PathMapping("s", "x")], (), GatewayRecipes(system_name="gw")
    ).files
    assert found["x/a/resource.json"].payloads == ("x/a/config.json",)
    assert found["x/b/resource.json"].payloads == ()
    keep = GatewayRecipes(system_name="gw", signature_policy="keep")
    assert (
        build_layout(listing, [PathMapping("s", "x")], (), keep).files["x/a/resource.json"].payloads
        == ()
    )


def test_names_that_ignition_dislikes_are_counted() -> None:
    """PRO-5: one sentence, however many there are."""
    found = _laid({"s/a:b": b"", "s/ c": b"", "s/ok": b""}, PathMapping("s", "projects"))
    assert len(found.warnings) == 1
    assert "2 planned paths" in found.warnings[0]


def test_a_tree_answers_for_directories() -> None:
    """Neighbours that sort between a directory and its content do not confuse it."""
    tree = SourceTree(Commit({"a-b": b"", "a/x": b"", "a/y/z": b"", "a.c": b"", "a0": b""}).listing)
    assert [tree.kind(path) for path in ("a", "a/y", "a/x", "b", "")] == [
        "dir",
        "dir",
        "file",
        "absent",
        "dir",
    ]
    assert list(tree.files_below("a")) == ["x", "y/z"]
    assert list(tree.entries("")) == ["a-b", "a.c", "a/", "a0"]
    assert list(tree.entries("a")) == ["x", "y/"]


def test_only_ten_neighbours_are_named() -> None:
    """A message stays readable in a large repository."""
    tree = SourceTree(Commit({f"f{number:02}": b"" for number in range(12)}).listing)
    assert tree.describe_nearby("x").endswith("f09 and 2 more")
