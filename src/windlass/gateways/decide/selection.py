"""Which routing a pod gets: the table of 2.3, and what its annotations add.

| annotation `profile` | annotation `service-path` | profile `default` | routing |
|---|---|---|---|
| set | any | any | that profile |
| - | set | any | the convention |
| - | - | exists | profile `default` |
| - | - | - | none: NoRouting |

With a profile, additional files and the deployment mode add no mappings; service path,
mode and tag provider stay variables. Excludes only ever add up. Equal inputs give equal
selections, in the controller, in the agent and at the desk.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.gateways.decide import gateway, globs, mapping, normalise, pod_annotations, template
from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.mapping import Convention, Mapping
from windlass.gateways.decide.recipes import Recipes
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.routing import ALWAYS_EXCLUDED, PREFIX, Profile, Routing
from windlass.gateways.decide.template import TemplateError
from windlass.gateways.decide.variables import Variables

DEFAULT_PROFILE = "default"


@dataclass(frozen=True, slots=True)
class Revision:
    """The commit a layout is made of; `timestamp` is its own time, not ours."""

    commit: str
    ref: str = ""
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """All that a layout needs to know about one gateway, apart from the commit's files.

    `profile` and `service_path` are None for the other of the two ways.
    """

    gateway: str
    profile: str | None
    service_path: str | None
    mappings: tuple[Mapping, ...]
    excludes: tuple[str, ...]
    recipes: Recipes
    system_name: str | None
    sync_period_seconds: int
    dry_run: bool
    paused: bool
    warnings: tuple[str, ...]


def selected(routing: Routing, pod: Pod, revision: Revision, *, cr_name: str) -> Selection:
    """The routing of `pod`; `Refused` (NoRouting and others) where it has none."""
    pod_annotations.check_literals(pod)
    name, profile = profile_of(routing, pod)
    _check_values(routing, profile)
    service = pod.said("service-path") if profile is None else None
    variables = _variables(routing, pod, revision, cr_name, name, profile)
    period, warnings = pod_annotations.sync_period(pod, profile.sync_period if profile else None)
    system_name = _system_name(pod, variables) if routing.normalize.system_name else None
    return Selection(
        gateway=gateway.name(pod),
        profile=name,
        service_path=service,
        mappings=_mappings(routing, pod, name, profile, variables),
        excludes=_excludes(routing, pod, profile),
        recipes=Recipes.of_routing(routing, variables, system_name),
        system_name=system_name,
        sync_period_seconds=period,
        dry_run=profile is not None and profile.dry_run,
        paused=profile is not None and profile.paused,
        warnings=warnings,
    )


def profile_of(routing: Routing, pod: Pod) -> tuple[str | None, Profile | None]:
    """The profile by the table above, None for the convention; `Refused` where none is meant."""
    profiles = routing.profiles or {}
    asked = pod.said("profile")
    if asked:
        if asked not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise _no_routing(f"{PREFIX}profile: {asked!r} not found; available: {known}")
        return asked, profiles[asked]
    if pod.said("service-path"):
        return None, None
    if DEFAULT_PROFILE in profiles:
        return DEFAULT_PROFILE, profiles[DEFAULT_PROFILE]
    raise _no_routing(
        f"pod {pod.name} has no routing; set {PREFIX}service-path or {PREFIX}profile, or add a "
        f"profile named {DEFAULT_PROFILE!r} to the IgnitionSync"
    )


def _mappings(
    routing: Routing,
    pod: Pod,
    name: str | None,
    profile: Profile | None,
    variables: Variables,
) -> tuple[Mapping, ...]:
    def render(where: str, text: str) -> str:
        return _rendered(where, text, variables)

    if name is not None and profile is not None:
        return mapping.from_profile(name, profile, render, routing.protected_paths)
    return mapping.convention(
        Convention(
            service_path=pod.said("service-path") or ".",
            deployment_mode=pod_annotations.deployment_mode(pod),
            mode_layout=routing.deployment_mode_layout,
            additional_files=routing.additional_files,
            protected_paths=routing.protected_paths,
        ),
        render,
    )


def _check_values(routing: Routing, profile: Profile | None) -> None:
    """What is put into templates is never read as one, so it must not look like one."""
    named = {f"vars.{name}": text for name, text in profile.vars.items()} if profile else {}
    for where, text in {"siteNumber": routing.site_number, **named}.items():
        try:
            template.refuse(text)
        except ValueError as error:
            raise Refused("ProfilesInvalid", where, f"{where}: {error}") from error


def _excludes(routing: Routing, pod: Pod, profile: Profile | None) -> tuple[str, ...]:
    """PRO-2: the union, each pattern once, checked again because annotations are free text."""
    every = (
        *routing.protected_paths,
        *routing.exclude_patterns,
        ALWAYS_EXCLUDED,
        *(profile.exclude_patterns if profile is not None else ()),
        *pod_annotations.exclude_patterns(pod),
        *pod_annotations.tag_provider_patterns(pod),
    )
    for pattern in every:
        try:
            globs.check(pattern)
        except ValueError as error:
            raise Refused("ProfilesInvalid", pattern, f"exclude pattern: {error}") from error
    return tuple(dict.fromkeys(every))


def _variables(
    routing: Routing,
    pod: Pod,
    revision: Revision,
    cr_name: str,
    name: str | None,
    profile: Profile | None,
) -> Variables:
    return Variables(
        namespace=pod.namespace,
        cr_name=cr_name,
        gateway_name=gateway.name(pod),
        pod_name=pod.name,
        pod_ordinal=gateway.ordinal(pod),
        site_number=routing.site_number or None,
        cluster_name=routing.cluster_name or None,
        service_path=pod.said("service-path") or None,
        deployment_mode=pod_annotations.deployment_mode(pod) or None,
        tag_provider=pod_annotations.tag_provider(pod),
        profile=name,
        ref=revision.ref or None,
        commit=revision.commit,
        timestamp=revision.timestamp,
        labels=dict(pod.labels),
        vars=dict(profile.vars) if profile is not None else {},
    )


def _system_name(pod: Pod, variables: Variables) -> str:
    """NRM-3: the literal, else the template, else the gateway's name."""
    text = pod.said("system-name-template") or ""
    try:
        return normalise.system_name(pod.said("system-name") or "", text, variables)
    except TemplateError as error:
        where = f"{PREFIX}system-name-template"
        raise Refused("TemplateError", where, f"{where}: {error}") from error


def _rendered(where: str, text: str, variables: Variables) -> str:
    try:
        return template.render(text, variables)
    except TemplateError as error:
        raise Refused("TemplateError", where, f"{where}: {error}") from error


def _no_routing(message: str) -> Refused:
    return Refused("NoRouting", "", message)
