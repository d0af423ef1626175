"""Environment: one running copy of a Project in a namespace of its own.

Every field is described by its schema, which is published in the CRD.

Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.kinds import project_sources
from windlass.api.kinds.project_limits import Quota
from windlass.api.kinds.project_sources import EnvironmentSource, SingleCommit, TypeName
from windlass.api.schema.constraint import (
    Constraint,
    exactly_one,
    immutable,
    may_only_become,
    schema_extra,
)
from windlass.api.schema.kind import AGE_COLUMN, READY_COLUMN, Column, Kind
from windlass.api.schema.resource import CATALYST, Count, Group, Resource, ResourceStatus
from windlass.api.schema.scalars import FreeObject, NamespaceOrSame, ObjectName

FINALIZER = "catalyst.dev/finalizer"
RETRY_ANNOTATION = "windlass.dev/retryAt"
"""Annotation: a new value makes a failed Environment try again."""

DeploymentMode = Literal["manifest", "helm"]
Trust = Literal["trusted", "untrusted"]
Phase = Literal[
    "Pending", "Initializing", "Building", "Deploying", "Ready", "Degraded", "Failed", "Deleting"
]
StepState = Literal["Pending", "Running", "Succeeded", "Failed", "Skipped"]

_Commit = Annotated[str, Meta(max_length=64)]
_Message = Annotated[str, Meta(max_length=1024)]


class ProjectRef(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A Project in this namespace, or in one that shares it with this namespace."""

    name: Annotated[ObjectName, Meta(description="Name of the Project.")]
    namespace: Annotated[
        NamespaceOrSame,
        Meta(
            description="Namespace of the Project; defaults to the namespace of this object. "
            "Another namespace works only if the Project lists this one in its "
            "spec.environmentNamespaces."
        ),
    ] = ""

    def namespace_from(self, own: str) -> str:
        """The namespace of the Project, for an Environment in namespace `own`."""
        return self.namespace or own


class EnvironmentSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The commits of a Project to run, and how much they may use."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        exactly_one(
            "source",
            "sources",
            "set either sources or source; sources: [] follows the branches of the Project",
        ),
        immutable("project_ref", "projectRef cannot be changed; create another Environment"),
        immutable("type", "type cannot be changed; create another Environment"),
        may_only_become(
            "trust",
            "untrusted",
            "trust can only be changed to untrusted; create another Environment",
        ),
    )

    project_ref: Annotated[
        ProjectRef, Meta(description="The Project that this Environment is a copy of.")
    ]
    type: Annotated[
        TypeName,
        Meta(
            description="Type of the Environment, which selects the template of the Project, for "
            "example staging."
        ),
    ]
    deployment_mode: Annotated[
        DeploymentMode | None,
        Meta(
            description="How files become objects; defaults to the type of the template and must "
            "not differ from it."
        ),
    ] = None
    sources: Annotated[
        Annotated[
            tuple[EnvironmentSource, ...],
            Meta(max_length=16, extra=schema_extra(list_type="map", keys=("name",))),
        ]
        | None,
        Meta(
            description="Commits or branches to use; a repository that is not listed follows the "
            "branch of the Project."
        ),
    ] = None
    values: Annotated[
        FreeObject | None,
        Meta(
            description="Values for the chart, at most 64 KiB; they override the values of the "
            "template, which must be of type helm. Keys are not checked."
        ),
    ] = None
    quota: Annotated[
        Quota | None,
        Meta(
            description="Quota that overrides the default quota, up to spec.resources.maxQuota of "
            "the Project; an untrusted Environment can only lower it."
        ),
    ] = None
    trust: Annotated[
        Trust,
        Meta(
            description="Whether the code that runs in it is trusted. For an untrusted Environment "
            "the administrator, not the Project, sets the Pod Security level, nodes and runtime "
            "class; by default it gets half of the quota, and only the egress that the Project "
            "marks as untrusted, and its manifests must not select nodes or contain DaemonSets. "
            "Can only be changed from trusted to untrusted."
        ),
    ] = "trusted"
    suspend: Annotated[
        bool,
        Meta(description="Stop reconciling until this is false again; deletion still works."),
    ] = False
    source: Annotated[
        SingleCommit | None,
        Meta(description="Older form of sources with one entry."),
    ] = None


def canonical_spec(spec: EnvironmentSpec) -> EnvironmentSpec:
    """`spec` with `sources` alone, also where it was written with `source`."""
    sources = project_sources.canonical_environment_sources(spec.source, spec.sources)
    return msgspec.structs.replace(spec, sources=sources, source=None)


class StepStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One step of a reconcile."""

    name: Annotated[str, Meta(description="Name of the step.", max_length=63)]
    state: Annotated[StepState, Meta(description="State of the step.")]
    started_at: Annotated[datetime | None, Meta(description="When it began.")] = None
    finished_at: Annotated[datetime | None, Meta(description="When it ended.")] = None
    message: Annotated[_Message, Meta(description="Details for people.")] = ""


class ResolvedSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The commit that a source resolved to."""

    name: Annotated[str, Meta(description="Name of the source.", max_length=63)]
    branch: Annotated[str, Meta(description="Name of the branch.", max_length=255)] = ""
    commit: Annotated[_Commit, Meta(description="Full id of the commit.")] = ""
    ref: Annotated[str, Meta(description="Full name of the ref.", max_length=255)] = ""


class ServingStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last revision that was ready."""

    revision: Annotated[Count, Meta(description="Number of the revision.")]
    commits: Annotated[
        Annotated[dict[str, _Commit], Meta(max_length=16)] | None,
        Meta(description="Commits of the revision, by name of the source."),
    ] = None
    since: Annotated[datetime | None, Meta(description="When it became ready.")] = None


class DeletionStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Progress of the deletion."""

    started_at: Annotated[datetime | None, Meta(description="When it began.")] = None
    blocked_by: Annotated[
        tuple[Annotated[str, Meta(max_length=256)], ...],
        Meta(
            description="What blocks the deletion of the namespace.",
            max_length=5,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()


class EnvironmentStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """Observed state of the Environment."""

    phase: Annotated[Phase | None, Meta(description="Summary of the state in one word.")] = None
    message: Annotated[
        _Message, Meta(description="Explanation of the phase, with the remedy where one is needed.")
    ] = ""
    progress: Annotated[
        str, Meta(description="Steps that succeeded, of all steps, such as 3/7.", max_length=16)
    ] = ""
    namespace: Annotated[str, Meta(description="The namespace it runs in.", max_length=63)] = ""
    namespace_uid: Annotated[str, Meta(description="UID of the namespace.", max_length=64)] = (
        msgspec.field(default="", name="namespaceUID")
    )
    steps: Annotated[
        tuple[StepStatus, ...],
        Meta(
            description="Steps of the reconcile, in order.",
            max_length=64,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()
    sources: Annotated[
        tuple[ResolvedSource, ...],
        Meta(
            description="Commits of the desired revision.",
            max_length=16,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()
    revision: Annotated[Count, Meta(description="Number of the desired revision.")] = 0
    serving: Annotated[
        ServingStatus | None, Meta(description="The last revision that was ready.")
    ] = None
    unsupported: Annotated[
        tuple[Annotated[str, Meta(max_length=512)], ...],
        Meta(
            description="Objects and fields that are not applied, or are applied with changes.",
            max_length=50,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    deletion: Annotated[DeletionStatus | None, Meta(description="Progress of the deletion.")] = None
    last_handled_retry_at: Annotated[
        str,
        Meta(
            description="Value of the annotation windlass.dev/retryAt that was handled last.",
            max_length=256,
        ),
    ] = ""


class Environment(Resource, frozen=True, kw_only=True, rename="camel"):
    """One running copy of a Project in a namespace of its own."""

    group: ClassVar[Group] = CATALYST
    invalid_reason: ClassVar[str] = "ConfigInvalid"

    @classmethod
    def canonicalize(cls, spec: EnvironmentSpec) -> EnvironmentSpec:
        return canonical_spec(spec)

    spec: EnvironmentSpec
    status: EnvironmentStatus = msgspec.field(default_factory=EnvironmentStatus)


KIND = Kind(
    resource=Environment,
    plural="environments",
    short_names=("env", "cenv"),
    namespaced=True,
    columns=(
        Column("Phase", ".status.phase", "Summary of the state."),
        READY_COLUMN,
        Column(
            "Project", ".spec.projectRef.name", "The Project that this Environment is a copy of."
        ),
        Column("Progress", ".status.progress", "Steps that succeeded, of all steps."),
        AGE_COLUMN,
        Column("Type", ".spec.type", "Type of the Environment.", wide=True),
        Column("Namespace", ".status.namespace", "The namespace it runs in.", wide=True),
        Column("Branch", ".status.sources[0].branch", "Branch of the first source.", wide=True),
        Column("Commit", ".status.sources[0].commit", "Commit of the first source.", wide=True),
        Column("Message", ".status.message", "Explanation of the phase.", wide=True),
    ),
    description="An Environment is one running copy of a Project in a namespace of its own.",
    sample={
        "metadata": {"name": "staging", "namespace": "team-a"},
        "spec": {
            "projectRef": {"name": "shop"},
            "type": "staging",
            "sources": [{"name": "app", "branch": "main"}],
        },
    },
)
