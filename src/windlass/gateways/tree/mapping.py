"""Path mappings from a commit to the data directory (MAP-1), and the tree of a commit's files.

The convention and profiles compile to the same ordered list, so there is one engine to prove.
Later mappings win file by file, directories merge. Sources are normalized and relative to the
repository, destinations relative to the data directory; both passed V6 after their templates
were rendered. No mapping leads to a protected path.

Git lists files only; a directory of a `SourceTree` exists because it has a file. Lookups are
binary searches, so the cost of a mapping depends on its files and not on the repository.

Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windlass.gateways.render import template
from windlass.gateways.tree import path_rules
from windlass.gateways.tree.file_policy import ListedFile
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import PatchSet, RoutingFile, RoutingMapping, RoutingProfile

MappingKind: TypeAlias = Literal["dir", "file", ""]
Render: TypeAlias = Callable[[str, str], str]
"""Renders the templates in a text; the first argument names the field of the text."""

PROJECTS = "projects"
RESOURCES = "config/resources"
CORE = f"{RESOURCES}/core"
EXTERNAL = f"{RESOURCES}/external"
MODE_FILE = "config-mode.json"
# Collections with a special meaning to the gateway or to the convention.
RESERVED_COLLECTIONS = frozenset(("core", "external", "local", "system"))


@dataclass(frozen=True, slots=True)
class PathMapping:
    """One source and its destination."""

    source: str  # in the repository, normalized
    destination: str  # in the data directory, normalized; empty is the directory itself
    kind: MappingKind = ""  # demanded kind of the source; empty for any
    required: bool = False  # refuse the sync if the source is absent
    template: bool = False  # contents are templates
    patches: tuple[PatchSet, ...] = ()  # for JSON files, in order
    origin: str = ""  # where users find the mapping, for messages
    into_directory: bool = False  # destination `a/` or `.`: a file keeps its own name in it
    omits: frozenset[str] = frozenset()  # paths relative to the source that are not mapped
    warns_of_omits: bool = True  # false where the convention documents what it omits
    mode_directory: str = ""  # directory of the deployment mode, which must exist; empty for none


@dataclass(frozen=True, slots=True)
class Convention:
    """The inputs of the convention: one service directory, its mode, and single files."""

    service_path: str
    deployment_mode: str = ""
    mode_layout: Literal["overlay", "native"] = "overlay"
    additional_files: tuple[RoutingFile, ...] = ()
    protected_paths: tuple[str, ...] = ()


def convention_mappings(
    inputs: Convention, render: Render | None = None
) -> tuple[PathMapping, ...]:
    """The mappings of the convention, in the order of the table of MAP-1.

    `render` is for the templates in the paths of additional files; without it they are refused.
    """
    service = _normalize_path("service-path", "UnsafePath", inputs.service_path)
    rows = [
        _convention_mapping(service, PROJECTS, PROJECTS),
        _convention_mapping(service, CORE, CORE),
        *_mode_mappings(service, inputs.deployment_mode, inputs.mode_layout),
        _convention_mapping(service, EXTERNAL, EXTERNAL),
    ]
    mappings = (*rows, *_additional_mappings(inputs.additional_files, render or _reject_templates))
    return _check_destinations(mappings, inputs.protected_paths)


def profile_mappings(
    name: str, profile: RoutingProfile, render: Render, protected_paths: tuple[str, ...] = ()
) -> tuple[PathMapping, ...]:
    """The mappings of a profile, with `render` for the templates in its paths."""
    mappings = (
        _profile_mapping(f"profiles.{name}.mappings[{index}]", spec, render)
        for index, spec in enumerate(profile.mappings)
    )
    return _check_destinations(mappings, protected_paths)


def _convention_mapping(service: str, source: str, destination: str) -> PathMapping:
    whole = path_rules.join(service, source)
    return PathMapping(whole, destination, kind="dir", origin=whole)


def _mode_mappings(
    service: str, mode: str, layout: Literal["overlay", "native"]
) -> Iterable[PathMapping]:
    if not mode:
        return
    whole = path_rules.join(service, f"{RESOURCES}/{mode}")
    if layout == "native":
        destination = _check_destination("deployment-mode", f"{RESOURCES}/{mode}")
        yield PathMapping(whole, destination, "dir", origin=whole, mode_directory=whole)
        return
    # The mode's collection file names core as its parent; in core it would name itself.
    yield PathMapping(
        whole,
        CORE,
        "dir",
        origin=whole,
        omits=frozenset((MODE_FILE,)),
        warns_of_omits=False,
        mode_directory=whole,
    )


def _additional_mappings(files: Iterable[RoutingFile], render: Render) -> Iterable[PathMapping]:
    for index, file in enumerate(files):
        origin = f"additionalFiles[{index}]"
        source = _render_source(origin, file.source, render)
        dest = render(f"{origin}.dest", file.dest)
        yield PathMapping(
            source,
            _check_destination(f"{origin}.dest", dest),
            kind=file.type,
            origin=origin,
            into_directory=path_rules.names_directory(dest),
            omits=_omitted_files(source, dest),
        )


def _profile_mapping(origin: str, spec: RoutingMapping, render: Render) -> PathMapping:
    source = _render_source(origin, spec.source, render)
    destination = render(f"{origin}.destination", spec.destination)
    return PathMapping(
        source,
        _check_destination(f"{origin}.destination", destination),
        kind=spec.type,
        required=spec.required,
        template=spec.template,
        patches=tuple(_render_patches(origin, spec.patches, render)),
        origin=origin,
        into_directory=path_rules.names_directory(destination),
        omits=_omitted_files(source, destination),
        mode_directory=_mode_directory(origin, spec.source, source, render),
    )


def _render_source(origin: str, text: str, render: Render) -> str:
    where = f"{origin}.source"
    return _normalize_path(where, "ProfilesInvalid", render(where, text))


def _mode_directory(origin: str, text: str, source: str, render: Render) -> str:
    """The part of `source` that the deployment mode names; empty if its template uses no mode.

    A mode may lack what lies deeper, for example its own projects.
    """
    named = template.cut_after(text, "DeploymentMode")
    if not named:
        return ""
    depth = len(_render_source(origin, named, render).split("/"))
    return "/".join(source.split("/")[:depth])


def _omitted_files(source: str, destination: str) -> frozenset[str]:
    """The files that a directory mapping of users must not map.

    The collection file of a mode names core as its parent; in core it would name itself. A
    source that is called core has a file of its own, which belongs there.
    """
    ends_in_core = path_rules.normalize(destination) == CORE
    is_overlay = ends_in_core and path_rules.base_name(source) != path_rules.base_name(CORE)
    return frozenset((MODE_FILE,)) if is_overlay else frozenset()


def _render_patches(origin: str, patches: Iterable[PatchSet], render: Render) -> Iterable[PatchSet]:
    for index, patch in enumerate(patches):
        where = f"{origin}.patches[{index}]"
        values = {path: render(f"{where}.set[{path}]", text) for path, text in patch.set.items()}
        yield PatchSet(values, render(f"{where}.file", patch.file))


def _reject_templates(where: str, text: str) -> str:
    try:
        template.reject_template(text)
    except ValueError as error:
        raise SyncRefused("TemplateError", where, f"{where}: {error}") from error
    return text


def _check_destinations(
    mappings: Iterable[PathMapping], protected_paths: tuple[str, ...]
) -> tuple[PathMapping, ...]:
    """`mappings`; raises `SyncRefused` if one leads to a path that the operator protects."""
    checked = tuple(mappings)
    for path_mapping in checked:
        if path_rules.is_protected_by_operator(path_mapping.destination, protected_paths):
            raise _protected_destination(path_mapping.origin, path_mapping.destination)
    return checked


def _check_destination(where: str, path: str) -> str:
    destination = _normalize_path(where, "ProfilesInvalid", path)
    if destination and path_rules.is_protected(destination):
        raise _protected_destination(where, destination)
    return destination


def _protected_destination(where: str, destination: str) -> SyncRefused:
    return SyncRefused(
        "ProfilesInvalid",
        destination,
        f"{where}: {destination} is a protected path and never written; choose another destination",
    )


def _normalize_path(where: str, reason: str, path: str) -> str:
    try:
        return path_rules.normalize(path)
    except ValueError as error:
        raise SyncRefused(reason, path, f"{where}: {error}") from error


SourceKind: TypeAlias = Literal["dir", "file", "absent"]

# The character after "/": all paths in directory `d` sort between "d/" and "d0".
_PAST_SLASH = "0"
_MAX_NAMES = 10


class SourceTree:
    """The files of one commit by repository-relative path, with their directories."""

    def __init__(self, listing: Mapping[str, ListedFile]) -> None:
        self.listing = listing
        self._paths = sorted(listing)

    def kind(self, path: str) -> SourceKind:
        """Whether `path` is a file, a directory or absent."""
        if path in self.listing:
            return "file"
        start, end = self._span(path)
        return "dir" if start < end else "absent"

    def files_below(self, folder: str) -> Iterator[str]:
        """Every file in `folder`, in order, relative to it."""
        start, end = self._span(folder)
        cut = len(folder) + 1 if folder else 0
        for index in range(start, end):
            yield self._paths[index][cut:]

    def entries(self, folder: str) -> Iterator[str]:
        """The names directly in `folder`; those of directories end with a slash."""
        index, end = self._span(folder)
        cut = len(folder) + 1 if folder else 0
        while index < end:
            name, slash, _ = self._paths[index][cut:].partition("/")
            yield name + slash
            index = self._span(self._paths[index][:cut] + name)[1] if slash else index + 1

    def describe_nearby(self, path: str) -> str:
        """The entries of the nearest existing directory above `path`, for a message (MAP-4)."""
        folder = next(
            (parent for parent in path_rules.parents(path) if self.kind(parent) == "dir"), ""
        )
        where = folder or "the repository root"
        return f"{where} contains {sample(list(self.entries(folder))) or 'nothing'}"

    def _span(self, folder: str) -> tuple[int, int]:
        if not folder:
            return 0, len(self._paths)
        start = bisect_left(self._paths, f"{folder}/")
        return start, bisect_left(self._paths, folder + _PAST_SLASH, start)


def sample(names: Sequence[str]) -> str:
    """The first few names, for a message."""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"
