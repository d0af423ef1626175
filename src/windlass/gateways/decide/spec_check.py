"""What the API server could not check about an IgnitionSync, checked here.

An address that must not be used is InvalidSpec. What makes a profile unusable (V9: a
destination that belongs to the gateway; patterns, paths and templates that cannot be read;
too much of it) is ProfilesInvalid: the commit is still looked up, and agents keep the
routing they have. Destinations with variables are judged by the agent, which knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from windlass.base.errors import Stalled
from windlass.gateways.decide import (
    globs,
    json_path,
    mapping,
    normalise,
    paths,
    protected,
    routing,
    template,
)
from windlass.gateways.decide.mapping import Convention
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import Profile, ProfileMapping, Routing
from windlass.gateways.decide.template import TemplateError
from windlass.gateways.decide.variables import Variables
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.git.settings import GitSettings

RETRY_SECONDS = 300.0

_SHOWN = 5
_TEMPLATE = "{{"


class _AnyKey(dict[str, str]):
    """Labels that nobody knows yet: any of them may be there."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return "x"


# Some gateway, for finding what no gateway can render.
_SOMEBODY = Variables(
    namespace="x",
    cr_name="x",
    gateway_name="x",
    pod_name="x",
    pod_ordinal=0,
    site_number="x",
    cluster_name="x",
    service_path="x",
    deployment_mode="x",
    tag_provider="x",
    profile="x",
    ref="x",
    commit="x",
    timestamp=0,
    labels=_AnyKey(),
    vars=_AnyKey(),
)


def address(url: str) -> Remote:
    """The repository that is meant; Stalled where nobody can tell."""
    try:
        return Remote.parse(url)
    except RemoteRefused as error:
        raise _invalid(f"spec.git.repo: {error}") from error


def remote(url: str, allowed: GitSettings) -> Remote:
    """The repository that is meant; Stalled where it must not be used."""
    found = address(url)
    if found.scheme == "file" and not allowed.allow_file:
        raise _invalid("spec.git.repo: file URLs are for development only; use https or ssh")
    is_open = found.scheme in ("http", "git")
    if is_open and not allowed.allows_insecure(found.host, found.port):
        raise _invalid(
            f"spec.git.repo: {found.scheme} is refused for host {found.host}; use https or ssh, "
            "or have the administrator list the host in --git-insecure-hosts"
        )
    return found


def problems(wanted: Routing) -> tuple[str, ...]:
    """What is wrong with a routing, each with where it stands; none if it can be told."""
    found = [*_excludes("excludePatterns", wanted.exclude_patterns), *_normalise_rules(wanted)]
    found += _refusal(
        lambda: mapping.convention(
            Convention(
                ".",
                additional_files=wanted.additional_files,
                protected_paths=wanted.protected_paths,
            ),
            _rendered,
        )
    )
    found += _value_error("siteNumber", template.refuse, wanted.site_number)
    for name, profile in sorted((wanted.profiles or {}).items()):
        found += _profile(f"profiles.{name}", profile, wanted.protected_paths)
    found += _refusal(lambda: routing.encode(wanted))
    return tuple(found)


def sentence(found: tuple[str, ...]) -> str:
    """The first few problems, for a person."""
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _profile(where: str, profile: Profile, protected_paths: tuple[str, ...]) -> Iterator[str]:
    yield from _excludes(f"{where}.excludePatterns", profile.exclude_patterns)
    for name, text in sorted(profile.vars.items()):
        yield from _value_error(f"{where}.vars.{name}", template.refuse, text)
    for index, row in enumerate(profile.mappings):
        place = f"{where}.mappings[{index}]"
        yield from _mapping(place, row, profile.vars)
        if _TEMPLATE not in row.destination:
            yield from _unprotected(f"{place}.destination", row.destination, protected_paths)


def _mapping(where: str, row: ProfileMapping, known: Mapping[str, str]) -> Iterator[str]:
    somebody = replace(_SOMEBODY, vars=known)
    yield from _path(f"{where}.source", row.source, somebody)
    yield from _path(f"{where}.destination", row.destination, somebody)
    for number, patch in enumerate(row.patches):
        place = f"{where}.patches[{number}]"
        if _TEMPLATE in patch.file:
            yield from _template(f"{place}.file", patch.file, somebody)
        elif patch.file:
            yield from _excludes(f"{place}.file", (patch.file,))
        for path, text in patch.set.items():
            yield from _value_error(f"{place}.set", template.refuse, path)
            yield from _value_error(f"{place}.set", json_path.parsed, path)
            yield from _template(f"{place}.set[{path}]", text, somebody)


def _path(where: str, text: str, somebody: Variables) -> Iterator[str]:
    if _TEMPLATE in text:
        yield from _template(where, text, somebody)
    else:
        yield from _value_error(where, paths.check, text)


def _unprotected(where: str, text: str, more: tuple[str, ...]) -> Iterator[str]:
    try:
        destination = paths.normalised(text)
    except ValueError:
        return
    if not destination:
        return
    if protected.is_protected(destination) or protected.is_covered(destination, more):
        yield (
            f"{where}: {destination} belongs to the gateway and is never written; choose another"
            " destination"
        )


def _normalise_rules(wanted: Routing) -> Iterator[str]:
    for index, row in enumerate(wanted.normalize.fields):
        where = f"normalize.fields[{index}]"
        yield from _value_error(f"{where}.jsonPath", normalise.field_path, row.json_path)
        yield from _template(f"{where}.valueTemplate", row.value_template, _SOMEBODY)


def _excludes(where: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        yield from _value_error(where, globs.check, pattern)


def _template(where: str, text: str, somebody: Variables) -> Iterator[str]:
    try:
        template.render(text, somebody)
    except TemplateError as error:
        yield f"{where}: {error}"


def _rendered(where: str, text: str) -> str:
    """`text` for some gateway without a profile, which has no variables of its own."""
    try:
        return template.render(text, replace(_SOMEBODY, vars={}))
    except TemplateError as error:
        raise Refused("TemplateError", where, f"{where}: {error}") from error


def _value_error(where: str, check: Callable[[str], object], text: str) -> Iterator[str]:
    try:
        check(text)
    except ValueError as error:
        yield f"{where}: {error}"


def _refusal(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except Refused as error:
        yield error.message


def _invalid(message: str) -> Stalled:
    return Stalled("InvalidSpec", message, after=RETRY_SECONDS)
