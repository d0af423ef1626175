"""What every path on a gateway should be made of, from a commit's listing and mappings.

Nothing is read here but names and ids. A layout holds each path once, with the mapping
that won it, and is free of excluded, protected and unsafe paths: whoever carries it out
cannot write one. Equal inputs give equal layouts.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from windlass.gateways.decide import disliked, paths, policing, protected
from windlass.gateways.decide.globs import Globs
from windlass.gateways.decide.manifest import Root
from windlass.gateways.decide.mapping import PROJECTS, RESERVED_COLLECTIONS, RESOURCES, Mapping
from windlass.gateways.decide.policing import DEFAULT_CAPS, Caps, ListedFile
from windlass.gateways.decide.recipes import MappingRecipes, Recipes
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.rendering import Recipe, SignaturePolicy, is_resource
from windlass.gateways.decide.routing import PREFIX
from windlass.gateways.decide.selection import Selection
from windlass.gateways.decide.source_tree import Kind, SourceTree, listed


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a commit: its Git mode and the id of its content."""

    mode: int
    blob: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One path: its source and how the content is made of it.

    `recipe` is None for a plain copy, and `recipe_id` is then empty. `order` is the place
    of its mapping. `payloads` are the siblings whose alteration makes the signature in this
    resource.json a lie (NRM-7).
    """

    path: str
    source: str
    blob: str
    mode: int
    recipe: Recipe | None
    recipe_id: str
    order: int
    why: str
    payloads: tuple[str, ...] = ()


class Skipped(msgspec.Struct, frozen=True, order=True):
    """Something that is mapped and yet not brought over."""

    path: str
    source: str
    why: str


class Override(msgspec.Struct, frozen=True, order=True):
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

    files: dict[str, Wanted]
    roots: tuple[Root, ...]
    vacant: tuple[Root, ...]
    directories: frozenset[str]
    excludes: Globs
    unused: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    system_name: str | None = None
    kinds: tuple[Kind, ...] = ()
    contested: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()

    @property
    def managed_directories(self) -> frozenset[str]:
        return frozenset(root.path for root in self.roots if root.kind == "dir")

    def spares(self, path: str) -> bool:
        """Whether `path` is out of bounds: neither written nor deleted (PRO-2)."""
        if path in self.left_out or protected.is_protected(path):
            return True
        return self.excludes.match(path) is not None


def lay_out(
    listing: abc.Mapping[str, ListedFile],
    mappings: Iterable[Mapping],
    excludes: Sequence[str],
    recipes: Recipes,
    *,
    service_path: str | None = None,
    caps: Caps = DEFAULT_CAPS,
) -> Layout:
    """The layout of a commit; `service_path` is given for the convention, which demands it."""
    tree = SourceTree(listing)
    draft, mapped = _Draft(tree, Globs(excludes), recipes), tuple(mappings)
    if service_path is not None:
        service = paths.normalised(service_path)
        _check_service(tree, service)
        draft.warn(_uncovered(tree, service, mapped))
    for order, mapping in enumerate(mapped):
        draft.add(order, mapping)
    return draft.finished(caps)


def of_selection(
    listing: abc.Mapping[str, ListedFile], selection: Selection, caps: Caps = DEFAULT_CAPS
) -> Layout:
    """The layout of a commit for the gateway that `selection` speaks of."""
    return lay_out(
        listing,
        selection.mappings,
        selection.excludes,
        selection.recipes,
        service_path=selection.service_path,
        caps=caps,
    )


def _check_service(tree: SourceTree, service: str) -> None:
    """MAP-4: a service directory must be there and hold something a gateway can use."""
    if any(tree.kind(paths.joined(service, part)) == "dir" for part in (PROJECTS, RESOURCES)):
        return
    shown, where = service or ".", f"{PREFIX}service-path"
    if service and tree.kind(service) != "dir":
        found = f"{where}: {shown} is not a directory of the commit; {tree.around(service)}"
    else:
        inside = tree.around(paths.joined(service, PROJECTS))
        found = f"{where}: {shown} contains neither {PROJECTS} nor {RESOURCES}; {inside}"
    raise Refused("SourceMissing", shown, found)


def _uncovered(tree: SourceTree, service: str, mappings: Sequence[Mapping]) -> Iterator[str]:
    """A warning that names the config collections of the service that no mapping leads to."""
    folder = paths.joined(service, RESOURCES)
    found = [name.rstrip("/") for name in tree.entries(folder) if name.endswith("/")]
    left = [name for name in found if not is_covered(paths.joined(folder, name), mappings)]
    if left:
        noun = "collection is" if len(left) == 1 else "collections are"
        yield (
            f"{len(left)} config {noun} not synced: {listed(left)} in {folder}; select a mode with "
            f"{PREFIX}deployment-mode, or map other collections with additionalFiles or a profile"
        )


def is_covered(source: str, mappings: Iterable[Mapping]) -> bool:
    """Whether a mapping brings all of `source` over."""
    return any(paths.is_below(source, mapping.source) for mapping in mappings)


def _no_mode(tree: SourceTree, mapping: Mapping) -> Refused:
    """The refusal of a deployment mode without a directory; it lists the modes that exist."""
    folder = paths.parent(mapping.source)
    found = (name.rstrip("/") for name in tree.entries(folder) if name.endswith("/"))
    modes = [name for name in found if name not in RESERVED_COLLECTIONS]
    return Refused(
        "SourceMissing",
        mapping.source,
        f"{PREFIX}deployment-mode: {mapping.mode} not found in {folder}; "
        f"available: {listed(modes) or 'no modes'}",
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """One mapping at its place in the list."""

    order: int
    mapping: Mapping
    recipes: MappingRecipes


class _Draft:
    """A layout in the making; mappings are added in order and later ones win."""

    def __init__(self, tree: SourceTree, excludes: Globs, recipes: Recipes) -> None:
        self._tree = tree
        self._excludes = excludes
        self._recipes = recipes
        self._files: dict[str, Wanted] = {}
        self._roots: set[Root] = set()
        self._vacant: set[Root] = set()
        self._skipped: dict[str, Skipped] = {}
        self._overrides: dict[str, Override] = {}
        self._kinds: list[Kind] = []
        self._contested: set[str] = set()
        self._left_out: set[str] = set()
        self._excluded: list[str] = []
        self._warnings: list[str] = []

    def warn(self, warnings: Iterable[str]) -> None:
        self._warnings.extend(warnings)

    def add(self, order: int, mapping: Mapping) -> None:
        kind = self._tree.kind(mapping.source)
        self._kinds.append(kind)
        if kind == "absent":
            self._miss(mapping)
            return
        if mapping.kind not in ("", kind):
            raise Refused(
                "MappingTypeMismatch",
                mapping.source,
                f"{mapping.origin}: {mapping.source or '.'} is a {kind} in the commit, "
                f"the mapping says {mapping.kind}",
            )
        step = _Step(order, mapping, self._recipes.of(mapping))
        if kind == "file":
            self._add_file(step)
        else:
            self._add_directory(step)
        self._warnings.extend(step.recipes.unmatched())

    def finished(self, caps: Caps) -> Layout:
        directories = paths.all_parents(self._files)
        for path in sorted(directories.intersection(self._files)):
            raise Refused(
                "MappingTypeMismatch",
                path,
                f"{path} is a file by {self._files[path].why} and a directory by another mapping; "
                "change one destination",
            )
        policing.check(self._files, caps)
        return Layout(
            files=in_order(self._files, self._recipes.signature_policy),
            roots=tuple(sorted(self._roots)),
            vacant=tuple(sorted(self._vacant - self._roots)),
            directories=directories,
            excludes=self._excludes,
            skipped=tuple(sorted(self._skipped.values())),
            # What is planned is matched by no pattern, so only the excluded can tell.
            unused=self._excludes.unused(self._excluded),
            warnings=(*self._warnings, *disliked.warnings(self._files)),
            overrides=tuple(sorted(self._overrides.values())),
            system_name=self._recipes.system_name,
            kinds=tuple(self._kinds),
            contested=frozenset(self._contested),
            left_out=frozenset(self._left_out.difference(self._files)),
        )

    def _miss(self, mapping: Mapping) -> None:
        if mapping.mode:
            # Without the overlay the gateway would run bare core, e.g. on the wrong database.
            raise _no_mode(self._tree, mapping)
        if mapping.required:
            raise Refused(
                "SourceMissing",
                mapping.source,
                f"{mapping.origin}: {mapping.source} is not in the commit; "
                f"{self._tree.around(mapping.source)}",
            )
        self._skip(mapping.destination or ".", mapping.source, "the source is not in the commit")
        if mapping.destination and mapping.kind != "file":
            self._vacant.add(Root(mapping.destination, "dir"))

    def _add_file(self, step: _Step) -> None:
        mapping = step.mapping
        name = paths.base(mapping.source)
        path = paths.joined(mapping.destination, name) if mapping.into else mapping.destination
        if not protected.is_protected(path):
            self._roots.add(Root(path, "file"))
        self._place(step, mapping.source, path, "")

    def _add_directory(self, step: _Step) -> None:
        mapping = step.mapping
        self._roots.update(self._directory_roots(mapping))
        for name in self._tree.below(mapping.source):
            source = paths.joined(mapping.source, name)
            path = paths.joined(mapping.destination, name)
            if name not in mapping.leaves_out:
                self._place(step, source, path, name)
            elif not mapping.mode:
                # The convention says what a mode leaves out; in a profile it is unexpected.
                self._leave_out(mapping, source, path)

    def _directory_roots(self, mapping: Mapping) -> Iterator[Root]:
        """MAP-2, MAP-3: the data directory itself is never a root, only what is put there."""
        if mapping.destination:
            yield Root(mapping.destination, "dir")
            return
        for name in self._tree.entries(mapping.source):
            path = name.rstrip("/")
            if path not in mapping.leaves_out and not protected.is_protected(path):
                yield Root(path, "dir" if name.endswith("/") else "file")

    def _place(self, step: _Step, source: str, path: str, name: str) -> None:
        """Plan `path`; `name` is its place in the destination, empty for a mapped file."""
        if protected.is_protected(path):
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
        self._win(Wanted(path, source, file.blob, file.mode, recipe, recipe_id, step.order, why))

    def _leave_out(self, mapping: Mapping, source: str, path: str) -> None:
        self._left_out.add(path)
        # Other sources of the path decide what becomes of it, so no edit of one is simple.
        self._contested.add(path)
        self._warnings.append(
            f"{mapping.origin}: {source} is left out: core would become its own parent; "
            f"if it is core's own file, map it onto {path}"
        )

    def _win(self, wanted: Wanted) -> None:
        loser = self._files.get(wanted.path)
        self._files[wanted.path] = wanted
        if loser is None:
            return
        self._contested.add(wanted.path)
        if (loser.blob, loser.recipe_id) != (wanted.blob, wanted.recipe_id):
            self._overrides[wanted.path] = Override(wanted.path, wanted.source, loser.source)

    def _skip(self, path: str, source: str, why: str) -> None:
        self._skipped[f"{path}\0{source}"] = Skipped(path, source, why)


def in_order(planned: abc.Mapping[str, Wanted], policy: SignaturePolicy) -> dict[str, Wanted]:
    """The files in path order, every resource.json knowing the payloads beside it."""
    files = {path: planned[path] for path in sorted(planned)}
    beside: dict[str, list[str]] = {}
    if policy != "keep":
        for path, wanted in files.items():
            if wanted.recipe is not None and not is_resource(path):
                beside.setdefault(paths.parent(path), []).append(path)
    for path, wanted in files.items():
        if is_resource(path):
            payloads = tuple(beside.get(paths.parent(path), ()))
            if payloads != wanted.payloads:
                files[path] = replace(wanted, payloads=payloads)
    return files
