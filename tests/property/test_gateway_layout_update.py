"""An updated layout equals one built from scratch, whatever changes between two commits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.gateways.sync_model import Commit, annotated_pod
from tests.support.strategies.batched import balanced_column, rows
from windlass.gateways.tree import layout as layouts
from windlass.gateways.tree import layout_update, selection
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.layout import Layout
from windlass.gateways.tree.path_rules import SyncRefused, parents
from windlass.gateways.tree.selection import GatewaySelection, SourceRevision
from windlass.gateways.wire.routing import (
    NormalizeRules,
    PatchSet,
    Routing,
    RoutingMapping,
    RoutingProfile,
)
from windlass.git.store import Entry

LINK = 0o120000
CAPS = Caps(max_files=9)

FOLDERS = ("a", "b", "B", "projects")
NAMES = (
    *FOLDERS,
    *("config.json", "resource.json", "view.json", "db", "skip", "git~1", " x", "config-mode.json"),
)
TREES = balanced_column(
    *(["/".join(parts) for parts in product(*[FOLDERS] * depth, NAMES)] for depth in range(3))
)
LISTED = [
    Entry(mode, blob) for mode in [0o100644] * 8 + [0o100755, LINK] for blob in ("0", "1", "2", "3")
]
EDITED = balanced_column([None], LISTED)
PATCHES = ((), (), (PatchSet({".x": "1"}, "**/view.json"),))


def _routing(drawn: list[tuple[Any, ...]]) -> Routing:
    mappings = [
        RoutingMapping(source, destination, template=template, patches=patches)
        for source, destination, template, patches, *_ in drawn
    ]
    return Routing(
        profiles={"default": RoutingProfile(mappings=tuple(mappings))},
        exclude_patterns=("**/skip", "never/**"),
        normalize=NormalizeRules(system_name=drawn[0][4]),
        signature_policy=drawn[0][5],
    )


routings = rows(
    (".", "a", "b", "projects", "a/b", "a/config.json"),
    (".", "a", "a/", "x", "projects", "config/resources/core"),
    (False, False, False, True),
    PATCHES,
    (False, True),
    ("drop", "keep"),
    min_size=1,
    max_size=3,
    usual=2,
).map(_routing)
Listing = dict[str, Entry]


def _clean(listing: Listing) -> Listing:
    """A tree cannot have a file and a directory of one name."""
    parent_folders = {folder for path in listing for folder in parents(path)}
    return {path: file for path, file in listing.items() if path not in parent_folders}


listings = rows(TREES, LISTED, max_size=10).map(dict).map(_clean)
edits = rows(TREES, EDITED, max_size=4, usual=2).map(dict)


@dataclass(frozen=True)
class Edit:
    before: Entry | None
    after: Entry | None


def _after(listing: Listing, changed: dict[str, Entry | None]) -> Listing:
    merged = {**listing, **changed}
    return _clean({path: file for path, file in merged.items() if file is not None})


def _edits(old: Listing, new: Listing) -> dict[str, Edit]:
    paths = [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
    return {path: Edit(old.get(path), new.get(path)) for path in paths}


def _select(routing: Routing, commit: str, **annotations: str) -> GatewaySelection:
    revision = SourceRevision(commit, "main", 1)
    return selection.select(routing, annotated_pod(**annotations), revision, cr_name="site")


def _build_layout(listing: Listing, selected: GatewaySelection) -> Layout | None:
    try:
        return layouts.layout_for_selection(listing, selected, CAPS)
    except SyncRefused:
        return None


def _comparable(layout: Layout) -> dict[str, object]:
    """All fields of a layout; patterns do not define equality."""
    values = {field.name: getattr(layout, field.name) for field in fields(layout)}
    return {**values, "files": list(layout.files.items()), "excludes": layout.excludes.patterns}


def _assert_updates_equal_builds(
    old: Listing, changed: list[dict[str, Entry | None]], selections: list[GatewaySelection]
) -> None:
    """Update the layout for each commit and compare it with one built from scratch."""
    layout, inputs = (
        _build_layout(old, selections[0]),
        layout_update.layout_inputs(selections[0], CAPS),
    )
    for edit, selected in zip(changed, selections[1:], strict=True):
        new, new_inputs = _after(old, edit), layout_update.layout_inputs(selected, CAPS)
        built = _build_layout(new, selected)
        if layout is not None and inputs == new_inputs:
            updated = layout_update.update_layout(layout, inputs, _edits(old, new))
            if updated is not None:
                assert built is not None
                assert _comparable(updated) == _comparable(built)
                built = updated
        old, layout, inputs = new, built, new_inputs


@settings(deadline=None, max_examples=300)
@given(routings, listings, st.lists(edits, min_size=1, max_size=4))
def test_an_updated_profile_layout_equals_a_new_one(
    routing: Routing, old: Listing, changed: list[dict[str, Entry | None]]
) -> None:
    """Any mappings, patches, templates and policies; a refused layout is never updated."""
    selections = [_select(routing, Commit({}).id + str(n)) for n in range(len(changed) + 1)]
    _assert_updates_equal_builds(old, changed, selections)


SERVICE = (
    "services/projects/p/a", "services/projects/p/resource.json", "services/projects/q",
     "services/config/resources/core/config.json", "services/config/resources/dev/config.json",
     "services/config/resources/other", "services/config/resources/dev/config-mode.json", "x",
     "services/config/resources/external/a", "services/config/resources/stray/a",
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(
    st.booleans(),
    rows(SERVICE, LISTED, max_size=8).map(dict).map(_clean),
    st.lists(rows(SERVICE, EDITED, max_size=3, usual=2).map(dict), min_size=1, max_size=4),
)
@example(
    False,
    {"services/config/resources/other": Entry(0o100644, "0")},
    [{"services/config/resources/other": None}],
)
def test_an_updated_service_layout_equals_a_new_one(
    sets_system_name: bool, old: Listing, changed: list[dict[str, Entry | None]]
) -> None:
    """The convention with a mode that overlays core."""
    routing = Routing(normalize=NormalizeRules(system_name=sets_system_name))
    annotations = {"service_path": "services", "deployment_mode": "dev"}
    selections = [_select(routing, f"c{n}", **annotations) for n in range(len(changed) + 1)]
    _assert_updates_equal_builds(old, changed, selections)
