"""Selects the routing of one pod by the table of 2.3, and adds its annotations.

| annotation `profile` | annotation `service-path` | profile `default` | routing |
|---|---|---|---|
| set | any | any | that profile |
| - | set | any | the convention |
| - | - | exists | profile `default` |
| - | - | - | none: NoRouting |

With a profile, additional files and the deployment mode add no mappings; service path, mode
and tag provider stay variables. Excludes are a union. Equal inputs give equal selections, in the
controller, in the agent and on the command line.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.gateways.render import patching, template
from windlass.gateways.render.file_renderer import GatewayRecipes
from windlass.gateways.render.template import TemplateError, TemplateVariables
from windlass.gateways.tree import gateway_pod, globs, mapping
from windlass.gateways.tree.gateway_pod import GatewayPod
from windlass.gateways.tree.mapping import Convention, PathMapping
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.wire.routing import (
    ALWAYS_EXCLUDED,
    ANNOTATION_PREFIX,
    Routing,
    RoutingProfile,
)

DEFAULT_PROFILE = "default"


@dataclass(frozen=True, slots=True)
class SourceRevision:
    """The commit of a layout; `timestamp` is the commit's own, in seconds since the epoch."""

    commit: str
    ref: str = ""
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class GatewaySelection:
    """The routing of one gateway: all inputs of a layout apart from the commit's files."""

    gateway: str  # name
    profile: str | None  # None for the convention
    service_path: str | None  # as annotated; None with a profile
    mappings: tuple[PathMapping, ...]  # in order, later ones win
    excludes: tuple[str, ...]  # patterns from all sources, each once
    recipes: GatewayRecipes  # how contents are rendered
    system_name: str | None  # rendered; None if it is not normalized
    sync_period_seconds: int  # between two turns without an event
    dry_run: bool  # plan only
    paused: bool  # by the profile
    warnings: tuple[str, ...]  # for users


def select(
    routing: Routing, pod: GatewayPod, revision: SourceRevision, *, cr_name: str
) -> GatewaySelection:
    """The routing of `pod`; raises `SyncRefused` (NoRouting and others) if it has none."""
    gateway_pod.check_literals(pod)
    name, profile = select_profile(routing, pod)
    _check_values(routing, profile)
    service = pod.annotation("service-path") if profile is None else None
    variables = _template_variables(routing, pod, revision, cr_name, name, profile)
    period, warnings = gateway_pod.sync_period(pod, profile.sync_period if profile else None)
    system_name = _select_system_name(pod, variables) if routing.normalize.system_name else None
    return GatewaySelection(
        gateway=gateway_pod.name(pod),
        profile=name,
        service_path=service,
        mappings=_select_mappings(routing, pod, name, profile, variables),
        excludes=_collect_excludes(routing, pod, profile),
        recipes=GatewayRecipes.from_routing(routing, variables, system_name),
        system_name=system_name,
        sync_period_seconds=period,
        dry_run=profile is not None and profile.dry_run,
        paused=profile is not None and profile.paused,
        warnings=warnings,
    )


def select_profile(routing: Routing, pod: GatewayPod) -> tuple[str | None, RoutingProfile | None]:
    """The profile by the table above, None for the convention; raises `SyncRefused` for none."""
    profiles = routing.profiles or {}
    requested = pod.annotation("profile")
    if requested:
        if requested not in profiles:
            available = ", ".join(sorted(profiles)) or "none"
            raise _no_routing(
                f"{ANNOTATION_PREFIX}profile: {requested!r} not found; available: {available}"
            )
        return requested, profiles[requested]
    if pod.annotation("service-path"):
        return None, None
    if DEFAULT_PROFILE in profiles:
        return DEFAULT_PROFILE, profiles[DEFAULT_PROFILE]
    raise _no_routing(
        f"pod {pod.name} has no routing; set {ANNOTATION_PREFIX}service-path or "
        f"{ANNOTATION_PREFIX}profile, or add a profile named {DEFAULT_PROFILE!r} to "
        "the IgnitionSync"
    )


