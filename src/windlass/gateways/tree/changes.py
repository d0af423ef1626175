"""Finds the paths that have to be rendered: the cost of a sync follows the change (APP-2).

A path is kept without reading its content when blob and recipe are those of the manifest and
the file on the disk has the stat that the last sync left. Content is hashed only where the stat
is not conclusive (`paths_to_hash`), and rendered only where something differs.

Whether the signature in a resource.json has to go (NRM-7) is known once its payloads were
rendered, so those files are decided in a second step:

    paths_to_hash -> hash -> find_changes -> render -> resolve_undecided -> render the rest -> plan

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from windlass.gateways.render import file_renderer
from windlass.gateways.render.file_renderer import RenderRecipe
from windlass.gateways.tree.layout import Layout, LayoutFile
from windlass.gateways.tree.manifest import ContentFacts, FileStat, Manifest, ManifestEntry

ChangeCause: TypeAlias = Literal["new", "content", "recipe", "drift"]
ChangeVerdict: TypeAlias = Literal["kept", "restat"] | ChangeCause


@dataclass(frozen=True, slots=True)
class RenderedDigest:
    """A rendered content: what it is, and what its recipe really changed.

    `named` says that the content holds a systemName, changed or not; `about` is what else
    was seen in it.
    """

    sha256: str
    size: int
    transforms: tuple[str, ...] = ()
    named: bool = False
    about: ContentFacts | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a layout was compared with: our memory, and the disk as it is.

    `noise` are files known to differ in the gateway's own stamps only (DRF-2).
    """

    entries: Mapping[str, ManifestEntry]
    stats: Mapping[str, FileStat]
    hashes: Mapping[str, str]
    stamped: Collection[str] = ()

    def is_untouched(self, path: str) -> bool:
        """Whether the file is there with the stat we left it with."""
        entry = self.entries.get(path)
        return entry is not None and entry.stat is not None and entry.stat == self.stats.get(path)

    def live_sha256(self, path: str) -> str | None:
        """The digest of the file on the disk, as far as it is known."""
        if self.is_untouched(path):
            return self.entries[path].sha256
        return self.hashes.get(path)

    def verdict(self, wanted: LayoutFile, recipe_id: str) -> ChangeVerdict:
        entry = self.entries.get(wanted.path)
        if entry is None:
            return "new"
        if entry.blob != wanted.blob:
            return "content"
        if entry.recipe != recipe_id:
            return "recipe"
        if self.is_untouched(wanted.path) or wanted.path in self.stamped:
            return "kept"
        same = wanted.path in self.stats and self.hashes.get(wanted.path) == entry.sha256
        return "restat" if same else "drift"


@dataclass(frozen=True, slots=True)
class Changes:
    """What a sync has to render.

    `render` is in path order, `causes` says why. `recipes` holds those that differ from
    the layout's. `kept` are entries that stay as they are, `restat` those among them whose
    stat has to be taken anew. `undecided` wait for `resolve_undecided`. `stale` are paths of the
    manifest that the layout no longer has.
    """

    render: tuple[str, ...]
    causes: Mapping[str, ChangeCause]
    kept: Mapping[str, ManifestEntry]
    restat: frozenset[str]
    stale: tuple[str, ...]
    undecided: tuple[str, ...]
    recipes: Mapping[str, tuple[RenderRecipe, str]]
    comparison: Comparison

    def recipe(self, wanted: LayoutFile) -> tuple[RenderRecipe | None, str]:
        """How to make the content of `wanted`, with the id to remember the recipe by."""
        return self.recipes.get(wanted.path, (wanted.recipe, wanted.recipe_id))


def paths_to_hash(
    layout: Layout, manifest: Manifest | None, stats: Mapping[str, FileStat]
) -> tuple[str, ...]:
    """Wanted paths that exist, and whose content cannot be known without reading it."""
    known = manifest.files if manifest is not None else {}
    found = []
    for path in layout.files:
        seen, entry = stats.get(path), known.get(path)
        if seen is not None and (entry is None or entry.stat != seen):
            found.append(path)
    return tuple(found)


