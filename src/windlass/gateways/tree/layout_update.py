"""Updates a layout to another commit that differs in a few files.

The result equals a newly built layout, at the cost of the edits. That holds while an edit only
changes the content of a planned file, or adds or removes one. Whatever could have a wider effect (a
mapping that gains or loses its source, a path that two mappings lead to, a skipped path, a patch
without a file, a name that is refused) is not judged here: the result is then None, and the caller
builds the whole layout again.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from windlass.gateways.render.file_renderer import GatewayRecipes, MappingRecipes
from windlass.gateways.render.template import TemplateVariables
from windlass.gateways.tree import file_policy, path_rules
from windlass.gateways.tree.file_policy import Caps, ListedFile
from windlass.gateways.tree.layout import Layout, LayoutFile, sort_files
from windlass.gateways.tree.mapping import PROJECTS, RESOURCES, PathMapping
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.selection import GatewaySelection


class FileEdit(Protocol):
    """A file of the repository before and after a commit; None if it does not exist."""

    @property
    def before(self) -> ListedFile | None: ...

    @property
    def after(self) -> ListedFile | None: ...


FileEdits: TypeAlias = Mapping[str, FileEdit]


@dataclass(frozen=True, slots=True)
class LayoutInputs:
    """The inputs of a layout apart from the commit's files; an update needs equal ones."""

    mappings: tuple[PathMapping, ...]
    excludes: tuple[str, ...]
    recipes: GatewayRecipes
    service_path: str | None
    caps: Caps


def layout_inputs(selection: GatewaySelection, caps: Caps) -> LayoutInputs:
    """The inputs of the layout for `selection`."""
    parts = selection.mappings, selection.excludes, selection.recipes
    return build_inputs(*parts, selection.service_path, caps)


def build_inputs(
    mappings: tuple[PathMapping, ...],
    excludes: tuple[str, ...],
    recipes: GatewayRecipes,
    service_path: str | None,
    caps: Caps,
) -> LayoutInputs:
    """The inputs; without templates they have no variables, which change with every commit."""
    if not any(mapping.template for mapping in mappings):
        recipes = replace(recipes, variables=TemplateVariables())
    return LayoutInputs(mappings, excludes, recipes, service_path, caps)


def update_layout(layout: Layout, inputs: LayoutInputs, edits: FileEdits) -> Layout | None:
    """`layout`, built from `inputs`, after `edits`; None if it has to be built again."""
    update = _LayoutUpdate(layout, inputs)
    if not all(update.apply(source, edit) for source, edit in edits.items()):
        return None
    return update.build()


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a mapping leads a source to; `name` is relative to the mapping's destination."""

    order: int
    mapping: PathMapping
    path: str
    name: str


