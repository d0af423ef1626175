"""Which changes update a layout without rebuilding it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from windlass.gateways.render.file_renderer import GatewayRecipes
from windlass.gateways.render.template import TemplateVariables
from windlass.gateways.tree import layout_update
from windlass.gateways.tree.file_policy import DEFAULT_CAPS
from windlass.gateways.tree.layout import Layout, build_layout
from windlass.gateways.tree.layout_update import LayoutInputs
from windlass.gateways.tree.mapping import PathMapping
from windlass.git.store import Entry

PLAIN = 0o100644
LISTING = {
    "s/view/view.json": Entry(PLAIN, "v"),
    "s/view/resource.json": Entry(PLAIN, "r"),
    "s/skip": Entry(PLAIN, "x"),
    "t/view/view.json": Entry(PLAIN, "v"),
    "other": Entry(PLAIN, "o"),
}
MAPPINGS = (PathMapping("s", "projects", kind="dir"), PathMapping("absent", "elsewhere"))


@dataclass(frozen=True)
class Edit:
    before: Entry | None
    after: Entry | None


def _update(
    edits: dict[str, Edit], mappings: tuple[PathMapping, ...] = MAPPINGS
) -> tuple[Layout, Layout | None]:
    inputs = LayoutInputs(mappings, ("**/skip",), GatewayRecipes(), None, DEFAULT_CAPS)
    layout = build_layout(LISTING, inputs.mappings, inputs.excludes, inputs.recipes)
    return layout, layout_update.update_layout(layout, inputs, edits)


def _edit(path: str, blob: str | None, mode: int = PLAIN) -> dict[str, Edit]:
    return {path: Edit(LISTING.get(path), None if blob is None else Entry(mode, blob))}


@pytest.mark.parametrize(
    ("edits", "blobs"),
    [
        (_edit("s/view/view.json", "w"), {"projects/view/view.json": "w"}),
        (_edit("s/new/view.json", "n"), {"projects/new/view.json": "n"}),
        (_edit("s/view/view.json", None), {"projects/view/view.json": None}),
        (_edit("other", "p") | _edit("more", "m"), {}),
        (_edit("s/skip", "y"), {}),
    ],
)
def test_changed_added_and_deleted_files_update_the_layout(
    edits: dict[str, Edit], blobs: dict[str, str | None]
) -> None:
    """Files outside the layout make no difference."""
    layout, updated = _update(edits)
    assert updated is not None
    expected = {path: planned.blob for path, planned in layout.files.items()} | blobs
    updated_blobs = {path: planned.blob for path, planned in updated.files.items()}
    assert updated_blobs == {path: blob for path, blob in expected.items() if blob is not None}


@pytest.mark.parametrize(
    "edits",
    [
        _edit("absent/first", "f"),
        _edit("s/deep/skip", "x"),
        _edit("s/skip", None),
        _edit("s/view/view.json", "w", 0o120000),
        _edit("s/view/VIEW.json", "w"),
        _edit("s/view", "w"),
        _edit("s/view/view.json", None) | _edit("s/view/resource.json", None),
    ],
)
def test_changes_beyond_single_files_rebuild_the_layout(edits: dict[str, Edit]) -> None:
    """A source that appears or disappears, skipped paths, names and modes that are refused."""
    assert _update(edits)[1] is None


def test_a_path_with_two_sources_rebuilds_the_layout() -> None:
    """Overrides are decided with both sources."""
    both = (PathMapping("s", "projects"), PathMapping("t", "projects"))
    assert _update(_edit("t/view/view.json", "w"), both)[1] is None
    assert _update(_edit("s/view/resource.json", "w"), both)[1] is not None


def test_variables_are_inputs_of_templates_only() -> None:
    """They contain the commit, so a templated layout is never updated across commits."""
    first = GatewayRecipes(variables=TemplateVariables(commit="1"))
    second = replace(first, variables=TemplateVariables(commit="2"))
    for template in (False, True):
        mappings = (replace(MAPPINGS[0], template=template),)
        inputs = [
            layout_update.build_inputs(mappings, (), recipes, None, DEFAULT_CAPS)
            for recipes in (first, second)
        ]
        assert (inputs[0] == inputs[1]) is not template


def test_a_mode_that_may_lose_its_directory_is_left_to_the_whole_layout() -> None:
    """Its mapping has no files, so a removed file elsewhere may have been the last of the mode."""
    absent = PathMapping("t/config", "projects", mode_directory="t")
    assert _update(_edit("t/view/view.json", None), (absent,))[1] is None
    assert _update(_edit("t/view/view.json", "w"), (absent,))[1] is not None
