"""GitDestination: one folder on one branch that mirrors part of the cluster.

Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.schema.constraint import schema_extra
from windlass.api.schema.kind import (
    AGE_COLUMN,
    READY_COLUMN,
    Column,
    Kind,
    message_column,
    objects_column,
)
from windlass.api.schema.object_references import CrossNamespaceRef
from windlass.api.schema.resource import Count, Resource, ResourceStatus
from windlass.api.schema.scalars import BranchName, FolderPath, NamespaceOrAny, WindowDuration

Prune = Literal["Always", "OnEvent", "Never"]


class GitDestinationSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where the mirror stands, and who may send to it."""

    repo_ref: Annotated[
        CrossNamespaceRef,
        Meta(description="The GitRepoConfig whose remote is written to."),
    ]
    branch: Annotated[
        BranchName,
        Meta(
            description="The branch to write to; the GitRepoConfig must list it in "
            "spec.allowedBranches."
        ),
    ]
    base_folder: Annotated[
        FolderPath,
        Meta(
            description="The folder that holds the mirror, for example clusters/prod. No other "
            "destination may use it, a folder above it or a folder below it. After a change the "
            "old folder stays as it is."
        ),
    ]
    allowed_namespaces: Annotated[
        tuple[NamespaceOrAny, ...],
        Meta(
            description="Other namespaces whose WatchRules may send objects here; * grants every "
            "namespace. The own namespace needs no grant.",
            max_length=256,
            extra=schema_extra(list_type="set"),
        ),
    ] = ()
    create_branch: Annotated[
        bool,
        Meta(
            description="Create the branch from the default branch of the remote if it is "
            "missing. An empty repository does not need this."
        ),
    ] = False
    prune: Annotated[
        Prune,
        Meta(
            description="Which files are removed. Always: those of objects that were deleted, that "
            "are missing from a complete list, or that no rule selects any more. OnEvent: only "
            "those whose deletion was observed. Never: none. Files that stay are counted in "
            "status.retained; changing to Always removes them."
        ),
    ] = "Always"
    commit_window: Annotated[
        WindowDuration | None,
        Meta(
            description="How long changes are gathered before they are committed, from 0s (one "
            "commit for each change) to 5m. Left out, the window follows the load."
        ),
    ] = None


class LastPushStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The newest push that the remote confirmed."""

    commit: Annotated[str, Meta(description="The commit that was pushed.", max_length=64)]
    time: Annotated[datetime, Meta(description="When the remote confirmed it.")]
    files: Annotated[Count, Meta(description="How many files it changed.")] = 0


class StreamCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """The watches that feed this destination."""

    total: Annotated[Count, Meta(description="All of them.")] = 0
    synced: Annotated[Count, Meta(description="Those that have seen every live object.")] = 0
    forbidden: Annotated[
        Count, Meta(description="Those for which list or watch is not allowed.")
    ] = 0
    restarting: Annotated[Count, Meta(description="Those that are connecting again.")] = 0


class RefusedObject(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object that could not be mirrored."""

    object: Annotated[str, Meta(description="The object.", max_length=1024)]
    reason: Annotated[str, Meta(description="Why it was left out.", max_length=1024)]


class GitDestinationStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """How far the mirror is."""

    last_push: Annotated[
        LastPushStatus | None, Meta(description="The newest push that the remote confirmed.")
    ] = None
    objects: Annotated[Count, Meta(description="How many objects the folder mirrors.")] = 0
    pending: Annotated[Count, Meta(description="How many changes are not pushed yet.")] = 0
    retained: Annotated[
        Count, Meta(description="How many files spec.prune keeps although they would go.")
    ] = 0
    streams: Annotated[
        StreamCounts | None, Meta(description="The watches that feed this destination.")
    ] = None
    refused: Annotated[
        tuple[RefusedObject, ...],
        Meta(
            description="Up to ten objects that could not be mirrored, and why.",
            max_length=10,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()


class GitDestination(Resource, frozen=True, kw_only=True, rename="camel"):
    """One folder on one branch that mirrors part of the cluster."""

    spec: GitDestinationSpec
    status: GitDestinationStatus = msgspec.field(default_factory=GitDestinationStatus)


KIND = Kind(
    resource=GitDestination,
    plural="gitdestinations",
    short_names=("gdest",),
    namespaced=True,
    columns=(
        Column("Repo", ".spec.repoRef.name", "Name of the GitRepoConfig."),
        Column("Branch", ".spec.branch", "The branch that is written to."),
        Column("BaseFolder", ".spec.baseFolder", "The folder that holds the mirror."),
        READY_COLUMN,
        objects_column("How many objects the folder mirrors."),
        AGE_COLUMN,
        Column("Commit", ".status.lastPush.commit", "The newest pushed commit.", wide=True),
        message_column(wide=True),
    ),
    description="A GitDestination is a folder on a branch that mirrors part of the cluster.",
    sample={
        "metadata": {"name": "prod", "namespace": "windlass-system"},
        "spec": {"repoRef": {"name": "infra"}, "branch": "main", "baseFolder": "clusters/prod"},
    },
)
