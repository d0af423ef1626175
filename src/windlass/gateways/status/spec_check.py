"""Validates what the schema of the CRD cannot express about an IgnitionSync.

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
    """Labels whose keys are not known to the controller: every key is present."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return "x"


# A gateway made up: a template that fails for it fails for every gateway.
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
    """The repository at `url`; raises Stalled if the address is invalid."""
    try:
        return Remote.parse(url)
    except RemoteRefused as error:
        raise _invalid_spec(f"spec.git.repo: {error}") from error


def check_remote(url: str, allowed: GitSettings) -> Remote:
    """The repository at `url`; raises Stalled if the address is invalid or not allowed."""
    remote = parse_remote(url)
    if remote.scheme == "file" and not allowed.allow_file:
        raise _invalid_spec("spec.git.repo: file URLs are not allowed; use https or ssh")
    is_insecure = remote.scheme in ("http", "git")
    if is_insecure and not allowed.allows_insecure(remote.host, remote.port):
        raise _invalid_spec(
            f"spec.git.repo: {remote.scheme} is not allowed for host {remote.host}; use "
            "https or ssh, or add the host to --git-insecure-hosts"
        )
    return remote


def find_problems(desired: Routing) -> tuple[str, ...]:
    """The problems of a routing, each with its field; empty if it can be published."""
    problems = [
        *_check_patterns("excludePatterns", desired.exclude_patterns),
        *_check_normalize_rules(desired),
    ]
    problems += _yield_refusal(
        lambda: mapping.convention_mappings(
            Convention(
                ".",
                additional_files=desired.additional_files,
                protected_paths=desired.protected_paths,
            ),
            _render_sample,
        )
    )
    problems += _yield_value_error("siteNumber", template.reject_template, desired.site_number)
    for name, profile in sorted((desired.profiles or {}).items()):
        problems += _check_profile(f"profiles.{name}", profile, desired.protected_paths)
    problems += _yield_refusal(lambda: routing.encode(desired))
    return tuple(problems)


def join_problems(problems: tuple[str, ...]) -> str:
    """The first few problems as one text."""
    more = (
        f"; and {len(problems) - _MAX_SHOWN_PROBLEMS} more"
        if len(problems) > _MAX_SHOWN_PROBLEMS
        else ""
    )
    return "; ".join(problems[:_MAX_SHOWN_PROBLEMS]) + more


def _check_profile(
    field: str, profile: RoutingProfile, protected_paths: tuple[str, ...]
) -> Iterator[str]:
    yield from _check_patterns(f"{field}.excludePatterns", profile.exclude_patterns)
    for name, text in sorted(profile.vars.items()):
        yield from _yield_value_error(f"{field}.vars.{name}", template.reject_template, text)
    for index, row in enumerate(profile.mappings):
        mapping_field = f"{field}.mappings[{index}]"
        yield from _check_mapping(mapping_field, row, profile.vars)
        if _TEMPLATE_START not in row.destination:
            yield from _check_unprotected(
                f"{mapping_field}.destination", row.destination, protected_paths
            )


def _check_mapping(
    field: str, row: RoutingMapping, profile_vars: Mapping[str, str]
) -> Iterator[str]:
    variables = replace(_SAMPLE_VARIABLES, vars=profile_vars)
    yield from _check_path(f"{field}.source", row.source, variables)
    yield from _check_path(f"{field}.destination", row.destination, variables)
    for number, patch in enumerate(row.patches):
        patch_field = f"{field}.patches[{number}]"
        if _TEMPLATE_START in patch.file:
            yield from _check_template(f"{patch_field}.file", patch.file, variables)
        elif patch.file:
            yield from _check_patterns(f"{patch_field}.file", (patch.file,))
        for path, text in patch.set.items():
            yield from _yield_value_error(f"{patch_field}.set", template.reject_template, path)
            yield from _yield_value_error(f"{patch_field}.set", json_edit.parse_path, path)
            yield from _check_template(f"{patch_field}.set[{path}]", text, variables)


def _check_path(field: str, text: str, variables: TemplateVariables) -> Iterator[str]:
    if _TEMPLATE_START in text:
        yield from _check_template(field, text, variables)
    else:
        yield from _yield_value_error(field, path_rules.check_path, text)


def _check_unprotected(field: str, text: str, operator_paths: tuple[str, ...]) -> Iterator[str]:
    try:
        destination = path_rules.normalize(text)
    except ValueError:
        # `_check_mapping` has reported the path already.
        return
    if not destination:
        return
    if path_rules.is_protected(destination) or path_rules.is_protected_by_operator(
        destination, operator_paths
    ):
        yield (
            f"{field}: {destination} is a protected path and never written; choose another "
            "destination"
        )


def _check_normalize_rules(desired: Routing) -> Iterator[str]:
    for index, row in enumerate(desired.normalize.fields):
        field = f"normalize.fields[{index}]"
        yield from _yield_value_error(f"{field}.jsonPath", patching.parse_field_path, row.json_path)
        yield from _check_template(f"{field}.valueTemplate", row.value_template, _SAMPLE_VARIABLES)


def _check_patterns(field: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        yield from _yield_value_error(field, globs.check_pattern, pattern)


def _check_template(field: str, text: str, variables: TemplateVariables) -> Iterator[str]:
    try:
        template.render(text, variables)
    except TemplateError as error:
        yield f"{field}: {error}"


def _render_sample(field: str, text: str) -> str:
    """`text` rendered for a gateway without a profile, which has no `.Vars`."""
    try:
        return template.render(text, replace(_SAMPLE_VARIABLES, vars={}))
    except TemplateError as error:
        raise SyncRefused("TemplateError", field, f"{field}: {error}") from error


def _yield_value_error(field: str, check: Callable[[str], object], text: str) -> Iterator[str]:
    try:
        check(text)
    except ValueError as error:
        yield f"{field}: {error}"


def _yield_refusal(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except SyncRefused as error:
        yield error.message


def _invalid_spec(message: str) -> Stalled:
    return Stalled("InvalidSpec", message, after=RETRY_SECONDS)
