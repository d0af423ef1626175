"""GitRepoConfig: a Git remote, how to reach it, and who may use it.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from windlass.api.schema import remote_url
from windlass.api.schema.constraint import Constraint, schema_extra
from windlass.api.schema.kind import AGE_COLUMN, READY_COLUMN, Column, Kind, message_column
from windlass.api.schema.object_references import CertificateRef, KnownHostsRef, SecretRef
from windlass.api.schema.remote_url import RemoteUrl
from windlass.api.schema.resource import Resource, ResourceStatus
from windlass.api.schema.scalars import BranchName, NamespaceOrAny, PersonText

HostKeyVerification = Literal["Strict", "Disabled"]
BranchState = Literal["Found", "Missing", "PendingCreation"]


class Committer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The bot identity in commits."""

    name: Annotated[PersonText, Meta(description="Name of the committer.")] = "windlass"
    email: Annotated[PersonText, Meta(description="E-mail address of the committer.")] = (
        "noreply@windlass.invalid"
    )


class Commit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How commits are made."""

    committer: Annotated[
        Committer,
        Meta(
            description="Committer of every commit. The author is the user who made the change "
            "in the cluster."
        ),
    ] = Committer()


class GitRepoConfigSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The remote, how to reach it, and who may use it."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = remote_url.url_constraints(
        "repo_url", "spec.secretRef"
    )

    repo_url: Annotated[
        RemoteUrl,
        Meta(
            description="Address of the remote: https://host/path, ssh://user@host/path or "
            "user@host:path. It must not contain credentials; put them into the Secret named by "
            "secretRef. http:// and git:// are allowed only for hosts in --git-insecure-hosts, "
            "file:// only with --git-allow-file."
        ),
    ]
    allowed_branches: Annotated[
        tuple[BranchName, ...],
        Meta(
            description="The branches that GitDestinations may write to, by their exact names.",
            min_length=1,
            max_length=64,
            extra=schema_extra(list_type="set"),
        ),
    ]
    allowed_namespaces: Annotated[
        tuple[NamespaceOrAny, ...],
        Meta(
            description="Other namespaces whose GitDestinations may use this repository and its "
            "credentials; * allows every namespace. The namespace of this object is always "
            "allowed.",
            max_length=256,
            extra=schema_extra(list_type="set"),
        ),
    ] = ()
    secret_ref: Annotated[
        SecretRef | None,
        Meta(
            description="Secret with the credentials, in the namespace of this object: an SSH "
            "key (ssh-privatekey, identity or sshPrivateKey), username and password, or a token. "
            "Omit it if the remote needs no credentials."
        ),
    ] = None
    known_hosts_ref: Annotated[
        KnownHostsRef | None,
        Meta(
            description="ConfigMap or Secret with the SSH host keys; known_hosts in the Secret of "
            "secretRef takes precedence. An SSH remote without a known host key is refused."
        ),
    ] = None
    host_key_verification: Annotated[
        HostKeyVerification,
        Meta(
            description="Strict refuses an SSH remote whose host key is unknown. Disabled accepts "
            "any host key, so the connection can be intercepted; the condition "
            "TransportVerified is then False."
        ),
    ] = "Strict"
    ca_ref: Annotated[
        CertificateRef | None,
        Meta(description="Additional CA certificates (PEM) for an https remote."),
    ] = None
    commit: Annotated[Commit, Meta(description="Settings of commits.")] = Commit()


class BranchStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """State of one allowed branch on the remote."""

    name: Annotated[str, Meta(description="Name of the branch.", max_length=244)]
    state: Annotated[
        BranchState,
        Meta(
            description="Found: the branch exists. Missing: it does not exist. PendingCreation: "
            "it does not exist yet; a GitDestination or the first push will create it."
        ),
    ]
    sha: Annotated[str, Meta(description="Commit that the branch points to.", max_length=64)] = ""


class GitRepoConfigStatus(
    ResourceStatus, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """What is known of the remote."""

    remote: Annotated[
        str,
        Meta(
            description="Canonical address of the remote, without credentials.",
            max_length=2048,
        ),
    ] = ""
    branches: Annotated[
        tuple[BranchStatus, ...],
        Meta(
            description="State of each allowed branch on the remote.",
            max_length=64,
            extra=schema_extra(list_type="map", keys=("name",)),
        ),
    ] = ()


class GitRepoConfig(Resource, frozen=True, kw_only=True, rename="camel"):
    """A Git remote, how to reach it, and who may use it."""

    spec: GitRepoConfigSpec
    status: GitRepoConfigStatus = msgspec.field(default_factory=GitRepoConfigStatus)


KIND = Kind(
    resource=GitRepoConfig,
    plural="gitrepoconfigs",
    short_names=("grc",),
    namespaced=True,
    columns=(
        Column("URL", ".spec.repoUrl", "Address of the remote.", wide=True),
        READY_COLUMN,
        message_column(wide=False),
        AGE_COLUMN,
    ),
    description="A GitRepoConfig defines a Git remote, its credentials, and who may use it.",
    sample={
        "metadata": {"name": "infra", "namespace": "windlass-system"},
        "spec": {
            "repoUrl": "ssh://git@git.example.com/infra.git",
            "allowedBranches": ["main"],
            "secretRef": {"name": "infra-git"},
        },
    },
)
