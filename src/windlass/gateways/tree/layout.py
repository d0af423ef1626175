"""The desired tree of one gateway: what every path is made of, from a listing and mappings.

Built from names and blob ids alone; no content is read. A layout holds each path once, with
the mapping that won it, and is free of excluded, protected and unsafe paths: whoever applies it
cannot write one. Equal inputs give equal layouts.

Pure.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from windlass.gateways.render.file_renderer import (
    GatewayRecipes,
    MappingRecipes,
    RenderRecipe,
    SignaturePolicy,
    is_resource_file,
)
from windlass.gateways.tree import file_policy, path_rules
from windlass.gateways.tree.file_policy import DEFAULT_CAPS, Caps, ListedFile
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.manifest import ManagedRoot
from windlass.gateways.tree.mapping import (
    PROJECTS,
    RESERVED_COLLECTIONS,
    RESOURCES,
    PathMapping,
    SourceKind,
    SourceTree,
    sample,
)
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.selection import GatewaySelection
from windlass.gateways.wire.routing import ANNOTATION_PREFIX


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A file of a commit: its Git mode and the id of its content."""

    mode: int
    blob: str


@dataclass(frozen=True, slots=True)
class LayoutFile:
    """One path: its source and how the content is made of it.

    `recipe` is None for a plain copy, and `recipe_id` is then empty. `order` is the place
    of its mapping. `payloads` are the siblings whose alteration makes the signature in this
    resource.json a lie (NRM-7).
    """

    path: str
    source: str
    blob: str
    mode: int
    recipe: RenderRecipe | None
    recipe_id: str
    order: int
    origin: str
    payloads: tuple[str, ...] = ()


class SkippedFile(msgspec.Struct, frozen=True, order=True):
    """Something that is mapped and yet not brought over."""

    path: str
    source: str
    why: str