def find_changes(
    layout: Layout,
    manifest: Manifest | None,
    stats: Mapping[str, FileStat],
    hashes: Mapping[str, str] | None = None,
    noise: Collection[str] = (),
) -> Changes:
    """What to render, given the stats of all live files and the digests of doubtful ones."""
    sorting = _ChangeSorter(_comparison(manifest, stats, hashes or {}, noise))
    signed = sorting.sort_all(layout.files.values())
    waiting = [wanted.path for wanted in signed if not sorting.sort_signed(wanted, {})]
    stale = sorted(path for path in sorting.comparison.entries if path not in layout.files)
    return sorting.build(tuple(stale), tuple(waiting))


def resolve_undecided(
    found: Changes, layout: Layout, rendered: Mapping[str, RenderedDigest]
) -> Changes:
    """`found` with nothing undecided, now that all of its `render` were rendered."""
    sorting = _ChangeSorter(found.comparison)
    sorting.causes.update(found.causes)
    sorting.kept.update(found.kept)
    sorting.restat.update(found.restat)
    sorting.recipes.update(found.recipes)
    for path in found.undecided:
        if not sorting.sort_signed(layout.files[path], rendered):
            raise ValueError(f"a payload beside {path} was not rendered")
    return sorting.build(found.stale, ())


def _comparison(
    manifest: Manifest | None,
    stats: Mapping[str, FileStat],
    hashes: Mapping[str, str],
    noise: Collection[str] = (),
) -> Comparison:
    return Comparison(manifest.files if manifest is not None else {}, stats, hashes, noise)


@dataclass(slots=True)
class _ChangeSorter:
    """Changes in the making."""

    comparison: Comparison
    causes: dict[str, ChangeCause] = field(default_factory=dict)
    kept: dict[str, ManifestEntry] = field(default_factory=dict)
    restat: set[str] = field(default_factory=set)
    recipes: dict[str, tuple[RenderRecipe, str]] = field(default_factory=dict)

    def sort_all(self, files: Iterable[LayoutFile]) -> list[LayoutFile]:
        """Sort the files; those whose payloads must be known first are given back."""
        known, stats, kept = self.comparison.entries, self.comparison.stats, self.kept
        signed = []
        for wanted in files:
            path = wanted.path
            entry = known.get(path)
            if wanted.payloads:
                signed.append(wanted)
            elif (
                # Nearly all files of nearly all syncs: nothing differs.
                entry is not None
                and entry.stat is not None
                and entry.blob == wanted.blob
                and entry.recipe == wanted.recipe_id
                and entry.stat == stats.get(path)
            ):
                kept[path] = entry
            else:
                self.sort(wanted)
        return signed

    def sort(self, wanted: LayoutFile, recipe_id: str | None = None) -> None:
        path = wanted.path
        wants = wanted.recipe_id if recipe_id is None else recipe_id
        verdict = self.comparison.verdict(wanted, wants)
        if verdict != "kept" and verdict != "restat":
            self.causes[path] = verdict
            return
        self.kept[path] = self.comparison.entries[path]
        if verdict == "restat":
            self.restat.add(path)

    def sort_signed(self, wanted: LayoutFile, rendered: Mapping[str, RenderedDigest]) -> bool:
        """Sort a resource.json if all its payloads are known; False where one is not yet."""
        made = [rendered.get(path) or self.kept.get(path) for path in wanted.payloads]
        if None in made:
            return False
        if not any(one.transforms for one in made if one is not None):
            self.sort(wanted)
            return True
        recipe, recipe_id = file_renderer.drop_signature(wanted.recipe)
        self.recipes[wanted.path] = recipe, recipe_id
        self.sort(wanted, recipe_id)
        return True

    def build(self, stale: tuple[str, ...], undecided: tuple[str, ...]) -> Changes:
        return Changes(
            render=tuple(sorted(self.causes)),
            causes=self.causes,
            kept=self.kept,
            restat=frozenset(self.restat),
            stale=stale,
            undecided=undecided,
            recipes=self.recipes,
            comparison=self.comparison,
        )
