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
        Meta(description="GitRepoConfig of the remote to write to."),
    ]
    branch: Annotated[
        BranchName,
        Meta(
            description="Branch to write to. Must be listed in spec.allowedBranches of the "
            "GitRepoConfig."
        ),
    ]
    base_folder: Annotated[
        FolderPath,
        Meta(
            description="Folder of the mirror in the repository, for example clusters/prod. No "
            "other GitDestination may use this folder, a parent or a subfolder of it. When this "
            "field changes, the old folder is left as it is."
        ),
    ]
    allowed_namespaces: Annotated[
        tuple[NamespaceOrAny, ...],
        Meta(
            description="Other namespaces whose WatchRules may use this destination; * allows "
            "every namespace. The namespace of this object is always allowed.",
            max_length=256,
            extra=schema_extra(list_type="set"),
        ),
    ] = ()
    create_branch: Annotated[
        bool,
        Meta(
            description="Create the branch from the default branch of the remote if it does not "
            "exist. Not needed for an empty repository."
        ),
    ] = False
    prune: Annotated[
        Prune,
        Meta(
            description="Which files are removed. Always: files of objects that were deleted, that "
            "are missing from a complete list, or that no rule selects any more. OnEvent: only "
            "files of objects whose deletion was observed. Never: none. Files that are kept are "
            "counted in status.retained; changing this field to Always removes them."
        ),
    ] = "Always"
    commit_window: Annotated[
        WindowDuration | None,
        Meta(
            description="How long changes are collected before they are committed, from 0s (one "
            "commit per change) to 5m. Defaults to a window that adapts to the load."
        ),
    ] = None


class LastPushStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last push that the remote acknowledged."""

    commit: Annotated[str, Meta(description="Commit that was pushed.", max_length=64)]
    time: Annotated[datetime, Meta(description="When the remote acknowledged the push.")]
    files: Annotated[Count, Meta(description="Number of files that it changed.")] = 0


class StreamCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    """The watches of the rules of this destination."""

    total: Annotated[Count, Meta(description="Number of watches.")] = 0
    synced: Annotated[Count, Meta(description="Watches with a complete snapshot.")] = 0
    forbidden: Annotated[Count, Meta(description="Watches that RBAC does not allow.")] = 0
    restarting: Annotated[Count, Meta(description="Watches that are reconnecting.")] = 0


class RefusedObject(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An object that could not be mirrored."""

    object: Annotated[str, Meta(description="Type, namespace and name.", max_length=1024)]
    reason: Annotated[str, Meta(description="Why it is not mirrored.", max_length=1024)]


class GitDestinationStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """How far the mirror is."""

    last_push: Annotated[
        LastPushStatus | None, Meta(description="Last push that the remote acknowledged.")
    ] = None
    objects: Annotated[Count, Meta(description="Number of mirrored objects.")] = 0
    pending: Annotated[Count, Meta(description="Changes that are not pushed yet.")] = 0
    retained: Annotated[Count, Meta(description="Files kept only because of spec.prune.")] = 0
    streams: Annotated[
        StreamCounts | None, Meta(description="Watches of the rules of this destination.")
    ] = None
    refused: Annotated[
        tuple[RefusedObject, ...],
        Meta(
            description="Up to 10 objects that cannot be mirrored, with the reason.",
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
        Column("Branch", ".spec.branch", "Branch that is written to."),
        Column("BaseFolder", ".spec.baseFolder", "Folder of the mirror."),
        READY_COLUMN,
        objects_column("Number of mirrored objects."),
        AGE_COLUMN,
        Column("Commit", ".status.lastPush.commit", "Last pushed commit.", wide=True),
        message_column(wide=True),
    ),
    description="A GitDestination is a folder on a branch that mirrors part of the cluster.",
    sample={
        "metadata": {"name": "prod", "namespace": "windlass-system"},
        "spec": {"repoRef": {"name": "infra"}, "branch": "main", "baseFolder": "clusters/prod"},
    },
)
