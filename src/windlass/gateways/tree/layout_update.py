"""Updates a layout to another commit that differs in a few files.

The result equals what building the whole layout would give, at the cost of the edits. That
holds while an edit says nothing but "this planned file has other content", "one more" or "one
less". Whatever could reach further (a mapping that gains or loses its source, a path that two
mappings lead to, a skipped path, a patch without a file, a name that is refused) is not judged
here: the answer is then None, and the whole layout is built again.

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
    """A file of the repository before and after; None = it was or is not there."""

    @property
    def before(self) -> ListedFile | None: ...

    @property
    def after(self) -> ListedFile | None: ...


FileEdits: TypeAlias = Mapping[str, FileEdit]


@dataclass(frozen=True, slots=True)
class LayoutInputs:
    """What a layout stands on apart from the commit's files; a renewal needs an equal one."""

    mappings: tuple[PathMapping, ...]
    excludes: tuple[str, ...]
    recipes: GatewayRecipes
    service_path: str | None
    caps: Caps


def layout_inputs(selection: GatewaySelection, caps: Caps) -> LayoutInputs:
    """What the layout for `selection` stands on."""
    chosen = selection.mappings, selection.excludes, selection.recipes
    return build_inputs(*chosen, selection.service_path, caps)


def build_inputs(
    mappings: tuple[PathMapping, ...],
    excludes: tuple[str, ...],
    recipes: GatewayRecipes,
    service_path: str | None,
    caps: Caps,
) -> LayoutInputs:
    """Variables count only where contents are templates: they name the commit."""
    if not any(mapping.template for mapping in mappings):
        recipes = replace(recipes, variables=TemplateVariables())
    return LayoutInputs(mappings, excludes, recipes, service_path, caps)


def update_layout(layout: Layout, basis: LayoutInputs, edits: FileEdits) -> Layout | None:
    """`layout`, which stands on `basis`, after `edits`; None where all must be laid out anew."""
    renewal = _LayoutUpdate(layout, basis)
    if not all(renewal.apply(source, edit) for source, edit in edits.items()):
        return None
    return renewal.build()


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a mapping leads a source to; `name` is its place in the destination."""

    order: int
    mapping: PathMapping
    path: str
    name: str


class _LayoutUpdate:
    """A layout while edits are made to it."""

    def __init__(self, layout: Layout, basis: LayoutInputs) -> None:
        self._layout = layout
        self._inputs = basis
        self._files = dict(layout.files)
        self._recipes: dict[int, MappingRecipes] = {}
        self._added: set[str] = set()
        self._shrunk: set[int] = set()
        self._lost_any = False

    def apply(self, source: str, edit: FileEdit) -> bool:
        """Make one edit; False where it reaches further than its own path."""
        self._lost_any |= edit.after is None
        places = list(self._destinations(source))
        if not places:
            return not self._changes_collections(source, edit)
        return all(self._apply(place, source, edit) for place in places)

    def _apply(self, place: _Destination, source: str, edit: FileEdit) -> bool:
        is_left_out = place.name in place.mapping.omits
        if edit.before is not None and edit.after is not None:
            return is_left_out or self._rewrite(place, source, edit.after)
        if is_left_out or not self._is_simple(place):
            return False
        if edit.after is not None:
            return self._add(place, source, edit.after)
        return self._remove(place, source)

    def build(self) -> Layout | None:
        if self._lost_any and not self._is_service():
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

    def _rewrite(self, place: _Destination, source: str, file: ListedFile) -> bool:
        if self._layout.is_off_limits(place.path):
            return True
        if not file_policy.is_plain_file(file.mode) or not self._is_sole(place, source):
            return False
        wanted = self._files[place.path]
        self._files[place.path] = replace(wanted, blob=file.blob, mode=file.mode)
        return True

    def _add(self, place: _Destination, source: str, file: ListedFile) -> bool:
        path = place.path
        taken = path in self._files or path in self._layout.directories
        if taken or any(folder in self._files for folder in path_rules.parents(path)):
            return False
        recipe, recipe_id = self._recipes_of(place).recipe(path, place.name)
        why = place.mapping.origin
        self._files[path] = LayoutFile(
            path, source, file.blob, file.mode, recipe, recipe_id, place.order, why
        )
        self._added.add(path)
        return True

    def _remove(self, place: _Destination, source: str) -> bool:
        if not self._is_sole(place, source):
            return False
        del self._files[place.path]
        self._shrunk.add(place.order)
        return True

    def _is_sole(self, place: _Destination, source: str) -> bool:
        """Whether the path is made of this source, and no other mapping leads to it."""
        wanted = self._files.get(place.path)
        if wanted is None or place.path in self._layout.contested:
            return False
        return wanted.source == source and wanted.order == place.order

    def _is_simple(self, place: _Destination) -> bool:
        """Whether one file more or less below this mapping changes nothing else."""
        mapping = place.mapping
        if self._layout.kinds[place.order] != "dir" or not mapping.destination or mapping.patches:
            return False
        return not self._layout.is_off_limits(
            place.path
        ) and not path_rules.is_problematic_for_ignition(place.path)

    def _sources_remain(self) -> bool:
        """Whether what lost files still has some, so that it is still a directory."""
        return self._shrunk.issubset(wanted.order for wanted in self._files.values())

    def _changes_collections(self, source: str, edit: FileEdit) -> bool:
        """Whether a collection that no mapping covers may begin or end here, which is warned of."""
        if self._inputs.service_path is None or None not in (edit.before, edit.after):
            return False
        resources = path_rules.join(path_rules.normalize(self._inputs.service_path), RESOURCES)
        return path_rules.is_below(source, resources)

    def _is_service(self) -> bool:
        """Whether the service directory is one (MAP-4), by its projects alone if need be."""
        if self._inputs.service_path is None:
            return True
        projects = path_rules.join(path_rules.normalize(self._inputs.service_path), PROJECTS)
        kinds = zip(self._inputs.mappings, self._layout.kinds, strict=True)
        return any(mapping.source == projects and kind == "dir" for mapping, kind in kinds)

    def _additions_pass(self) -> bool:
        """What is refused is refused by the whole layout, in its own words."""
        try:
            file_policy.check_added_files(self._files, self._added, self._inputs.caps)
        except SyncRefused:
            return False
        return True

    def _recipes_of(self, place: _Destination) -> MappingRecipes:
        known = self._recipes.get(place.order)
        if known is None:
            known = self._recipes[place.order] = self._inputs.recipes.for_mapping(place.mapping)
        return known