class _LayoutUpdate:
    """A layout while edits are applied to it."""

    def __init__(self, layout: Layout, inputs: LayoutInputs) -> None:
        self._layout = layout
        self._inputs = inputs
        self._files = dict(layout.files)
        # Recipes by index of the mapping, computed when first needed.
        self._recipes: dict[int, MappingRecipes] = {}
        # Paths that edits added.
        self._added: set[str] = set()
        # Indexes of mappings that lost files.
        self._shrunk: set[int] = set()
        # A file of the repository was removed, mapped or not.
        self._lost_any = False

    def apply(self, source: str, edit: FileEdit) -> bool:
        """Apply one edit; False if it may affect more than its own path."""
        self._lost_any |= edit.after is None
        destinations = list(self._destinations(source))
        if not destinations:
            return not self._changes_collections(source, edit)
        return all(self._apply(destination, source, edit) for destination in destinations)

    def _apply(self, destination: _Destination, source: str, edit: FileEdit) -> bool:
        is_omitted = destination.name in destination.mapping.omits
        if edit.before is not None and edit.after is not None:
            return is_omitted or self._rewrite(destination, source, edit.after)
        if is_omitted or not self._is_simple(destination):
            return False
        if edit.after is not None:
            return self._add(destination, source, edit.after)
        return self._remove(destination, source)

    def build(self) -> Layout | None:
        if self._lost_any and not (self._is_service() and self._modes_exist()):
            return None
        if not self._added and not self._shrunk:
            return replace(self._layout, files=self._files)
        if not self._sources_remain() or not self._additions_pass():
            return None
        directories = path_rules.required_directories(self._files)
        if not directories.isdisjoint(self._files):
            return None
        files = sort_files(self._files, self._inputs.recipes.signature_policy)
        return replace(self._layout, files=files, directories=directories)

    def _destinations(self, source: str) -> Iterator[_Destination]:
        for order, mapping in enumerate(self._inputs.mappings):
            if source == mapping.source:
                name = path_rules.base_name(source) if mapping.into_directory else ""
                yield _Destination(order, mapping, path_rules.join(mapping.destination, name), "")
            elif path_rules.is_below(source, mapping.source):
                name = source[len(mapping.source) + 1 :] if mapping.source else source
                yield _Destination(order, mapping, path_rules.join(mapping.destination, name), name)

    def _rewrite(self, destination: _Destination, source: str, file: ListedFile) -> bool:
        if self._layout.is_off_limits(destination.path):
            return True
        if not file_policy.is_plain_file(file.mode) or not self._is_sole(destination, source):
            return False
        layout_file = self._files[destination.path]
        self._files[destination.path] = replace(layout_file, blob=file.blob, mode=file.mode)
        return True

    def _add(self, destination: _Destination, source: str, file: ListedFile) -> bool:
        path = destination.path
        is_taken = path in self._files or path in self._layout.directories
        if is_taken or any(folder in self._files for folder in path_rules.parents(path)):
            return False
        recipe, recipe_id = self._recipes_of(destination).recipe(path, destination.name)
        origin = destination.mapping.origin
        self._files[path] = LayoutFile(
            path, source, file.blob, file.mode, recipe, recipe_id, destination.order, origin
        )
        self._added.add(path)
        return True

    def _remove(self, destination: _Destination, source: str) -> bool:
        if not self._is_sole(destination, source):
            return False
        del self._files[destination.path]
        self._shrunk.add(destination.order)
        return True

    def _is_sole(self, destination: _Destination, source: str) -> bool:
        """Whether this source provides the path, and no other mapping leads to it."""
        layout_file = self._files.get(destination.path)
        if layout_file is None or destination.path in self._layout.contested:
            return False
        return layout_file.source == source and layout_file.order == destination.order

    def _is_simple(self, destination: _Destination) -> bool:
        """Whether one file more or less below this mapping changes nothing else."""
        mapping = destination.mapping
        if (
            self._layout.kinds[destination.order] != "dir"
            or not mapping.destination
            or mapping.patches
        ):
            return False
        return not self._layout.is_off_limits(
            destination.path
        ) and not path_rules.is_problematic_for_ignition(destination.path)

    def _sources_remain(self) -> bool:
        """Whether every mapping that lost files still has some, so its source still exists."""
        return self._shrunk.issubset(layout_file.order for layout_file in self._files.values())

    def _changes_collections(self, source: str, edit: FileEdit) -> bool:
        """Whether an unmapped collection may begin or end here, which would change a warning."""
        if self._inputs.service_path is None or None not in (edit.before, edit.after):
            return False
        resources = path_rules.join(path_rules.normalize(self._inputs.service_path), RESOURCES)
        return path_rules.is_below(source, resources)

    def _is_service(self) -> bool:
        """Whether the service directory is surely valid (MAP-4): its projects still exist."""
        if self._inputs.service_path is None:
            return True
        projects = path_rules.join(path_rules.normalize(self._inputs.service_path), PROJECTS)
        kinds = zip(self._inputs.mappings, self._layout.kinds, strict=True)
        return any(mapping.source == projects and kind == "dir" for mapping, kind in kinds)

    def _modes_exist(self) -> bool:
        """Whether no mode can have lost its directory: each has what its mapping maps."""
        kinds = zip(self._inputs.mappings, self._layout.kinds, strict=True)
        return all(not mapping.mode_directory or kind != "absent" for mapping, kind in kinds)

    def _additions_pass(self) -> bool:
        """Whether the added files pass the policy; if not, the whole layout reports the error."""
        try:
            file_policy.check_added_files(self._files, self._added, self._inputs.caps)
        except SyncRefused:
            return False
        return True

    def _recipes_of(self, destination: _Destination) -> MappingRecipes:
        recipes = self._recipes.get(destination.order)
        if recipes is None:
            recipes = self._recipes[destination.order] = self._inputs.recipes.for_mapping(
                destination.mapping
            )
        return recipes
