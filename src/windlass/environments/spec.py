"""The desired state that an Environment and its Project describe together.

Everything later steps need is worked out here, once, from two objects: which template,
which commits of which repositories, which amounts, which egress rules.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.api.kinds.project_limits import ContainerResources
from windlass.api.kinds.project_sources import (
    DEFAULT_TEMPLATE,
    EnvironmentSource,
    ProjectSource,
    Template,
)
from windlass.environments.isolation.network_policies import EgressRule
from windlass.environments.isolation.quota import ContainerBounds

HEAD = "HEAD"


class SpecRefused(ValueError):
    """The two objects do not fit together; `kind` is the condition that says so."""

    def __init__(self, kind: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DesiredSource:
    """One repository and the commit that is wanted of it."""

    name: str
    repository_url: str
    secret_name: str
    branch: str
    commit: str

    @property
    def follows_branch(self) -> bool:
        """Whether a new commit of the branch is a new revision."""
        return not self.commit


def may_use_project(project: Project, environment: Environment) -> bool:
    """Whether the Environment may name this Project."""
    own = environment.metadata.namespace
    return own == project.metadata.namespace or own in project.spec.environment_namespaces


def select_template(project: Project, environment: Environment) -> Template:
    """How this Environment is made; WishRefused if the Project does not say."""
    templates = project.spec.templates or {}
    wanted = environment.spec.type
    found = templates.get(wanted) or templates.get(DEFAULT_TEMPLATE)
    if found is None:
        known = ", ".join(sorted(templates)) or "none"
        raise SpecRefused(
            "DeploymentReady",
            "TemplateMissing",
            f"Project {project.metadata.name} has no template {wanted} and none named "
            f"{DEFAULT_TEMPLATE} (it has: {known}); add one to spec.templates",
        )
    mode = environment.spec.deployment_mode
    if mode is not None and mode != found.type:
        raise SpecRefused(
            "DeploymentReady",
            "ModeMismatch",
            f"spec.deploymentMode is {mode}, the template {wanted} is of type {found.type}; "
            "leave deploymentMode out",
        )
    return found


def desired_sources(project: Project, environment: Environment) -> tuple[DesiredSource, ...]:
    """Which commit is wanted of each repository, in the order of the Project."""
    offered = project.spec.sources or ()
    asked = _requested_sources(offered, environment.spec.sources or ())
    return tuple(_desired_source(source, asked.get(source.name)) for source in offered)


def template_source_name(project: Project, wanted: Template) -> str:
    """The name of the source that a template is read from."""
    return wanted.source_ref or (project.spec.sources or ())[0].name


def named_amounts(spec: msgspec.Struct | None) -> dict[str, str]:
    """Amounts as they were named, without those that were not."""
    if spec is None:
        return {}
    named: Mapping[str, object] = msgspec.to_builtins(spec)
    return {name: str(value) for name, value in named.items() if value is not None}


def container_bounds(project: Project) -> ContainerBounds:
    """Defaults and bounds of a container."""
    bounds = project.spec.resources.limit_range
    if bounds is None:
        return ContainerBounds()
    return ContainerBounds(
        _per_container(bounds.default_request),
        _per_container(bounds.default),
        _per_container(bounds.max),
    )


def egress_rules(project: Project, *, trusted: bool) -> tuple[EgressRule, ...]:
    """The ways out that the Project asks for, for those it trusts or for all."""
    return tuple(
        EgressRule(row.name, row.cidrs, tuple((port.port, port.protocol) for port in row.ports))
        for row in project.spec.network.egress
        if trusted or row.untrusted
    )


def _requested_sources(
    offered: tuple[ProjectSource, ...], asked: tuple[EnvironmentSource, ...]
) -> dict[str, EnvironmentSource]:
    # Where there is but one of each, they mean each other, whatever they are called.
    if len(offered) == 1 and len(asked) == 1:
        return {offered[0].name: asked[0]}
    known = {source.name for source in offered}
    strangers = sorted(source.name for source in asked if source.name not in known)
    if strangers:
        raise SpecRefused(
            "BuildReady",
            "SourceUnknown",
            f"spec.sources names {', '.join(strangers)}; the Project has "
            f"{', '.join(sorted(known))}",
        )
    return {source.name: source for source in asked}


def _desired_source(offered: ProjectSource, asked: EnvironmentSource | None) -> DesiredSource:
    commit = asked.commit_sha if asked is not None else ""
    return DesiredSource(
        name=offered.name,
        repository_url=offered.repository_url,
        secret_name=offered.secret_ref.name if offered.secret_ref is not None else "",
        branch=(asked.branch if asked is not None else "") or offered.branch,
        commit="" if commit == HEAD else commit,
    )


def _per_container(found: ContainerResources | None) -> dict[str, str]:
    renamed = {"ephemeralStorage": "ephemeral-storage"}
    return {renamed.get(name, name): value for name, value in named_amounts(found).items()}