def _select_mappings(
    routing: Routing,
    pod: GatewayPod,
    name: str | None,
    profile: RoutingProfile | None,
    variables: TemplateVariables,
) -> tuple[PathMapping, ...]:
    def render(where: str, text: str) -> str:
        return _render_template(where, text, variables)

    if name is not None and profile is not None:
        return mapping.profile_mappings(name, profile, render, routing.protected_paths)
    return mapping.convention_mappings(
        Convention(
            service_path=pod.annotation("service-path") or ".",
            deployment_mode=gateway_pod.deployment_mode(pod),
            mode_layout=routing.deployment_mode_layout,
            additional_files=routing.additional_files,
            protected_paths=routing.protected_paths,
        ),
        render,
    )


def _check_values(routing: Routing, profile: RoutingProfile | None) -> None:
    """Refuse template syntax in values: they are inserted into templates, never rendered."""
    profile_vars = {f"vars.{name}": text for name, text in profile.vars.items()} if profile else {}
    for where, text in {"siteNumber": routing.site_number, **profile_vars}.items():
        try:
            template.reject_template(text)
        except ValueError as error:
            raise SyncRefused("ProfilesInvalid", where, f"{where}: {error}") from error


def _collect_excludes(
    routing: Routing, pod: GatewayPod, profile: RoutingProfile | None
) -> tuple[str, ...]:
    """The union of all excludes (PRO-2), validated because annotations are free text."""
    patterns = (
        *routing.protected_paths,
        *routing.exclude_patterns,
        ALWAYS_EXCLUDED,
        *(profile.exclude_patterns if profile is not None else ()),
        *gateway_pod.exclude_patterns(pod),
        *gateway_pod.tag_provider_patterns(pod),
    )
    for pattern in patterns:
        try:
            globs.check_pattern(pattern)
        except ValueError as error:
            raise SyncRefused("ProfilesInvalid", pattern, f"exclude pattern: {error}") from error
    return tuple(dict.fromkeys(patterns))


def _template_variables(
    routing: Routing,
    pod: GatewayPod,
    revision: SourceRevision,
    cr_name: str,
    name: str | None,
    profile: RoutingProfile | None,
) -> TemplateVariables:
    return TemplateVariables(
        namespace=pod.namespace,
        cr_name=cr_name,
        gateway_name=gateway_pod.name(pod),
        pod_name=pod.name,
        pod_ordinal=gateway_pod.pod_ordinal(pod),
        site_number=routing.site_number or None,
        cluster_name=routing.cluster_name or None,
        service_path=pod.annotation("service-path") or None,
        deployment_mode=gateway_pod.deployment_mode(pod) or None,
        tag_provider=gateway_pod.tag_provider(pod),
        profile=name,
        ref=revision.ref or None,
        commit=revision.commit,
        timestamp=revision.timestamp,
        labels=dict(pod.labels),
        vars=dict(profile.vars) if profile is not None else {},
    )


def _select_system_name(pod: GatewayPod, variables: TemplateVariables) -> str:
    """The system name (NRM-3): the literal, else the template, else the gateway's name."""
    text = pod.annotation("system-name-template") or ""
    try:
        return patching.choose_system_name(pod.annotation("system-name") or "", text, variables)
    except TemplateError as error:
        where = f"{ANNOTATION_PREFIX}system-name-template"
        raise SyncRefused("TemplateError", where, f"{where}: {error}") from error


def _render_template(where: str, text: str, variables: TemplateVariables) -> str:
    try:
        return template.render(text, variables)
    except TemplateError as error:
        raise SyncRefused("TemplateError", where, f"{where}: {error}") from error


def _no_routing(message: str) -> SyncRefused:
    return SyncRefused("NoRouting", "", message)
