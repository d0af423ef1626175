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
    """A Project, in this or, where it grants so, another namespace."""

    name: Annotated[ObjectName, Meta(description="Name of the Project.")]
    namespace: Annotated[
        NamespaceOrSame,
        Meta(
            description="Namespace of the Project; leave it out for the namespace of this object. "
            "Another namespace works only if the Project lists this one in its "
            "spec.environmentNamespaces."
        ),
    ] = ""

    def namespace_from(self, own: str) -> str:
        """The namespace of the Project, for an Environment in namespace `own`."""
        return self.namespace or own


class EnvironmentSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which commits of which Project, and how much they may use."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        exactly_one(
            "source",
            "sources",
            "give sources or source, one of the two; sources: [] follows the Project's branches",
        ),
        immutable("project_ref", "projectRef cannot be changed; create another Environment"),
        immutable("type", "type cannot be changed; create another Environment"),
        may_only_become(
            "trust", "untrusted", "trust may only fall; create another Environment to trust again"
        ),
    )

    project_ref: Annotated[ProjectRef, Meta(description="The Project this is a copy of.")]
    type: Annotated[
        TypeName, Meta(description="Which template of the Project is used, for example staging.")
    ]
    deployment_mode: Annotated[
        DeploymentMode | None,
        Meta(description="How the files become objects; left out, as the template says."),
    ] = None
    sources: Annotated[
        Annotated[
            tuple[EnvironmentSource, ...],
            Meta(max_length=16, extra=schema_extra(list_type="map", keys=("name",))),
        ]
        | None,
        Meta(
            description="Which commits; a repository that is not listed follows the branch that "
            "the Project names."
        ),
    ] = None
    values: Annotated[
        FreeObject | None,
        Meta(
            description="Values for the chart, at most 64 KiB; they win over those of a template "
            "of type helm. Any keys, kept as they are."
        ),
    ] = None
    quota: Annotated[
        Quota | None,
        Meta(
            description="How much it may use instead of the default quota, up to the Project's "
            "spec.resources.maxQuota; an untrusted Environment may only ask for less."
        ),
    ] = None
    trust: Annotated[
        Trust,
        Meta(
            description="Whether somebody vouches for what runs in it. An untrusted Environment "
            "is held as the administrator says, not the Project: its Pod Security level, half of "
            "the quota, its nodes and runtime class, only the egress that the Project marks as "
            "untrusted; its manifests may neither choose nodes nor bring DaemonSets. It may only "
            "fall."
        ),
    ] = "trusted"
    suspend: Annotated[
        bool,
        Meta(description="Leave it as it is until this is false again; deleting it still works."),
    ] = False
    source: Annotated[
        SingleCommit | None,
        Meta(description="Another way to write sources with one entry."),
    ] = None


def canonical_spec(spec: EnvironmentSpec) -> EnvironmentSpec:
    """`spec` with `sources` alone, also where it was written with `source`."""
    sources = project_sources.canonical_environment_sources(spec.source, spec.sources)
    return msgspec.structs.replace(spec, sources=sources, source=None)


class StepStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One step of a reconcile."""

    name: Annotated[str, Meta(description="Name of the stage.", max_length=63)]
    state: Annotated[StepState, Meta(description="How far it is.")]
    started_at: Annotated[datetime | None, Meta(description="When it began.")] = None
    finished_at: Annotated[datetime | None, Meta(description="When it ended.")] = None
    message: Annotated[_Message, Meta(description="What there is to say.")] = ""


class ResolvedSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The commit that a source resolved to."""

    name: Annotated[str, Meta(description="Name of the source.", max_length=63)]
    branch: Annotated[str, Meta(description="The branch.", max_length=255)] = ""
    commit: Annotated[_Commit, Meta(description="The commit.")] = ""
    ref: Annotated[str, Meta(description="Full name of the ref.", max_length=255)] = ""


class ServingStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last revision that was ready."""

    revision: Annotated[Count, Meta(description="Its number.")]
    commits: Annotated[
        Annotated[dict[str, _Commit], Meta(max_length=16)] | None,
        Meta(description="Its commits by source."),
    ] = None
    since: Annotated[datetime | None, Meta(description="Since when.")] = None


class DeletionStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Progress of the deletion."""

    started_at: Annotated[datetime | None, Meta(description="When it began.")] = None
    blocked_by: Annotated[
        tuple[Annotated[str, Meta(max_length=256)], ...],
        Meta(
            description="What the cluster still waits for.",
            max_length=5,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()


class EnvironmentStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """How the copy is."""

    phase: Annotated[Phase | None, Meta(description="How it is, in one word.")] = None
    message: Annotated[_Message, Meta(description="Why, and what to do about it.")] = ""
    progress: Annotated[
        str, Meta(description="Steps that are done, of those there are.", max_length=16)
    ] = ""
    namespace: Annotated[str, Meta(description="The namespace it runs in.", max_length=63)] = ""
    namespace_uid: Annotated[
        str, Meta(description="Identity of that namespace.", max_length=64)
    ] = msgspec.field(default="", name="namespaceUID")
    steps: Annotated[
        tuple[StepStatus, ...],
        Meta(
            description="The stages on the way.",
            max_length=64,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()
    sources: Annotated[
        tuple[ResolvedSource, ...],
        Meta(
            description="The commits that are meant.",
            max_length=16,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()
    revision: Annotated[Count, Meta(description="Number of the wished revision.")] = 0
    serving: Annotated[
        ServingStatus | None, Meta(description="The last revision that was ready.")
    ] = None
    unsupported: Annotated[
        tuple[Annotated[str, Meta(max_length=512)], ...],
        Meta(
            description="What was left out of the bundle.",
            max_length=50,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
    deletion: Annotated[DeletionStatus | None, Meta(description="How far the end is.")] = None
    last_handled_retry_at: Annotated[
        str,
        Meta(
            description="The value of the annotation windlass.dev/retryAt that was last acted "
            "upon.",
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
        Column("Phase", ".status.phase", "How it is."),
        READY_COLUMN,
        Column("Project", ".spec.projectRef.name", "The Project this is a copy of."),
        Column("Progress", ".status.progress", "Steps that are done."),
        AGE_COLUMN,
        Column("Type", ".spec.type", "Which template is used.", wide=True),
        Column("Namespace", ".status.namespace", "The namespace it runs in.", wide=True),
        Column("Branch", ".status.sources[0].branch", "Branch of the first source.", wide=True),
        Column("Commit", ".status.sources[0].commit", "Commit of the first source.", wide=True),
        Column("Message", ".status.message", "Why, in words.", wide=True),
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
