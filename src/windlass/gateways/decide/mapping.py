"""Which part of a repository goes where: the ordered list every layout starts from (MAP-1).

The convention and profiles compile to the same list, so there is one engine to prove.
Later mappings win file by file, directories merge. Sources are normalised and relative
to the repository, destinations relative to the data directory; both passed V6 after
their templates were rendered. No mapping leads to a protected path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from windlass.gateways.decide import paths, protected, template
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import AdditionalFile, PatchSet, Profile, ProfileMapping

Kind: TypeAlias = Literal["dir", "file", ""]
Render: TypeAlias = Callable[[str, str], str]
"""Renders the templates in a text; the first argument says where the text stands."""

PROJECTS = "projects"
RESOURCES = "config/resources"
CORE = f"{RESOURCES}/core"
EXTERNAL = f"{RESOURCES}/external"
MODE_FILE = "config-mode.json"
# Collections that the gateway or the convention gives a meaning of its own.
RESERVED_COLLECTIONS = frozenset(("core", "external", "local", "system"))


@dataclass(frozen=True, slots=True)
class Mapping:
    """One source and its destination.

    `kind` is empty where the tree decides. `into` is a destination that names a directory
    (`a/`, `.`): a file lands in it under its own name. `leaves_out` are paths relative to
    the source. `origin` is where a person finds the mapping. `mode` is the deployment mode
    whose collection the source is; that one must exist.
    """

    source: str
    destination: str
    kind: Kind = ""
    required: bool = False
    template: bool = False
    patches: tuple[PatchSet, ...] = ()
    origin: str = ""
    into: bool = False
    leaves_out: frozenset[str] = frozenset()
    mode: str = ""


@dataclass(frozen=True, slots=True)
class Convention:
    """The inputs of the convention: one service directory, its mode, and single files."""

    service_path: str
    deployment_mode: str = ""
    mode_layout: Literal["overlay", "native"] = "overlay"
    additional_files: tuple[AdditionalFile, ...] = ()
    protected_paths: tuple[str, ...] = ()


def convention(inputs: Convention, render: Render | None = None) -> tuple[Mapping, ...]:
    """The mappings of the convention, in the order of the table of MAP-1.

    `render` is for the templates in the paths of additional files; without it they are refused.
    """
    service = _checked("service-path", "UnsafePath", inputs.service_path)
    rows = [
        _row(service, PROJECTS, PROJECTS),
        _row(service, CORE, CORE),
        *_mode_rows(service, inputs.deployment_mode, inputs.mode_layout),
        _row(service, EXTERNAL, EXTERNAL),
    ]
    mappings = (*rows, *_additional(inputs.additional_files, render or _literal))
    return _unprotected(mappings, inputs.protected_paths)


def from_profile(
    name: str, profile: Profile, render: Render, protected_paths: tuple[str, ...] = ()
) -> tuple[Mapping, ...]:
    """The mappings of a profile, with `render` for the templates in its paths."""
    mappings = (
        _from_spec(f"profiles.{name}.mappings[{index}]", spec, render)
        for index, spec in enumerate(profile.mappings)
    )
    return _unprotected(mappings, protected_paths)


def _row(service: str, source: str, destination: str) -> Mapping:
    whole = paths.joined(service, source)
    return Mapping(whole, destination, kind="dir", origin=whole)


def _mode_rows(service: str, mode: str, layout: Literal["overlay", "native"]) -> Iterable[Mapping]:
    if not mode:
        return
    whole = paths.joined(service, f"{RESOURCES}/{mode}")
    if layout == "native":
        destination = _destination("deployment-mode", f"{RESOURCES}/{mode}")
        yield Mapping(whole, destination, "dir", origin=whole, mode=mode)
        return
    # The mode's own collection file says "my parent is core"; in core it would name itself.
    leaves_out = frozenset((MODE_FILE,))
    yield Mapping(whole, CORE, "dir", origin=whole, leaves_out=leaves_out, mode=mode)


def _additional(files: Iterable[AdditionalFile], render: Render) -> Iterable[Mapping]:
    for index, file in enumerate(files):
        origin = f"additionalFiles[{index}]"
        source = render(f"{origin}.source", file.source)
        dest = render(f"{origin}.dest", file.dest)
        yield Mapping(
            _checked(f"{origin}.source", "ProfilesInvalid", source),
            _destination(f"{origin}.dest", dest),
            kind=file.type,
            origin=origin,
            into=paths.means_directory(dest),
        )


def _from_spec(origin: str, spec: ProfileMapping, render: Render) -> Mapping:
    source = render(f"{origin}.source", spec.source)
    destination = render(f"{origin}.destination", spec.destination)
    return Mapping(
        _checked(f"{origin}.source", "ProfilesInvalid", source),
        _destination(f"{origin}.destination", destination),
        kind=spec.type,
        required=spec.required,
        template=spec.template,
        patches=tuple(_patches(origin, spec.patches, render)),
        origin=origin,
        into=paths.means_directory(destination),
        leaves_out=_left_out(source, destination),
    )


def _left_out(source: str, destination: str) -> frozenset[str]:
    """What a directory mapping of a profile must not bring over.

    The collection file of a mode names core as its parent; in core it would name itself. A
    source that is called core has a file of its own, which belongs there.
    """
    ends_in_core = paths.normalised(destination) == CORE
    is_overlay = ends_in_core and paths.base(paths.normalised(source)) != paths.base(CORE)
    return frozenset((MODE_FILE,)) if is_overlay else frozenset()


def _patches(origin: str, patches: Iterable[PatchSet], render: Render) -> Iterable[PatchSet]:
    for index, patch in enumerate(patches):
        where = f"{origin}.patches[{index}]"
        values = {path: render(f"{where}.set[{path}]", text) for path, text in patch.set.items()}
        yield PatchSet(values, render(f"{where}.file", patch.file))


def _literal(where: str, text: str) -> str:
    try:
        template.refuse(text)
    except ValueError as error:
        raise Refused("TemplateError", where, f"{where}: {error}") from error
    return text


def _unprotected(
    mappings: Iterable[Mapping], protected_paths: tuple[str, ...]
) -> tuple[Mapping, ...]:
    """`mappings`, none of which leads to what the operator protects."""
    found = tuple(mappings)
    for one in found:
        if protected.is_covered(one.destination, protected_paths):
            raise _protected(one.origin, one.destination)
    return found


def _destination(where: str, path: str) -> str:
    destination = _checked(where, "ProfilesInvalid", path)
    if destination and protected.is_protected(destination):
        raise _protected(where, destination)
    return destination


def _protected(where: str, destination: str) -> Refused:
    return Refused(
        "ProfilesInvalid",
        destination,
        f"{where} leads to {destination}, which belongs to the gateway and is never written; "
        "choose another destination",
    )


def _checked(where: str, reason: str, path: str) -> str:
    try:
        return paths.normalised(path)
    except ValueError as error:
        raise Refused(reason, path, f"{where}: {error}") from error
