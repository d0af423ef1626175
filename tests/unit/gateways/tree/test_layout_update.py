"""Which changes a layout follows without being made anew."""

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


def _renewed(
    edits: dict[str, Edit], mappings: tuple[PathMapping, ...] = MAPPINGS
) -> tuple[Layout, Layout | None]:
    basis = LayoutInputs(mappings, ("**/skip",), GatewayRecipes(), None, DEFAULT_CAPS)
    layout = build_layout(LISTING, basis.mappings, basis.excludes, basis.recipes)
    return layout, layout_update.update_layout(layout, basis, edits)


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
def test_content_and_single_files_are_followed(
    edits: dict[str, Edit], blobs: dict[str, str | None]
) -> None:
    """Planned files change, come and go; what is not planned does not matter."""
    layout, found = _renewed(edits)
    assert found is not None
    expected = {path: wanted.blob for path, wanted in layout.files.items()} | blobs
    held = {path: wanted.blob for path, wanted in found.files.items()}
    assert held == {path: blob for path, blob in expected.items() if blob is not None}


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
def test_what_reaches_further_is_left_to_the_whole_layout(edits: dict[str, Edit]) -> None:
    """A source that appears or vanishes, skipped paths, names and modes that are refused."""
    assert _renewed(edits)[1] is None


def test_a_path_with_two_sources_is_left_to_the_whole_layout() -> None:
    """Whether one overrides the other is known only with both."""
    both = (PathMapping("s", "projects"), PathMapping("t", "projects"))
    assert _renewed(_edit("t/view/view.json", "w"), both)[1] is None
    assert _renewed(_edit("s/view/resource.json", "w"), both)[1] is not None


def test_variables_count_only_for_templates() -> None:
    """They name the commit, so a templated layout is never renewed across commits."""
    first = GatewayRecipes(variables=TemplateVariables(commit="1"))
    second = replace(first, variables=TemplateVariables(commit="2"))
    for template in (False, True):
        mappings = (replace(MAPPINGS[0], template=template),)
        bases = [
            layout_update.build_inputs(mappings, (), recipes, None, DEFAULT_CAPS)
            for recipes in (first, second)
        ]
        assert (bases[0] == bases[1]) is not template
