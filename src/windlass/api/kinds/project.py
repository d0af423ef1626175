"""Project: repositories that Environments are made from, and what those may use.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.kinds import project_sources
from windlass.api.kinds.project_limits import Network, ProjectResources, Security
from windlass.api.kinds.project_sources import (
    PRIMARY_SOURCE,
    ProjectSource,
    SingleSource,
    SingleTemplate,
    Template,
    TypeName,
)
from windlass.api.schema.constraint import Constraint, at_most_one, exactly_one, schema_extra
from windlass.api.schema.kind import AGE_COLUMN, READY_COLUMN, Column, Kind, message_column
from windlass.api.schema.resource import CATALYST, Count, Group, Resource, ResourceStatus
from windlass.api.schema.scalars import NamespaceName

FINALIZER = "catalyst.catalyst.dev/finalizer"

DeletionPolicy = Literal["Block", "Cascade"]


def _refers_to_known_sources(spec: ProjectSpec) -> bool:
    names = {source.name for source in spec.sources or ()} or {PRIMARY_SOURCE}
    referenced = {template.source_ref for template in (spec.templates or {}).values()}
    return referenced <= names | {""}


_KNOWN_SOURCES = Constraint(
    "!has(self.templates) || self.templates.all(key, !has(self.templates[key].sourceRef)"
    " || self.templates[key].sourceRef == '' || (has(self.sources)"
    " ? self.sources.exists(source, source.name == self.templates[key].sourceRef)"
    f" : self.templates[key].sourceRef == '{PRIMARY_SOURCE}'))",
    "every sourceRef must be the name of an entry of sources (primary if source is set instead)",
    _refers_to_known_sources,
    "templates",
)


class ProjectSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Repositories, templates that render Environments from them, and limits of Environments."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        exactly_one("source", "sources", "set either sources or source"),
        at_most_one("deployment", "templates", "set templates or deployment, not both"),
        _KNOWN_SOURCES,
    )

    suspend: Annotated[
        bool,
        Meta(
            description="Stop reconciling this Project and its Environments until this is false "
            "again; deletion still works."
        ),
    ] = False
    sources: Annotated[
        Annotated[
            tuple[ProjectSource, ...],
            Meta(
                min_length=1,
                max_length=16,
                extra=schema_extra(list_type="map", keys=("name",)),
            ),
        ]
        | None,
        Meta(description="Repositories that Environments are created from."),
    ] = None
    templates: Annotated[
        Annotated[dict[TypeName, Template], Meta(max_length=16)] | None,
        Meta(
            description="How Environments are rendered, by type; the template named default is "
            "used for every type without one."
        ),
    ] = None
    resources: Annotated[
        ProjectResources,
        Meta(description="Resource limits of an Environment.", extra=schema_extra(filled_in=True)),
    ] = ProjectResources()
    network: Annotated[
        Network,
        Meta(description="Network access of Environments.", extra=schema_extra(filled_in=True)),
    ] = Network()
    security: Annotated[
        Security,
        Meta(
            description="Pod security of trusted Environments.",
            extra=schema_extra(filled_in=True),
        ),
    ] = Security()
    environment_namespaces: Annotated[
        tuple[NamespaceName, ...],
        Meta(
            description="Other namespaces whose Environments may use this Project, and so its "
            "credentials. Its own namespace need not be listed.",
            max_length=64,
            extra=schema_extra(list_type="set"),
        ),
    ] = ()
    deletion_policy: Annotated[
        DeletionPolicy,
        Meta(
            description="What happens when this Project is deleted while Environments use it: "
            "Block waits until they are deleted, Cascade deletes them."
        ),
    ] = "Block"
    source: Annotated[
        SingleSource | None,
        Meta(description="Older form of sources with one entry named primary."),
    ] = None
    deployment: Annotated[
        SingleTemplate | None,
        Meta(description="Older form of templates with one entry named default."),
    ] = None


def canonical_spec(spec: ProjectSpec) -> ProjectSpec:
    """`spec` with `sources` and `templates` alone, also where it was written in the older form."""
    return msgspec.structs.replace(
        spec,
        sources=project_sources.canonical_project_sources(spec.source, spec.sources),
        templates=project_sources.canonical_project_templates(spec.deployment, spec.templates),
        source=None,
        deployment=None,
    )


class EnvironmentCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """Counts of Environments by state."""

    total: Annotated[Count, Meta(description="All Environments of the Project.")] = 0
    ready: Annotated[Count, Meta(description="Environments that are ready.")] = 0
    failed: Annotated[Count, Meta(description="Environments that failed and need attention.")] = 0


class SourceHead(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The current commit of a source."""

    name: Annotated[str, Meta(description="Name of the source.", max_length=63)]
    head: Annotated[str, Meta(description="Newest commit of its branch.", max_length=64)] = ""


class ProjectStatus(ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Observed state of the Project."""

    environments: Annotated[
        EnvironmentCounts | None, Meta(description="Number of Environments.")
    ] = None
    sources: Annotated[
        tuple[SourceHead, ...],
        Meta(
            description="Newest commits of the repositories.",
            max_length=16,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()


class Project(Resource, frozen=True, kw_only=True, rename="camel"):
    """Repositories that Environments are created from, and limits for them."""

    group: ClassVar[Group] = CATALYST
    invalid_reason: ClassVar[str] = "ConfigInvalid"

    @classmethod
    def canonicalize(cls, spec: ProjectSpec) -> ProjectSpec:
        return canonical_spec(spec)

    spec: ProjectSpec
    status: ProjectStatus = msgspec.field(default_factory=ProjectStatus)


KIND = Kind(
    resource=Project,
    plural="projects",
    short_names=("proj", "cproj"),
    namespaced=True,
    columns=(
        READY_COLUMN,
        Column(
            "Environments",
            ".status.environments.total",
            "Number of Environments.",
            type="integer",
        ),
        Column(
            "Running",
            ".status.environments.ready",
            "Number of Environments that are ready.",
            type="integer",
        ),
        message_column(wide=False),
        AGE_COLUMN,
        Column("Repository", ".spec..repositoryUrl", "URL of the first source.", wide=True),
    ),
    description="A Project lists repositories that Environments are created from.",
    sample={
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {
            "sources": [
                {
                    "name": "app",
                    "repositoryUrl": "https://git.example.com/team-a/shop.git",
                    "branch": "main",
                    "secretRef": {"name": "shop-git"},
                }
            ],
            "templates": {
                "default": {"type": "manifest", "sourceRef": "app", "path": "deploy"},
                "preview": {
                    "type": "helm",
                    "sourceRef": "app",
                    "path": "chart",
                    "valuesFiles": ["values/preview.yaml"],
                    "values": {"web": {"replicas": 1}},
                },
            },
        },
    },
)
