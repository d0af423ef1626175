"""Whatever changes between two commits: a renewed layout is the one made from scratch."""

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


def _routing(said: list[tuple[Any, ...]]) -> Routing:
    mappings = [
        RoutingMapping(source, destination, template=template, patches=patches)
        for source, destination, template, patches, *_ in said
    ]
    return Routing(
        profiles={"default": RoutingProfile(mappings=tuple(mappings))},
        exclude_patterns=("**/skip", "never/**"),
        normalize=NormalizeRules(system_name=said[0][4]),
        signature_policy=said[0][5],
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


def _clean(found: Listing) -> Listing:
    """A tree cannot hold a file and a directory of one name."""
    above = {folder for path in found for folder in parents(path)}
    return {path: file for path, file in found.items() if path not in above}


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


def _selected(routing: Routing, commit: str, **annotations: str) -> GatewaySelection:
    revision = SourceRevision(commit, "main", 1)
    return selection.select(routing, annotated_pod(**annotations), revision, cr_name="site")


def _laid_out(listing: Listing, chosen: GatewaySelection) -> Layout | None:
    try:
        return layouts.layout_for_selection(listing, chosen, CAPS)
    except SyncRefused:
        return None


def _shown(layout: Layout) -> dict[str, object]:
    """All of a layout; patterns have no equality of their own."""
    shown = {field.name: getattr(layout, field.name) for field in fields(layout)}
    return {**shown, "files": list(layout.files.items()), "excludes": layout.excludes.patterns}


def _check(
    old: Listing, changed: list[dict[str, Entry | None]], choose: list[GatewaySelection]
) -> None:
    """Follow the commits by renewal and compare each step with a layout from scratch."""
    layout, basis = _laid_out(old, choose[0]), layout_update.layout_inputs(choose[0], CAPS)
    for edit, chosen in zip(changed, choose[1:], strict=True):
        new, now = _after(old, edit), layout_update.layout_inputs(chosen, CAPS)
        fresh = _laid_out(new, chosen)
        if layout is not None and basis == now:
            found = layout_update.update_layout(layout, basis, _edits(old, new))
            if found is not None:
                assert fresh is not None
                assert _shown(found) == _shown(fresh)
                fresh = found
        old, layout, basis = new, fresh, now


@settings(deadline=None, max_examples=300)
@given(routings, listings, st.lists(edits, min_size=1, max_size=4))
def test_a_renewed_profile_layout_is_the_layout(
    routing: Routing, old: Listing, changed: list[dict[str, Entry | None]]
) -> None:
    """Any mappings, patches, templates and policies; what is refused is never renewed."""
    choose = [_selected(routing, Commit({}).id + str(n)) for n in range(len(changed) + 1)]
    _check(old, changed, choose)


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
def test_a_renewed_service_layout_is_the_layout(
    named: bool, old: Listing, changed: list[dict[str, Entry | None]]
) -> None:
    """The convention with a mode that overlays core."""
    routing = Routing(normalize=NormalizeRules(system_name=named))
    said = {"service_path": "services", "deployment_mode": "dev"}
    choose = [_selected(routing, f"c{n}", **said) for n in range(len(changed) + 1)]
    _check(old, changed, choose)
