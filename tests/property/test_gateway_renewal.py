"""Whatever changes between two commits: a renewed layout is the one made from scratch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.gateway_plans import Commit, pod_of
from windlass.gateways.decide import layout as layouts
from windlass.gateways.decide import renewal, selection
from windlass.gateways.decide.layout import Layout, Listed
from windlass.gateways.decide.paths import parents
from windlass.gateways.decide.policing import Caps
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import (
    Normalise,
    PatchSet,
    Profile,
    ProfileMapping,
    Routing,
)
from windlass.gateways.decide.selection import Revision, Selection

LINK = 0o120000
CAPS = Caps(max_files=9)

folders = st.sampled_from(["a", "b", "B", "projects"])
names = folders | st.sampled_from(
    ["config.json", "resource.json", "view.json", "db", "skip", "git~1", " x"]
)
trees = st.builds(
    lambda above, name: "/".join((*above, name)), st.lists(folders, max_size=2), names
)
listed = st.builds(
    Listed, st.sampled_from([0o100644] * 8 + [0o100755, LINK]), st.sampled_from("0123")
)
patches = st.sampled_from([(), (), (PatchSet("**/view.json", {".x": "1"}),)])
mappings = st.builds(
    ProfileMapping,
    st.sampled_from([".", "a", "b", "projects", "a/b", "a/config.json"]),
    st.sampled_from([".", "a", "a/", "x", "projects"]),
    template=st.sampled_from([False, False, False, True]),
    patches=patches,
)
routings = st.builds(
    lambda mapped, named, policy: Routing(
        profiles={"default": Profile(mappings=tuple(mapped))},
        exclude_patterns=("**/skip", "never/**"),
        normalize=Normalise(system_name=named),
        signature_policy=policy,
    ),
    st.lists(mappings, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(["drop", "keep"]),
)
Listing = dict[str, Listed]


def _clean(found: Listing) -> Listing:
    """A tree cannot hold a file and a directory of one name."""
    above = {folder for path in found for folder in parents(path)}
    return {path: file for path, file in found.items() if path not in above}


listings = st.dictionaries(trees, listed, max_size=10).map(_clean)
edits = st.dictionaries(trees, st.none() | listed, max_size=4)


@dataclass(frozen=True)
class Edit:
    before: Listed | None
    after: Listed | None


def _after(listing: Listing, changed: dict[str, Listed | None]) -> Listing:
    merged = {**listing, **changed}
    return _clean({path: file for path, file in merged.items() if file is not None})


def _edits(old: Listing, new: Listing) -> dict[str, Edit]:
    paths = [path for path in old.keys() | new.keys() if old.get(path) != new.get(path)]
    return {path: Edit(old.get(path), new.get(path)) for path in paths}


def _selected(routing: Routing, commit: str, **annotations: str) -> Selection:
    revision = Revision(commit, "main", 1)
    return selection.selected(routing, pod_of(**annotations), revision, cr_name="site")


def _laid_out(listing: Listing, chosen: Selection) -> Layout | None:
    try:
        return layouts.of_selection(listing, chosen, CAPS)
    except Refused:
        return None


def _shown(layout: Layout) -> dict[str, object]:
    """All of a layout; patterns have no equality of their own."""
    shown = {field.name: getattr(layout, field.name) for field in fields(layout)}
    return {**shown, "files": list(layout.files.items()), "excludes": layout.excludes.patterns}


def _check(old: Listing, changed: list[dict[str, Listed | None]], choose: list[Selection]) -> None:
    """Follow the commits by renewal and compare each step with a layout from scratch."""
    layout, basis = _laid_out(old, choose[0]), renewal.foundation(choose[0], CAPS)
    for edit, chosen in zip(changed, choose[1:], strict=True):
        new, now = _after(old, edit), renewal.foundation(chosen, CAPS)
        fresh = _laid_out(new, chosen)
        if layout is not None and basis == now:
            found = renewal.renewed(layout, basis, _edits(old, new))
            if found is not None:
                assert fresh is not None
                assert _shown(found) == _shown(fresh)
                fresh = found
        old, layout, basis = new, fresh, now


@settings(deadline=None, max_examples=300)
@given(routings, listings, st.lists(edits, min_size=1, max_size=4))
def test_a_renewed_profile_layout_is_the_layout(
    routing: Routing, old: Listing, changed: list[dict[str, Listed | None]]
) -> None:
    """Any mappings, patches, templates and policies; what is refused is never renewed."""
    choose = [_selected(routing, Commit({}).id + str(n)) for n in range(len(changed) + 1)]
    _check(old, changed, choose)


service = st.sampled_from(
    ["services/projects/p/a", "services/projects/p/resource.json", "services/projects/q",
     "services/config/resources/core/config.json", "services/config/resources/dev/config.json",
     "services/config/resources/other", "services/config/resources/dev/config-mode.json", "x"]
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(
    st.booleans(),
    st.dictionaries(service, listed, max_size=8).map(_clean),
    st.lists(st.dictionaries(service, st.none() | listed, max_size=3), min_size=1, max_size=4),
)
@example(
    False,
    {"services/config/resources/other": Listed(0o100644, "0")},
    [{"services/config/resources/other": None}],
)
def test_a_renewed_service_layout_is_the_layout(
    named: bool, old: Listing, changed: list[dict[str, Listed | None]]
) -> None:
    """The convention with a mode that overlays core."""
    routing = Routing(normalize=Normalise(system_name=named))
    said = {"service_path": "services", "deployment_mode": "dev"}
    choose = [_selected(routing, f"c{n}", **said) for n in range(len(changed) + 1)]
    _check(old, changed, choose)
