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
    """Hash and size of a rendered content, and what its recipe really changed.

    `named` is true if the content has a systemName, changed or not; `about` are other facts
    about the content.
    """

    sha256: str
    size: int
    transforms: tuple[str, ...] = ()
    named: bool = False
    about: ContentFacts | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a layout is compared with: the manifest and the disk.

    `entries` are the manifest's, `stats` those of all live files, `hashes` those of the files that
    had to be read. `stamped` are files that differ in the gateway's own stamps only (DRF-2).
    """

    entries: Mapping[str, ManifestEntry]
    stats: Mapping[str, FileStat]
    hashes: Mapping[str, str]
    stamped: Collection[str] = ()

    def is_untouched(self, path: str) -> bool:
        """Whether the file exists with the stat that the last sync left."""
        entry = self.entries.get(path)
        return entry is not None and entry.stat is not None and entry.stat == self.stats.get(path)

    def live_sha256(self, path: str) -> str | None:
        """The SHA-256 of the file on the disk; None if the file is missing or was not read."""
        if self.is_untouched(path):
            return self.entries[path].sha256
        return self.hashes.get(path)

    def verdict(self, file: LayoutFile, recipe_id: str) -> ChangeVerdict:
        """Why a file has to be rendered, or that it is kept."""
        entry = self.entries.get(file.path)
        if entry is None:
            return "new"
        if entry.blob != file.blob:
            return "content"
        if entry.recipe != recipe_id:
            return "recipe"
        if self.is_untouched(file.path) or file.path in self.stamped:
            return "kept"
        same = file.path in self.stats and self.hashes.get(file.path) == entry.sha256
        return "restat" if same else "drift"


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between a layout and the disk: what a sync has to render."""

    # Paths to render, sorted.
    render: tuple[str, ...]
    # Why, for each path of `render`.
    causes: Mapping[str, ChangeCause]
    # Entries of the manifest that stay as they are.
    kept: Mapping[str, ManifestEntry]
    # Paths of `kept` whose stat has to be recorded again: same content, touched file.
    restat: frozenset[str]
    # Paths of the manifest that the layout no longer has, sorted.
    stale: tuple[str, ...]
    # Paths that `resolve_undecided` decides; empty afterwards.
    undecided: tuple[str, ...]
    # Recipes with their ids, where they differ from the layout's.
    recipes: Mapping[str, tuple[RenderRecipe, str]]
    # What the layout was compared with.
    comparison: Comparison

    def recipe(self, file: LayoutFile) -> tuple[RenderRecipe | None, str]:
        """The recipe of `file`, None for a plain copy, and the id that the manifest records."""
        return self.recipes.get(file.path, (file.recipe, file.recipe_id))


def paths_to_hash(
    layout: Layout, manifest: Manifest | None, stats: Mapping[str, FileStat]
) -> tuple[str, ...]:
    """The desired paths that exist on the disk with a stat that the manifest does not have."""
    entries = manifest.files if manifest is not None else {}
    paths = []
    for path in layout.files:
        stat, entry = stats.get(path), entries.get(path)
        if stat is not None and (entry is None or entry.stat != stat):
            paths.append(path)
    return tuple(paths)


def local_edits(layout: Layout, manifest: Manifest, hashes: Mapping[str, str]) -> list[str]:
    """The files that differ from the last sync although Git did not change them."""
    entries = manifest.files
    return [
        path
        for path, sha256 in hashes.items()
        if path in entries
        and entries[path].sha256 != sha256
        and entries[path].blob == layout.files[path].blob
    ]


def find_changes(
    layout: Layout,
    manifest: Manifest | None,
    stats: Mapping[str, FileStat],
    hashes: Mapping[str, str] | None = None,
    stamped: Collection[str] = (),
) -> Changes:
    """The changes, given the stats of all live files and the hashes of `paths_to_hash`."""
    sorter = _ChangeSorter(_comparison(manifest, stats, hashes or {}, stamped))
    signed = sorter.sort_all(layout.files.values())
    waiting = [file.path for file in signed if not sorter.sort_signed(file, {})]
    stale = sorted(path for path in sorter.comparison.entries if path not in layout.files)
    return sorter.build(tuple(stale), tuple(waiting))


def resolve_undecided(
    changes: Changes, layout: Layout, rendered: Mapping[str, RenderedDigest]
) -> Changes:
    """`changes` with nothing undecided; all of its `render` must be rendered."""
    sorter = _ChangeSorter(changes.comparison)
    sorter.causes.update(changes.causes)
    sorter.kept.update(changes.kept)
    sorter.restat.update(changes.restat)
    sorter.recipes.update(changes.recipes)
    for path in changes.undecided:
        if not sorter.sort_signed(layout.files[path], rendered):
            raise ValueError(f"a payload beside {path} was not rendered")
    return sorter.build(changes.stale, ())


def _comparison(
    manifest: Manifest | None,
    stats: Mapping[str, FileStat],
    hashes: Mapping[str, str],
    stamped: Collection[str] = (),
) -> Comparison:
    return Comparison(manifest.files if manifest is not None else {}, stats, hashes, stamped)


@dataclass(slots=True)
class _ChangeSorter:
    """Builder of `Changes`."""

    comparison: Comparison
    causes: dict[str, ChangeCause] = field(default_factory=dict)
    kept: dict[str, ManifestEntry] = field(default_factory=dict)
    restat: set[str] = field(default_factory=set)
    recipes: dict[str, tuple[RenderRecipe, str]] = field(default_factory=dict)

    def sort_all(self, files: Iterable[LayoutFile]) -> list[LayoutFile]:
        """Sort the files; return those that depend on payloads, which are sorted later."""
        entries, stats, kept = self.comparison.entries, self.comparison.stats, self.kept
        signed = []
        for file in files:
            path = file.path
            entry = entries.get(path)
            if file.payloads:
                signed.append(file)
            elif (
                # Nearly all files of nearly all syncs: nothing differs.
                entry is not None
                and entry.stat is not None
                and entry.blob == file.blob
                and entry.recipe == file.recipe_id
                and entry.stat == stats.get(path)
            ):
                kept[path] = entry
            else:
                self.sort(file)
        return signed

    def sort(self, file: LayoutFile, recipe_id: str | None = None) -> None:
        path = file.path
        desired_recipe = file.recipe_id if recipe_id is None else recipe_id
        verdict = self.comparison.verdict(file, desired_recipe)
        if verdict != "kept" and verdict != "restat":
            self.causes[path] = verdict
            return
        self.kept[path] = self.comparison.entries[path]
        if verdict == "restat":
            self.restat.add(path)

    def sort_signed(self, file: LayoutFile, rendered: Mapping[str, RenderedDigest]) -> bool:
        """Sort a resource.json; return False if one of its payloads is not rendered yet."""
        payloads = [rendered.get(path) or self.kept.get(path) for path in file.payloads]
        if None in payloads:
            return False
        # No payload was changed by its recipe: the signature is still valid.
        if not any(payload.transforms for payload in payloads if payload is not None):
            self.sort(file)
            return True
        recipe, recipe_id = file_renderer.drop_signature(file.recipe)
        self.recipes[file.path] = recipe, recipe_id
        self.sort(file, recipe_id)
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