class OverriddenFile(msgspec.Struct, frozen=True, order=True):
    """A path that two mappings lead to, with different content (MAP-7)."""

    path: str
    winner: str
    loser: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The tree a gateway should have below its managed roots.

    `vacant` are directories a mapping still leads to although its source is absent: not
    managed, but not given up by a person either. `directories` are all those that `files`
    need. `excludes` also guards what lies on the gateway; `unused` are those of its patterns
    that match nothing of the commit. `kinds` tells what each mapping's source is, in order;
    `contested` are the paths that more than one mapping leads to. `left_out` are those that a
    profile's overlay leaves out and nothing else provides: what lies there stays.
    """

    files: dict[str, LayoutFile]
    roots: tuple[ManagedRoot, ...]
    vacant_roots: tuple[ManagedRoot, ...]
    directories: frozenset[str]
    excludes: GlobSet
    unused_excludes: tuple[str, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    warnings: tuple[str, ...] = ()
    overrides: tuple[OverriddenFile, ...] = ()
    system_name: str | None = None
    kinds: tuple[SourceKind, ...] = ()
    contested: frozenset[str] = frozenset()
    omitted: frozenset[str] = frozenset()

    @property
    def managed_directories(self) -> frozenset[str]:
        return frozenset(root.path for root in self.roots if root.kind == "dir")

    def is_off_limits(self, path: str) -> bool:
        """Whether `path` is out of bounds: neither written nor deleted (PRO-2)."""
        if path in self.omitted or path_rules.is_protected(path):
            return True
        return self.excludes.match(path) is not None


def build_layout(
    listing: abc.Mapping[str, ListedFile],
    mappings: Iterable[PathMapping],
    excludes: Sequence[str],
    recipes: GatewayRecipes,
    *,
    service_path: str | None = None,
    caps: Caps = DEFAULT_CAPS,
) -> Layout:
    """The layout of a commit; `service_path` is given for the convention, which demands it."""
    tree = SourceTree(listing)
    draft, mapped = _LayoutBuilder(tree, GlobSet(excludes), recipes), tuple(mappings)
    if service_path is not None:
        service = path_rules.normalize(service_path)
        _check_service(tree, service)
        draft.warn(_unmapped_collections(tree, service, mapped))
    for order, mapping in enumerate(mapped):
        draft.add(order, mapping)
    return draft.build(caps)


def layout_for_selection(
    listing: abc.Mapping[str, ListedFile], selection: GatewaySelection, caps: Caps = DEFAULT_CAPS
) -> Layout:
    """The layout of a commit for the gateway that `selection` speaks of."""
    return build_layout(
        listing,
        selection.mappings,
        selection.excludes,
        selection.recipes,
        service_path=selection.service_path,
        caps=caps,
    )


def _check_service(tree: SourceTree, service: str) -> None:
    """MAP-4: a service directory must be there and hold something a gateway can use."""
    if any(tree.kind(path_rules.join(service, part)) == "dir" for part in (PROJECTS, RESOURCES)):
        return
    shown, where = service or ".", f"{ANNOTATION_PREFIX}service-path"
    if service and tree.kind(service) != "dir":
        found = (
            f"{where}: {shown} is not a directory of the commit; {tree.describe_nearby(service)}"
        )
    else:
        inside = tree.describe_nearby(path_rules.join(service, PROJECTS))
        found = f"{where}: {shown} contains neither {PROJECTS} nor {RESOURCES}; {inside}"
    raise SyncRefused("SourceMissing", shown, found)


def _unmapped_collections(
    tree: SourceTree, service: str, mappings: Sequence[PathMapping]
) -> Iterator[str]:
    """A warning that names the config collections of the service that no mapping leads to."""
    folder = path_rules.join(service, RESOURCES)
    found = [name.rstrip("/") for name in tree.entries(folder) if name.endswith("/")]
    left = [name for name in found if not is_mapped(path_rules.join(folder, name), mappings)]
    if left:
        noun = "collection is" if len(left) == 1 else "collections are"
        yield (
            f"{len(left)} config {noun} not synced: {sample(left)} in {folder}; select a mode with "
            f"{ANNOTATION_PREFIX}deployment-mode, or map other collections with additionalFiles or "
            "a profile"
        )


def is_mapped(source: str, mappings: Iterable[PathMapping]) -> bool:
    """Whether a mapping brings all of `source` over."""
    return any(path_rules.is_below(source, mapping.source) for mapping in mappings)


def _mode_not_found(tree: SourceTree, mapping: PathMapping) -> SyncRefused:
    """The refusal of a deployment mode without a directory; it lists the modes that exist."""
    folder = path_rules.parent(mapping.source)
    found = (name.rstrip("/") for name in tree.entries(folder) if name.endswith("/"))
    modes = [name for name in found if name not in RESERVED_COLLECTIONS]
    return SyncRefused(
        "SourceMissing",
        mapping.source,
        f"{ANNOTATION_PREFIX}deployment-mode: {mapping.mode} not found in {folder}; "
        f"available: {sample(modes) or 'no modes'}",
    )


@dataclass(frozen=True, slots=True)
class _MappingStep:
    """One mapping at its place in the list."""

    order: int
    mapping: PathMapping
    recipes: MappingRecipes


class _LayoutBuilder:
    """A layout in the making; mappings are added in order and later ones win."""

    def __init__(self, tree: SourceTree, excludes: GlobSet, recipes: GatewayRecipes) -> None:
        self._tree = tree
        self._excludes = excludes
        self._recipes = recipes
        self._files: dict[str, LayoutFile] = {}
        self._roots: set[ManagedRoot] = set()
        self._vacant: set[ManagedRoot] = set()
        self._skipped: dict[str, SkippedFile] = {}
        self._overrides: dict[str, OverriddenFile] = {}
        self._kinds: list[SourceKind] = []
        self._contested: set[str] = set()
        self._omitted: set[str] = set()
        self._excluded: list[str] = []
        self._warnings: list[str] = []

    def warn(self, warnings: Iterable[str]) -> None:
        self._warnings.extend(warnings)

    def add(self, order: int, mapping: PathMapping) -> None:
        kind = self._tree.kind(mapping.source)
        self._kinds.append(kind)
        if kind == "absent":
            self._handle_missing_source(mapping)
            return
        if mapping.kind not in ("", kind):
            raise SyncRefused(
                "MappingTypeMismatch",
                mapping.source,
                f"{mapping.origin}: {mapping.source or '.'} is a {kind} in the commit, "
                f"the mapping says {mapping.kind}",
            )
        step = _MappingStep(order, mapping, self._recipes.for_mapping(mapping))
        if kind == "file":
            self._add_file(step)
        else:
            self._add_directory(step)
        self._warnings.extend(step.recipes.unmatched_warnings())

    def build(self, caps: Caps) -> Layout:
        directories = path_rules.required_directories(self._files)
        for path in sorted(directories.intersection(self._files)):
            raise SyncRefused(
                "MappingTypeMismatch",
                path,
                f"{path} is a file by {self._files[path].origin} and a directory by another "
                "mapping; change one destination",
            )
        file_policy.check_files(self._files, caps)
        return Layout(
            files=sort_files(self._files, self._recipes.signature_policy),
            roots=tuple(sorted(self._roots)),
            vacant_roots=tuple(sorted(self._vacant - self._roots)),
            directories=directories,
            excludes=self._excludes,
            skipped=tuple(sorted(self._skipped.values())),
            # What is planned is matched by no pattern, so only the excluded can tell.
            unused_excludes=self._excludes.unused(self._excluded),
            warnings=(*self._warnings, *path_rules.ignition_name_warnings(self._files)),
            overrides=tuple(sorted(self._overrides.values())),
            system_name=self._recipes.system_name,
            kinds=tuple(self._kinds),
            contested=frozenset(self._contested),
            omitted=frozenset(self._omitted.difference(self._files)),
        )

    def _handle_missing_source(self, mapping: PathMapping) -> None:
        if mapping.mode:
            # Without the overlay the gateway would run bare core, e.g. on the wrong database.
            raise _mode_not_found(self._tree, mapping)
        if mapping.required:
            raise SyncRefused(
                "SourceMissing",
                mapping.source,
                f"{mapping.origin}: {mapping.source} is not in the commit; "
                f"{self._tree.describe_nearby(mapping.source)}",
            )
        self._skip(mapping.destination or ".", mapping.source, "the source is not in the commit")
        if mapping.destination and mapping.kind != "file":
            self._vacant.add(ManagedRoot(mapping.destination, "dir"))

    def _add_file(self, step: _MappingStep) -> None:
        mapping = step.mapping
        name = path_rules.base_name(mapping.source)
        path = (
            path_rules.join(mapping.destination, name)
            if mapping.into_directory
            else mapping.destination
        )
        if not path_rules.is_protected(path):
            self._roots.add(ManagedRoot(path, "file"))
        self._add_path(step, mapping.source, path, "")

    def _add_directory(self, step: _MappingStep) -> None:
        mapping = step.mapping
        self._roots.update(self._directory_roots(mapping))
        for name in self._tree.files_below(mapping.source):
            source = path_rules.join(mapping.source, name)
            path = path_rules.join(mapping.destination, name)
            if name not in mapping.omits:
                self._add_path(step, source, path, name)
            elif not mapping.mode:
                # The convention says what a mode leaves out; in a profile it is unexpected.
                self._omit(mapping, source, path)

    def _directory_roots(self, mapping: PathMapping) -> Iterator[ManagedRoot]:
        """MAP-2, MAP-3: the data directory itself is never a root, only what is put there."""
        if mapping.destination:
            yield ManagedRoot(mapping.destination, "dir")
            return
        for name in self._tree.entries(mapping.source):
            path = name.rstrip("/")
            if path not in mapping.omits and not path_rules.is_protected(path):
                yield ManagedRoot(path, "dir" if name.endswith("/") else "file")

    def _add_path(self, step: _MappingStep, source: str, path: str, name: str) -> None:
        """Plan `path`; `name` is its place in the destination, empty for a mapped file."""
        if path_rules.is_protected(path):
            self._skip(path, source, "protected: it belongs to the gateway")
            return
        pattern = self._excludes.match(path)
        if pattern is not None:
            self._excluded.append(path)
            self._skip(path, source, f"excluded by {pattern}")
            return
        file = self._tree.listing[source]
        recipe, recipe_id = step.recipes.recipe(path, name)
        why = step.mapping.origin
        self._set_file(
            LayoutFile(path, source, file.blob, file.mode, recipe, recipe_id, step.order, why)
        )

    def _omit(self, mapping: PathMapping, source: str, path: str) -> None:
        self._omitted.add(path)
        # Other sources of the path decide what becomes of it, so no edit of one is simple.
        self._contested.add(path)
        self._warnings.append(
            f"{mapping.origin}: {source} is left out: core would become its own parent; "
            f"if it is core's own file, map it onto {path}"
        )

    def _set_file(self, wanted: LayoutFile) -> None:
        loser = self._files.get(wanted.path)
        self._files[wanted.path] = wanted
        if loser is None:
            return
        self._contested.add(wanted.path)
        if (loser.blob, loser.recipe_id) != (wanted.blob, wanted.recipe_id):
            self._overrides[wanted.path] = OverriddenFile(wanted.path, wanted.source, loser.source)

    def _skip(self, path: str, source: str, why: str) -> None:
        self._skipped[f"{path}\0{source}"] = SkippedFile(path, source, why)


def sort_files(
    planned: abc.Mapping[str, LayoutFile], policy: SignaturePolicy
) -> dict[str, LayoutFile]:
    """The files in path order, every resource.json knowing the payloads beside it."""
    files = {path: planned[path] for path in sorted(planned)}
    beside: dict[str, list[str]] = {}
    if policy != "keep":
        for path, wanted in files.items():
            if wanted.recipe is not None and not is_resource_file(path):
                beside.setdefault(path_rules.parent(path), []).append(path)
    for path, wanted in files.items():
        if is_resource_file(path):
            payloads = tuple(beside.get(path_rules.parent(path), ()))
            if payloads != wanted.payloads:
                files[path] = replace(wanted, payloads=payloads)
    return files
