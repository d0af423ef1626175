"""The desired state that an Environment and its Project describe together.

Everything that later steps need is computed here from the two objects: which template, which
commits of which repositories, which quota amounts, which egress rules.

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
"""A commitSha that means the newest commit of the branch."""


class SpecRefused(ValueError):
    """Environment and Project do not fit together; `kind` is the condition that becomes False."""

    def __init__(self, kind: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DesiredSource:
    """One repository and its desired commit.

    `branch` is empty for the default branch, `commit` for the newest of the branch, and
    `secret_name` for anonymous access.
    """

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
    """Whether the Project is shared with the namespace of the Environment."""
    namespace = environment.metadata.namespace
    return (
        namespace == project.metadata.namespace or namespace in project.spec.environment_namespaces
    )


def select_template(project: Project, environment: Environment) -> Template:
    """The template of the Environment's type, or the default one; SpecRefused if neither exists."""
    templates = project.spec.templates or {}
    template_type = environment.spec.type
    template = templates.get(template_type) or templates.get(DEFAULT_TEMPLATE)
    if template is None:
        available = ", ".join(sorted(templates)) or "none"
        raise SpecRefused(
            "DeploymentReady",
            "TemplateMissing",
            f"Project {project.metadata.name} has no template {template_type} and no "
            f"{DEFAULT_TEMPLATE} template (available: {available}); add one to its spec.templates",
        )
    mode = environment.spec.deployment_mode
    if mode is not None and mode != template.type:
        raise SpecRefused(
            "DeploymentReady",
            "ModeMismatch",
            f"spec.deploymentMode is {mode}, but template {template_type} is of type "
            f"{template.type}; remove deploymentMode",
        )
    return template


def desired_sources(project: Project, environment: Environment) -> tuple[DesiredSource, ...]:
    """The desired commit of each repository, in the order of the Project."""
    sources = project.spec.sources or ()
    requested = _requested_sources(sources, environment.spec.sources or ())
    return tuple(_desired_source(source, requested.get(source.name)) for source in sources)


def template_source_name(project: Project, template: Template) -> str:
    """The name of the source that a template is read from."""
    return template.source_ref or (project.spec.sources or ())[0].name


def named_amounts(spec: msgspec.Struct | None) -> dict[str, str]:
    """The amounts that are set in a spec, by their names in JSON."""
    if spec is None:
        return {}
    named: Mapping[str, object] = msgspec.to_builtins(spec)
    return {name: str(value) for name, value in named.items() if value is not None}


def container_bounds(project: Project) -> ContainerBounds:
    """Default requests, default limits and maxima of a container, as the Project sets them."""
    bounds = project.spec.resources.limit_range
    if bounds is None:
        return ContainerBounds()
    return ContainerBounds(
        _per_container(bounds.default_request),
        _per_container(bounds.default),
        _per_container(bounds.max),
    )


def egress_rules(project: Project, *, trusted: bool) -> tuple[EgressRule, ...]:
    """The egress rules of the Project; for untrusted Environments those marked for them."""
    return tuple(
        EgressRule(row.name, row.cidrs, tuple((port.port, port.protocol) for port in row.ports))
        for row in project.spec.network.egress
        if trusted or row.untrusted
    )


def _requested_sources(
    sources: tuple[ProjectSource, ...], requested: tuple[EnvironmentSource, ...]
) -> dict[str, EnvironmentSource]:
    """The sources of an Environment by the name of the Project's source they refer to."""
    # With one source on either side the name does not matter.
    if len(sources) == 1 and len(requested) == 1:
        return {sources[0].name: requested[0]}
    names = {source.name for source in sources}
    unknown = sorted(source.name for source in requested if source.name not in names)
    if unknown:
        raise SpecRefused(
            "BuildReady",
            "SourceUnknown",
            f"spec.sources: {', '.join(unknown)} not found in the Project; "
            f"available: {', '.join(sorted(names))}",
        )
    return {source.name: source for source in requested}


def _desired_source(source: ProjectSource, requested: EnvironmentSource | None) -> DesiredSource:
    commit = requested.commit_sha if requested is not None else ""
    return DesiredSource(
        name=source.name,
        repository_url=source.repository_url,
        secret_name=source.secret_ref.name if source.secret_ref is not None else "",
        branch=(requested.branch if requested is not None else "") or source.branch,
        commit="" if commit == HEAD else commit,
    )


def _per_container(resources: ContainerResources | None) -> dict[str, str]:
    renamed = {"ephemeralStorage": "ephemeral-storage"}
    return {renamed.get(name, name): value for name, value in named_amounts(resources).items()}
