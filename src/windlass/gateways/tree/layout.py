"""The layout: the desired tree of one gateway, computed from a commit's listing and mappings.

Built from names and blob ids alone; no content is read. A layout has each path once, with the
mapping that won it, and has no excluded, protected or unsafe paths: applying it cannot write one.
Equal inputs give equal layouts.

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
class LayoutFile:
    """One desired path: its source and how its content is rendered."""

    path: str  # relative to the data directory
    source: str  # path in the repository
    blob: str  # Git object id of the source
    mode: int  # Git mode of the source
    recipe: RenderRecipe | None  # None for a plain copy
    recipe_id: str  # empty for a plain copy
    order: int  # index of its mapping
    origin: str  # where users find the mapping
    # Siblings of a resource.json: if rendering changes one, its signature is invalid (NRM-7).
    payloads: tuple[str, ...] = ()


class SkippedFile(msgspec.Struct, frozen=True, order=True):
    """A mapped path that is not synced, and why."""

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
    """The tree a gateway should have below its managed roots."""

    # By path, in path order.
    files: dict[str, LayoutFile]
    # Managed directories and files, sorted.
    roots: tuple[ManagedRoot, ...]
    # Directories of mappings whose source is absent: not managed, but still mapped.
    vacant_roots: tuple[ManagedRoot, ...]
    # All directories that `files` need.
    directories: frozenset[str]
    # Patterns of paths that are neither written nor deleted on the gateway.
    excludes: GlobSet
    # Patterns of `excludes` that match nothing of the commit.
    unused_excludes: tuple[str, ...] = ()
    # Mapped paths that are not synced.
    skipped: tuple[SkippedFile, ...] = ()
    # For users.
    warnings: tuple[str, ...] = ()
    # Files that a later mapping replaced with other content.
    overrides: tuple[OverriddenFile, ...] = ()
    # Rendered system name; None if it is not normalized.
    system_name: str | None = None
    # What the source of each mapping is, in mapping order.
    kinds: tuple[SourceKind, ...] = ()
    # Paths that more than one mapping leads to.
    contested: frozenset[str] = frozenset()
    # Paths that an overlay of users omits and no mapping provides: live files there stay.
    omitted: frozenset[str] = frozenset()

    @property
    def managed_directories(self) -> frozenset[str]:
        return frozenset(root.path for root in self.roots if root.kind == "dir")

    def is_off_limits(self, path: str) -> bool:
        """Whether `path` is neither written nor deleted (PRO-2)."""
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
    """The layout of a commit; `service_path` is set for the convention only, and must exist."""
    tree = SourceTree(listing)
    builder, all_mappings = _LayoutBuilder(tree, GlobSet(excludes), recipes), tuple(mappings)
    if service_path is not None:
        service = path_rules.normalize(service_path)
        _check_service(tree, service)
        builder.warn(_unmapped_collections(tree, service, all_mappings))
    for order, mapping in enumerate(all_mappings):
        builder.add(order, mapping)
    return builder.build(caps)


def layout_for_selection(
    listing: abc.Mapping[str, ListedFile], selection: GatewaySelection, caps: Caps = DEFAULT_CAPS
) -> Layout:
    """The layout of a commit for the gateway of `selection`."""
    return build_layout(
        listing,
        selection.mappings,
        selection.excludes,
        selection.recipes,
        service_path=selection.service_path,
        caps=caps,
    )


def _check_service(tree: SourceTree, service: str) -> None:
    """Raise `SyncRefused` for a service directory without projects or resources (MAP-4)."""
    if any(tree.kind(path_rules.join(service, part)) == "dir" for part in (PROJECTS, RESOURCES)):
        return
    folder, annotation = service or ".", f"{ANNOTATION_PREFIX}service-path"
    if service and tree.kind(service) != "dir":
        nearby = tree.describe_nearby(service)
        message = f"{annotation}: directory {folder} not found in the commit; {nearby}"
    else:
        nearby = tree.describe_nearby(path_rules.join(service, PROJECTS))
        message = f"{annotation}: {folder} contains neither {PROJECTS} nor {RESOURCES}; {nearby}"
    raise SyncRefused("SourceMissing", folder, message)


def _unmapped_collections(
    tree: SourceTree, service: str, mappings: Sequence[PathMapping]
) -> Iterator[str]:
    """A warning that names the config collections of the service that no mapping leads to."""
    folder = path_rules.join(service, RESOURCES)
    collections = [name.rstrip("/") for name in tree.entries(folder) if name.endswith("/")]
    unmapped = [
        name for name in collections if not is_mapped(path_rules.join(folder, name), mappings)
    ]
    if unmapped:
        noun = "collection is" if len(unmapped) == 1 else "collections are"
        yield (
            f"{len(unmapped)} config {noun} not synced: {sample(unmapped)} in {folder}; select a "
            f"mode with {ANNOTATION_PREFIX}deployment-mode, or map other collections with "
            "additionalFiles or a profile"
        )


def is_mapped(source: str, mappings: Iterable[PathMapping]) -> bool:
    """Whether a mapping covers all of `source`."""
    return any(path_rules.is_below(source, mapping.source) for mapping in mappings)


def _mode_not_found(tree: SourceTree, directory: str) -> SyncRefused:
    """The refusal of a deployment mode without a directory; it lists the modes that exist."""
    folder, entries = path_rules.parent(directory), list(tree.entries(path_rules.parent(directory)))
    # A profile may also map one file per mode.
    names = [name.rstrip("/") for name in entries if name.endswith("/")] or entries
    modes = [name for name in names if name not in RESERVED_COLLECTIONS]
    return SyncRefused(
        "SourceMissing",
        directory,
        f"{ANNOTATION_PREFIX}deployment-mode: {path_rules.base_name(directory)} not found in "
        f"{folder or 'the repository root'}; available: {sample(modes) or 'no modes'}",
    )


@dataclass(frozen=True, slots=True)
class _MappingStep:
    """One mapping, its index in the list and its recipes."""

    order: int
    mapping: PathMapping
    recipes: MappingRecipes


class _LayoutBuilder:
    """Builder of a layout; mappings are added in order and later ones win."""

    def __init__(self, tree: SourceTree, excludes: GlobSet, recipes: GatewayRecipes) -> None:
        self._tree = tree
        self._excludes = excludes
        self._recipes = recipes
        # The fields of `Layout` as they grow; see there.
        self._files: dict[str, LayoutFile] = {}
        self._roots: set[ManagedRoot] = set()
        self._vacant: set[ManagedRoot] = set()
        # By path and source: two mappings may skip one path.
        self._skipped: dict[str, SkippedFile] = {}
        self._overrides: dict[str, OverriddenFile] = {}
        self._kinds: list[SourceKind] = []
        self._contested: set[str] = set()
        self._omitted: set[str] = set()
        # Paths that a pattern matched; the patterns that match none of them are unused.
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
                f"{mapping.origin}: {mapping.source or '.'} is a {kind} in the commit, but "
                f"the mapping has type {mapping.kind}",
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
                f"{path} is mapped as a file by {self._files[path].origin} and as a "
                "directory by another mapping; change one destination",
            )
        file_policy.check_files(self._files, caps)
        return Layout(
            files=sort_files(self._files, self._recipes.signature_policy),
            roots=tuple(sorted(self._roots)),
            vacant_roots=tuple(sorted(self._vacant - self._roots)),
            directories=directories,
            excludes=self._excludes,
            skipped=tuple(sorted(self._skipped.values())),
            # No pattern matches a planned path, so the excluded paths are enough.
            unused_excludes=self._excludes.unused(self._excluded),
            warnings=(*self._warnings, *path_rules.ignition_name_warnings(self._files)),
            overrides=tuple(sorted(self._overrides.values())),
            system_name=self._recipes.system_name,
            kinds=tuple(self._kinds),
            contested=frozenset(self._contested),
            omitted=frozenset(self._omitted.difference(self._files)),
        )

    def _handle_missing_source(self, mapping: PathMapping) -> None:
        directory = mapping.mode_directory
        if directory and self._tree.kind(directory) == "absent":
            # Without the overlay the gateway would run bare core, e.g. on the wrong database.
            raise _mode_not_found(self._tree, directory)
        if mapping.required:
            raise SyncRefused(
                "SourceMissing",
                mapping.source,
                f"{mapping.origin}: {mapping.source} not found in the commit; "
                f"{self._tree.describe_nearby(mapping.source)}",
            )
        self._skip(mapping.destination or ".", mapping.source, "source not found in the commit")
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
            elif mapping.warns_of_omits:
                self._omit(mapping, source, path)

    def _directory_roots(self, mapping: PathMapping) -> Iterator[ManagedRoot]:
        """The managed roots of a mapping; never the data directory itself (MAP-2, MAP-3)."""
        if mapping.destination:
            yield ManagedRoot(mapping.destination, "dir")
            return
        for name in self._tree.entries(mapping.source):
            path = name.rstrip("/")
            if path not in mapping.omits and not path_rules.is_protected(path):
                yield ManagedRoot(path, "dir" if name.endswith("/") else "file")

    def _add_path(self, step: _MappingStep, source: str, path: str, name: str) -> None:
        """Add `path`; `name` is relative to the destination, empty for a mapped file."""
        if path_rules.is_protected(path):
            self._skip(path, source, "protected path")
            return
        pattern = self._excludes.match(path)
        if pattern is not None:
            self._excluded.append(path)
            self._skip(path, source, f"excluded by {pattern}")
            return
        file = self._tree.listing[source]
        recipe, recipe_id = step.recipes.recipe(path, name)
        origin = step.mapping.origin
        self._set_file(
            LayoutFile(path, source, file.blob, file.mode, recipe, recipe_id, step.order, origin)
        )

    def _omit(self, mapping: PathMapping, source: str, path: str) -> None:
        self._omitted.add(path)
        # Other sources may provide the path, so a layout update must not judge an edit of it.
        self._contested.add(path)
        self._warnings.append(
            f"{mapping.origin}: {source} skipped: it would make core its own parent; if it "
            f"is core's own file, map it to {path}"
        )

    def _set_file(self, file: LayoutFile) -> None:
        loser = self._files.get(file.path)
        self._files[file.path] = file
        if loser is None:
            return
        self._contested.add(file.path)
        if (loser.blob, loser.recipe_id) != (file.blob, file.recipe_id):
            self._overrides[file.path] = OverriddenFile(file.path, file.source, loser.source)

    def _skip(self, path: str, source: str, why: str) -> None:
        self._skipped[f"{path}\0{source}"] = SkippedFile(path, source, why)


def sort_files(
    planned: abc.Mapping[str, LayoutFile], policy: SignaturePolicy
) -> dict[str, LayoutFile]:
    """The files in path order, every resource.json with the payloads in its directory."""
    files = {path: planned[path] for path in sorted(planned)}
    payloads_by_folder: dict[str, list[str]] = {}
    if policy != "keep":
        for path, file in files.items():
            if file.recipe is not None and not is_resource_file(path):
                payloads_by_folder.setdefault(path_rules.parent(path), []).append(path)
    for path, file in files.items():
        if is_resource_file(path):
            payloads = tuple(payloads_by_folder.get(path_rules.parent(path), ()))
            if payloads != file.payloads:
                files[path] = replace(file, payloads=payloads)
    return files
