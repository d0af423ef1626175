"""What every path of a gateway is made of."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.support.gateways.sync_model import Commit, annotated_pod
from windlass.gateways.render.file_renderer import GatewayRecipes
from windlass.gateways.tree import mapping
from windlass.gateways.tree.layout import Layout, build_layout, layout_for_selection
from windlass.gateways.tree.manifest import ManagedRoot
from windlass.gateways.tree.mapping import Convention, PathMapping, SourceTree
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.selection import SourceRevision, select
from windlass.gateways.wire.routing import (
    PatchSet,
    Routing,
    RoutingFile,
    RoutingMapping,
    RoutingProfile,
)

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


def _build_layout(
    files: dict[str, bytes],
    *mappings: PathMapping,
    excludes: tuple[str, ...] = (),
    **others: object,
) -> Layout:
    return build_layout(Commit(files).listing, mappings, excludes, GatewayRecipes(), **others)  # type: ignore[arg-type]


def _convention_layout(files: dict[str, bytes], inputs: Convention) -> Layout:
    return _build_layout(
        files, *mapping.convention_mappings(inputs), service_path=inputs.service_path
    )


@pytest.mark.scenario("G21")
def test_the_mode_overrides_core() -> None:
    """Later mappings win file by file, and overrides are listed."""
    layout = _convention_layout(SITE, Convention("services/site", "prd"))
    sources = {path: planned.source for path, planned in layout.files.items()}
    assert sources == {
        f"{CORE}/config-mode.json": f"services/site/{CORE}/config-mode.json",
        f"{CORE}/ignition/db/config.json": f"services/site/{MODE}/ignition/db/config.json",
        f"{CORE}/ignition/mail/config.json": f"services/site/{CORE}/ignition/mail/config.json",
        "projects/p/project.json": "services/site/projects/p/project.json",
    }
    assert [(override.path, override.winner) for override in layout.overrides] == [
        (f"{CORE}/ignition/db/config.json", f"services/site/{MODE}/ignition/db/config.json")
    ]
    assert layout.roots == (ManagedRoot(CORE, "dir"), ManagedRoot("projects", "dir"))


@pytest.mark.parametrize("layout", ["overlay", "native"])
def test_an_unknown_mode_is_refused_with_the_available_modes(
    layout: Literal["overlay", "native"],
) -> None:
    """A mistyped mode does not mean core alone; collections of the gateway are no modes."""
    files = {**SITE, "services/site/config/resources/external/config-mode.json": b"{}"}
    with pytest.raises(SyncRefused, match=r"available: prd$") as caught:
        _convention_layout(files, Convention("services/site", "devv", layout))
    assert caught.value.reason == "SourceMissing"
    assert "devv not found in services/site/config/resources" in caught.value.message
    with pytest.raises(SyncRefused, match="available: no modes"):
        _convention_layout(SITE, Convention("services/area", "prd", layout))


def test_unmapped_collections_are_a_warning() -> None:
    """One for all; external, the mode and collections of additionalFiles are mapped."""
    resources = "services/site/config/resources"
    collections = {
        f"{resources}/{name}/config-mode.json": b"{}" for name in ("external", "dev", "qa")
    }
    layout = _convention_layout({**SITE, **collections}, Convention("services/site", "prd"))
    assert [warning for warning in layout.warnings if "not synced" in warning] == [
        f"2 config collections are not synced: dev, qa in {resources}; select a mode with "
        "ignition-sync.io/deployment-mode, or map other collections with additionalFiles or a "
        "profile"
    ]
    extra = tuple(
        RoutingFile(f"{resources}/{name}", f"config/resources/{name}", "dir")
        for name in ("dev", "qa")
    )
    convention = Convention("services/site", "prd", additional_files=extra)
    assert _convention_layout({**SITE, **collections}, convention).warnings == ()


@pytest.mark.scenario("G22")
def test_the_mode_file_of_an_overlay_is_left_out_of_core() -> None:
    """Core would become its own parent; if core has none, there is none."""
    files = dict(SITE)
    del files["services/site/config/resources/core/config-mode.json"]
    overlay = _convention_layout(files, Convention("services/site", "prd"))
    assert f"{CORE}/config-mode.json" not in overlay.files
    native = _convention_layout(SITE, Convention("services/site", "prd", "native"))
    assert "config/resources/prd/config-mode.json" in native.files


def test_equal_content_of_two_mappings_is_not_an_override() -> None:
    """MAP-7: identical bytes are not reported."""
    layout = _build_layout({"a/x": b"1", "b/x": b"1"}, PathMapping("a", "d"), PathMapping("b", "d"))
    assert layout.overrides == ()
    assert layout.files["d/x"].source == "b/x"


@pytest.mark.parametrize("service", ["services/sit", "services/site/projects/p", "nowhere/x"])
@pytest.mark.scenario("G33")
def test_a_wrong_service_path_is_refused_with_existing_paths(service: str) -> None:
    """MAP-4: the message makes a typo visible."""
    with pytest.raises(SyncRefused) as caught:
        _convention_layout(SITE, Convention(service))
    assert caught.value.reason == "SourceMissing"
    assert {
        "services/sit": "services contains area/, site/",
        "services/site/projects/p": "services/site/projects/p contains project.json",
        "nowhere/x": "the repository root contains factory.json, services/",
    }[service] in caught.value.message


@pytest.mark.scenario("G33")
def test_a_missing_source_is_skipped_or_refused() -> None:
    """Only a required one stops the sync; the message lists what exists instead."""
    layout = _build_layout(
        SITE, PathMapping("services/nope", "x"), PathMapping("factory.json", "f")
    )
    assert [(skipped.path, skipped.source) for skipped in layout.skipped] == [
        ("x", "services/nope")
    ]
    assert layout.vacant_roots == (ManagedRoot("x", "dir"),)
    with pytest.raises(SyncRefused, match="services contains area/, site/") as caught:
        _build_layout(SITE, PathMapping("services/nope", "x", required=True))
    assert (caught.value.reason, caught.value.path) == ("SourceMissing", "services/nope")


def test_a_mapping_of_the_wrong_type_is_an_error() -> None:
    """The message names the expected and the actual type."""
    with pytest.raises(SyncRefused, match=r"factory.json is a file.*has type dir") as caught:
        _build_layout(SITE, PathMapping("factory.json", "x", kind="dir", origin="m"))
    assert caught.value.reason == "MappingTypeMismatch"


def test_a_path_mapped_as_file_and_directory_is_an_error() -> None:
    """The message names both mappings."""
    with pytest.raises(SyncRefused, match="d/x is mapped as a file by one"):
        _build_layout(
            {"a/x": b"", "b/y": b""},
            PathMapping("a", "d", origin="one"),
            PathMapping("b", "d/x", origin="two"),
        )


@pytest.mark.scenario("G24")
def test_a_file_at_the_data_root_manages_itself_only() -> None:
    """MAP-3: its parent never becomes a root."""
    extra = (RoutingFile("factory.json", "."), RoutingFile("factory.json", "sub/"))
    layout = _convention_layout(SITE, Convention("services/site", additional_files=extra))
    assert ManagedRoot("factory.json", "file") in layout.roots
    assert ManagedRoot("sub/factory.json", "file") in layout.roots
    assert all(root.path for root in layout.roots)


@pytest.mark.scenario("G25")
def test_a_directory_at_the_data_root_is_split_into_roots() -> None:
    """MAP-2: each top-level entry becomes a root, except protected ones."""
    files = {"s/projects/p": b"", "s/a.txt": b"", "s/db/x": b"", "s/conf-x/y": b""}
    layout = _build_layout(files, PathMapping("s", "", into_directory=True))
    assert layout.roots == (
        ManagedRoot("a.txt", "file"),
        ManagedRoot("conf-x", "dir"),
        ManagedRoot("projects", "dir"),
    )
    assert [skipped.path for skipped in layout.skipped] == ["db/x"]


@pytest.mark.scenario("G28")
def test_protected_and_excluded_sources_are_skipped_and_listed() -> None:
    """The list says why a file is not on the gateway."""
    files = {"s/.resources/a": b"", "s/x/skip/b": b"", "s/ok": b""}
    layout = _build_layout(files, PathMapping("s", "projects"), excludes=("**/skip/", "never/**"))
    assert list(layout.files) == ["projects/ok"]
    assert {skipped.path: skipped.why for skipped in layout.skipped} == {
        "projects/.resources/a": "protected path",
        "projects/x/skip/b": "excluded by **/skip/",
    }
    assert layout.unused_excludes == ("never/**",)
    assert layout.is_off_limits("projects/x/skip/other")
    assert layout.is_off_limits("projects/deep/.resources/z")


@pytest.mark.scenario("G37")
def test_an_excluded_link_does_not_block_other_files() -> None:
    """Files are checked after excludes are applied."""
    commit = Commit({"s/key": b"/run/secret", "s/ok": b""}, {"s/key": 0o120000})
    with pytest.raises(SyncRefused, match="projects/key is a symbolic link"):
        build_layout(commit.listing, [PathMapping("s", "projects")], (), GatewayRecipes())
    layout = build_layout(
        commit.listing, [PathMapping("s", "projects")], ("projects/key",), GatewayRecipes()
    )
    assert list(layout.files) == ["projects/ok"]


def test_only_files_to_render_have_a_recipe() -> None:
    """A plain file is copied; config.json files share one recipe with one id."""
    files = {"s/a/config.json": b"", "s/b/config.json": b"", "s/b/view.json": b""}
    planned = build_layout(
        Commit(files).listing, [PathMapping("s", "x")], (), GatewayRecipes(system_name="gw")
    ).files
    assert planned["x/b/view.json"].recipe is None
    assert planned["x/b/view.json"].recipe_id == ""
    assert planned["x/a/config.json"].recipe is planned["x/b/config.json"].recipe
    assert planned["x/a/config.json"].recipe_id


def test_a_patch_applies_to_the_files_its_glob_matches() -> None:
    """Relative to the destination; a patch that matches nothing is a warning."""
    patches = (PatchSet({".a": "1"}, "*/c.json"), PatchSet({".b": "2"}, "none/*"))
    files = {"s/d/c.json": b"{}", "s/c.json": b"{}"}
    layout = _build_layout(files, PathMapping("s", "x", patches=patches, origin="m"))
    assert layout.files["x/d/c.json"].recipe is not None
    assert layout.files["x/c.json"].recipe is None
    assert layout.warnings == ("m: patch 'none/*' matches no planned file",)
    with pytest.raises(SyncRefused, match=r"m\.patches"):
        _build_layout(
            files, PathMapping("s", "x", patches=(PatchSet({"]": "1"}, "a"),), origin="m")
        )


@pytest.mark.scenario("G32")
def test_a_resource_file_lists_the_payloads_that_may_change() -> None:
    """NRM-7: only siblings with a recipe, and only under the policy drop."""
    files = {
        "s/a/config.json": b"",
        "s/a/resource.json": b"",
        "s/b/resource.json": b"",
        "s/b/x": b"",
    }
    listing = Commit(files).listing
    planned = build_layout(
        listing, [PathMapping("s", "x")], (), GatewayRecipes(system_name="gw")
    ).files
    assert planned["x/a/resource.json"].payloads == ("x/a/config.json",)
    assert planned["x/b/resource.json"].payloads == ()
    keep = GatewayRecipes(system_name="gw", signature_policy="keep")
    assert (
        build_layout(listing, [PathMapping("s", "x")], (), keep).files["x/a/resource.json"].payloads
        == ()
    )


def test_problematic_names_are_one_warning() -> None:
    """PRO-5: one warning with a count, however many there are."""
    layout = _build_layout({"s/a:b": b"", "s/ c": b"", "s/ok": b""}, PathMapping("s", "projects"))
    assert len(layout.warnings) == 1
    assert "2 planned paths" in layout.warnings[0]


def test_a_source_tree_lists_directories() -> None:
    """Names that sort between a directory and its content make no difference."""
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


def test_at_most_ten_nearby_entries_are_listed() -> None:
    """A message stays readable in a large repository."""
    tree = SourceTree(Commit({f"f{number:02}": b"" for number in range(12)}).listing)
    assert tree.describe_nearby("x").endswith("f09 and 2 more")


MODES = {
    "modes/prd/config/db.json": b"prd db",
    "modes/prd/config/config-mode.json": b"prd",
    "modes/dev/projects/p/project.json": b"{}",
    "shared/x": b"x",
}


def _mode_layout(routing: Routing, mode: str) -> Layout:
    pod = annotated_pod(service_path="services/site", deployment_mode=mode)
    if routing.profiles:
        pod = annotated_pod(profile="default", deployment_mode=mode)
    selected = select(routing, pod, SourceRevision("c1"), cr_name="site")
    return layout_for_selection(Commit({**SITE, **MODES}).listing, selected)


def _profile_routing(source: str) -> Routing:
    return Routing(profiles={"default": RoutingProfile((RoutingMapping(source, CORE),))})


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("modes/{{.DeploymentMode}}", "devv not found in modes; available: dev, prd"),
        ("modes/{{ .DeploymentMode }}/config", "devv not found in modes; available: dev, prd"),
        ("{{.DeploymentMode}}", "devv not found in the repository root; available: modes, "),
        ("shared/{{.DeploymentMode}}", "devv not found in shared; available: x"),
    ],
)
def test_an_unknown_mode_in_the_source_of_a_profile_lists_the_modes_that_exist(
    source: str, refusal: str
) -> None:
    """A skipped mapping would delete the files of the mode that was meant."""
    with pytest.raises(SyncRefused) as caught:
        _mode_layout(_profile_routing(source), "devv")
    assert caught.value.reason == "SourceMissing"
    assert refusal in caught.value.message


def test_a_mode_without_the_mapped_directory_is_skipped() -> None:
    """The mode exists; only the part of it that the mapping names does not."""
    found = _mode_layout(_profile_routing("modes/{{.DeploymentMode}}/config"), "dev")
    assert [skipped.source for skipped in found.skipped] == ["modes/dev/config"]


def test_an_additional_directory_over_core_omits_the_mode_file() -> None:
    """Core would become its own parent; the warning names the entry of the list."""
    routing = Routing(additional_files=(RoutingFile("modes/prd/config", CORE, "dir"),))
    found = _mode_layout(routing, "prd")
    sources = {path: file.source for path, file in found.files.items()}
    assert sources[f"{CORE}/config-mode.json"] == f"services/site/{CORE}/config-mode.json"
    assert sources[f"{CORE}/db.json"] == "modes/prd/config/db.json"
    assert any(text.startswith("additionalFiles[0]: modes/prd/") for text in found.warnings)
