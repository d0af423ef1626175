"""The layout of a commit, made of the layout of another one that differs in a few files.

The result equals what laying out the whole commit would give, at the cost of the edits.
That holds while an edit says nothing but "this planned file has other content", "one more"
or "one less". Whatever could reach further (a mapping that gains or loses its source, a
path that two mappings lead to, a skipped path, a patch without a file, a name that is
refused) is not judged here: the answer is then None, and everything is laid out anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from windlass.gateways.decide import disliked, paths, policing
from windlass.gateways.decide.layout import Layout, Wanted, in_order
from windlass.gateways.decide.mapping import PROJECTS, RESOURCES
from windlass.gateways.decide.mapping import Mapping as Mapped
from windlass.gateways.decide.policing import Caps, ListedFile
from windlass.gateways.decide.recipes import MappingRecipes, Recipes
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.selection import Selection
from windlass.gateways.decide.variables import Variables


class Edit(Protocol):
    """A file of the repository before and after; None = it was or is not there."""

    @property
    def before(self) -> ListedFile | None: ...

    @property
    def after(self) -> ListedFile | None: ...


Edits: TypeAlias = Mapping[str, Edit]


@dataclass(frozen=True, slots=True)
class Foundation:
    """What a layout stands on apart from the commit's files; a renewal needs an equal one."""

    mappings: tuple[Mapped, ...]
    excludes: tuple[str, ...]
    recipes: Recipes
    service_path: str | None
    caps: Caps


def foundation(selection: Selection, caps: Caps) -> Foundation:
    """What the layout for `selection` stands on."""
    chosen = selection.mappings, selection.excludes, selection.recipes
    return on(*chosen, selection.service_path, caps)


def on(
    mappings: tuple[Mapped, ...],
    excludes: tuple[str, ...],
    recipes: Recipes,
    service_path: str | None,
    caps: Caps,
) -> Foundation:
    """Variables count only where contents are templates: they name the commit."""
    if not any(mapping.template for mapping in mappings):
        recipes = replace(recipes, variables=Variables())
    return Foundation(mappings, excludes, recipes, service_path, caps)


def renewed(layout: Layout, basis: Foundation, edits: Edits) -> Layout | None:
    """`layout`, which stands on `basis`, after `edits`; None where all must be laid out anew."""
    renewal = _Renewal(layout, basis)
    if not all(renewal.takes(source, edit) for source, edit in edits.items()):
        return None
    return renewal.finished()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a mapping leads a source to; `name` is its place in the destination."""

    order: int
    mapping: Mapped
    path: str
    name: str


class _Renewal:
    """A layout while edits are made to it."""

    def __init__(self, layout: Layout, basis: Foundation) -> None:
        self._layout = layout
        self._basis = basis
        self._files = dict(layout.files)
        self._recipes: dict[int, MappingRecipes] = {}
        self._added: set[str] = set()
        self._shrunk: set[int] = set()
        self._lost_any = False

    def takes(self, source: str, edit: Edit) -> bool:
        """Make one edit; False where it reaches further than its own path."""
        self._lost_any |= edit.after is None
        places = list(self._places(source))
        if not places:
            return not self._changes_collections(source, edit)
        return all(self._takes(place, source, edit) for place in places)

    def _takes(self, place: _Place, source: str, edit: Edit) -> bool:
        is_left_out = place.name in place.mapping.leaves_out
        if edit.before is not None and edit.after is not None:
            return is_left_out or self._rewrite(place, source, edit.after)
        if is_left_out or not self._is_simple(place):
            return False
        if edit.after is not None:
            return self._add(place, source, edit.after)
        return self._remove(place, source)

    def finished(self) -> Layout | None:
        if self._lost_any and not self._is_service():
            return None
        if not self._added and not self._shrunk:
            return replace(self._layout, files=self._files)
        if not self._sources_stay() or not self._additions_pass():
            return None
        directories = paths.all_parents(self._files)
        if not directories.isdisjoint(self._files):
            return None
        files = in_order(self._files, self._basis.recipes.signature_policy)
        return replace(self._layout, files=files, directories=directories)

    def _places(self, source: str) -> Iterator[_Place]:
        for order, mapping in enumerate(self._basis.mappings):
            if source == mapping.source:
                name = paths.base(source) if mapping.into else ""
                yield _Place(order, mapping, paths.joined(mapping.destination, name), "")
            elif paths.is_below(source, mapping.source):
                name = source[len(mapping.source) + 1 :] if mapping.source else source
                yield _Place(order, mapping, paths.joined(mapping.destination, name), name)

    def _rewrite(self, place: _Place, source: str, file: ListedFile) -> bool:
        if self._layout.spares(place.path):
            return True
        if not policing.is_plain(file.mode) or not self._is_sole(place, source):
            return False
        wanted = self._files[place.path]
        self._files[place.path] = replace(wanted, blob=file.blob, mode=file.mode)
        return True

    def _add(self, place: _Place, source: str, file: ListedFile) -> bool:
        path = place.path
        taken = path in self._files or path in self._layout.directories
        if taken or any(folder in self._files for folder in paths.parents(path)):
            return False
        recipe, recipe_id = self._recipes_of(place).recipe(path, place.name)
        why = place.mapping.origin
        self._files[path] = Wanted(
            path, source, file.blob, file.mode, recipe, recipe_id, place.order, why
        )
        self._added.add(path)
        return True

    def _remove(self, place: _Place, source: str) -> bool:
        if not self._is_sole(place, source):
            return False
        del self._files[place.path]
        self._shrunk.add(place.order)
        return True

    def _is_sole(self, place: _Place, source: str) -> bool:
        """Whether the path is made of this source, and no other mapping leads to it."""
        wanted = self._files.get(place.path)
        if wanted is None or place.path in self._layout.contested:
            return False
        return wanted.source == source and wanted.order == place.order

    def _is_simple(self, place: _Place) -> bool:
        """Whether one file more or less below this mapping changes nothing else."""
        mapping = place.mapping
        if self._layout.kinds[place.order] != "dir" or not mapping.destination or mapping.patches:
            return False
        return not self._layout.spares(place.path) and not disliked.is_disliked(place.path)

    def _sources_stay(self) -> bool:
        """Whether what lost files still has some, so that it is still a directory."""
        return self._shrunk.issubset(wanted.order for wanted in self._files.values())

    def _changes_collections(self, source: str, edit: Edit) -> bool:
        """Whether a collection that no mapping covers may begin or end here, which is warned of."""
        if self._basis.service_path is None or None not in (edit.before, edit.after):
            return False
        resources = paths.joined(paths.normalised(self._basis.service_path), RESOURCES)
        return paths.is_below(source, resources)

    def _is_service(self) -> bool:
        """Whether the service directory is one (MAP-4), by its projects alone if need be."""
        if self._basis.service_path is None:
            return True
        projects = paths.joined(paths.normalised(self._basis.service_path), PROJECTS)
        kinds = zip(self._basis.mappings, self._layout.kinds, strict=True)
        return any(mapping.source == projects and kind == "dir" for mapping, kind in kinds)

    def _additions_pass(self) -> bool:
        """What is refused is refused by the whole layout, in its own words."""
        try:
            policing.check_added(self._files, self._added, self._basis.caps)
        except Refused:
            return False
        return True

    def _recipes_of(self, place: _Place) -> MappingRecipes:
        known = self._recipes.get(place.order)
        if known is None:
            known = self._recipes[place.order] = self._basis.recipes.of(place.mapping)
        return known
