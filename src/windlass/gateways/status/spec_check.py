"""Validates what the API server could not validate about an IgnitionSync.

A repository address that must not be used is InvalidSpec. What makes a profile unusable (V9:
a destination that belongs to the gateway; invalid patterns, paths and templates; too much of
it) is ProfilesInvalid: the commit is still resolved, and agents keep the routing they have.
Destinations with variables are validated by the agent, which knows their values.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from windlass.base.errors import Stalled
from windlass.gateways.render import json_edit, patching, template
from windlass.gateways.render.template import TemplateError, TemplateVariables
from windlass.gateways.tree import globs, mapping, path_rules
from windlass.gateways.tree.mapping import Convention
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire import routing
from windlass.gateways.wire.routing import Routing, RoutingMapping, RoutingProfile
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.git.settings import GitSettings

RETRY_SECONDS = 300.0

_MAX_SHOWN_PROBLEMS = 5
_TEMPLATE_START = "{{"


class _AnyKey(dict[str, str]):
    """Labels that nobody knows yet: any of them may be there."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return "x"


# Some gateway, for finding what no gateway can render.
_SAMPLE_VARIABLES = TemplateVariables(
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


def parse_remote(url: str) -> Remote:
    """The repository that is meant; Stalled where nobody can tell."""
    try:
        return Remote.parse(url)
    except RemoteRefused as error:
        raise _invalid_spec(f"spec.git.repo: {error}") from error


def check_remote(url: str, allowed: GitSettings) -> Remote:
    """The repository that is meant; Stalled where it must not be used."""
    found = parse_remote(url)
    if found.scheme == "file" and not allowed.allow_file:
        raise _invalid_spec("spec.git.repo: file URLs are for development only; use https or ssh")
    is_open = found.scheme in ("http", "git")
    if is_open and not allowed.allows_insecure(found.host, found.port):
        raise _invalid_spec(
            f"spec.git.repo: {found.scheme} is refused for host {found.host}; use https or ssh, "
            "or have the administrator list the host in --git-insecure-hosts"
        )
    return found


def find_problems(wanted: Routing) -> tuple[str, ...]:
    """What is wrong with a routing, each with where it stands; none if it can be told."""
    found = [
        *_check_patterns("excludePatterns", wanted.exclude_patterns),
        *_check_normalize_rules(wanted),
    ]
    found += _yield_refusal(
        lambda: mapping.convention_mappings(
            Convention(
                ".",
                additional_files=wanted.additional_files,
                protected_paths=wanted.protected_paths,
            ),
            _render_sample,
        )
    )
    found += _yield_value_error("siteNumber", template.reject_template, wanted.site_number)
    for name, profile in sorted((wanted.profiles or {}).items()):
        found += _check_profile(f"profiles.{name}", profile, wanted.protected_paths)
    found += _yield_refusal(lambda: routing.encode(wanted))
    return tuple(found)


def join_problems(found: tuple[str, ...]) -> str:
    """The first few problems, for a person."""
    more = (
        f"; and {len(found) - _MAX_SHOWN_PROBLEMS} more" if len(found) > _MAX_SHOWN_PROBLEMS else ""
    )
    return "; ".join(found[:_MAX_SHOWN_PROBLEMS]) + more


def _check_profile(
    where: str, profile: RoutingProfile, protected_paths: tuple[str, ...]
) -> Iterator[str]:
    yield from _check_patterns(f"{where}.excludePatterns", profile.exclude_patterns)
    for name, text in sorted(profile.vars.items()):
        yield from _yield_value_error(f"{where}.vars.{name}", template.reject_template, text)
    for index, row in enumerate(profile.mappings):
        place = f"{where}.mappings[{index}]"
        yield from _check_mapping(place, row, profile.vars)
        if _TEMPLATE_START not in row.destination:
            yield from _check_unprotected(f"{place}.destination", row.destination, protected_paths)


def _check_mapping(where: str, row: RoutingMapping, known: Mapping[str, str]) -> Iterator[str]:
    somebody = replace(_SAMPLE_VARIABLES, vars=known)
    yield from _check_path(f"{where}.source", row.source, somebody)
    yield from _check_path(f"{where}.destination", row.destination, somebody)
    for number, patch in enumerate(row.patches):
        place = f"{where}.patches[{number}]"
        if _TEMPLATE_START in patch.file:
            yield from _check_template(f"{place}.file", patch.file, somebody)
        elif patch.file:
            yield from _check_patterns(f"{place}.file", (patch.file,))
        for path, text in patch.set.items():
            yield from _yield_value_error(f"{place}.set", template.reject_template, path)
            yield from _yield_value_error(f"{place}.set", json_edit.parse_path, path)
            yield from _check_template(f"{place}.set[{path}]", text, somebody)


def _check_path(where: str, text: str, somebody: TemplateVariables) -> Iterator[str]:
    if _TEMPLATE_START in text:
        yield from _check_template(where, text, somebody)
    else:
        yield from _yield_value_error(where, path_rules.check_path, text)


def _check_unprotected(where: str, text: str, more: tuple[str, ...]) -> Iterator[str]:
    try:
        destination = path_rules.normalize(text)
    except ValueError:
        return
    if not destination:
        return
    if path_rules.is_protected(destination) or path_rules.is_protected_by_operator(
        destination, more
    ):
        yield (
            f"{where}: {destination} belongs to the gateway and is never written; choose another"
            " destination"
        )


def _check_normalize_rules(wanted: Routing) -> Iterator[str]:
    for index, row in enumerate(wanted.normalize.fields):
        where = f"normalize.fields[{index}]"
        yield from _yield_value_error(f"{where}.jsonPath", patching.parse_field_path, row.json_path)
        yield from _check_template(f"{where}.valueTemplate", row.value_template, _SAMPLE_VARIABLES)


def _check_patterns(where: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        yield from _yield_value_error(where, globs.check_pattern, pattern)


def _check_template(where: str, text: str, somebody: TemplateVariables) -> Iterator[str]:
    try:
        template.render(text, somebody)
    except TemplateError as error:
        yield f"{where}: {error}"


def _render_sample(where: str, text: str) -> str:
    """`text` for some gateway without a profile, which has no variables of its own."""
    try:
        return template.render(text, replace(_SAMPLE_VARIABLES, vars={}))
    except TemplateError as error:
        raise SyncRefused("TemplateError", where, f"{where}: {error}") from error


def _yield_value_error(where: str, check: Callable[[str], object], text: str) -> Iterator[str]:
    try:
        check(text)
    except ValueError as error:
        yield f"{where}: {error}"


def _yield_refusal(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except SyncRefused as error:
        yield error.message


def _invalid_spec(message: str) -> Stalled:
    return Stalled("InvalidSpec", message, after=RETRY_SECONDS)
