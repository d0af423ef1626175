"""Part of the IgnitionSync spec: the Git repository, its credentials, access to the gateway.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from windlass.api.schema import remote_url, scalars
from windlass.api.schema.constraint import Constraint, at_most_one
from windlass.api.schema.object_references import SecretKeyRef
from windlass.api.schema.remote_url import RemoteUrl
from windlass.api.schema.scalars import RefName

Port = Annotated[int, Meta(ge=1, le=65535)]


class SshKeyAuth(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A private key, and how the host on the other side is known."""

    secret_ref: Annotated[
        SecretKeyRef,
        Meta(
            description="The Secret with the private key. Usual keys: ssh-privatekey, identity, "
            "sshPrivateKey. Its key password is the passphrase, if there is one; its key "
            "known_hosts holds the host keys."
        ),
    ]
    known_hosts_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="Another Secret with the host keys. Usual key: known_hosts. Without any "
            "known host key an SSH remote is refused."
        ),
    ] = None
    insecure_skip_host_key_check: Annotated[
        bool,
        Meta(
            description="Accept any host key. Somebody in between can then read and change what "
            "is fetched; the condition SourceTrusted says False."
        ),
    ] = False


class TokenAuth(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A token for an https remote."""

    secret_ref: Annotated[
        SecretKeyRef,
        Meta(
            description="The Secret with the token. Usual keys: token, bearerToken, password. Its "
            "key username is the user, x-access-token if there is none; bearerToken is sent as "
            "a bearer header."
        ),
    ]


class GitAuth(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who fetches."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        at_most_one("ssh_key", "token", "give sshKey or token, not both"),
    )

    ssh_key: Annotated[SshKeyAuth | None, Meta(description="A key for an SSH remote.")] = None
    token: Annotated[TokenAuth | None, Meta(description="A token for an https remote.")] = None


class GitSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The repository, and which commit of it."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = remote_url.url_constraints(
        "repo", "spec.git.auth"
    )

    repo: Annotated[
        RemoteUrl,
        Meta(
            description="Address of the repository: https://host/path, ssh://user@host/path or "
            "user@host:path. It never holds a password or token; those stand in the Secret named "
            "by auth. http:// and git:// work only for hosts that the administrator listed as "
            "insecure, file:/// only at the desk."
        ),
    ]
    ref: Annotated[
        RefName,
        Meta(
            description="What to bring onto the gateways: a branch, a tag, a full name such as "
            "refs/heads/x, or a full commit id. A name that is both is the tag."
        ),
    ]
    auth: Annotated[
        GitAuth | None,
        Meta(description="Credentials; left out for a repository that needs none."),
    ] = None
    ca_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="A Secret with CA certificates (PEM) for an https remote. Usual key: "
            "ca.crt."
        ),
    ] = None
    timeout: Annotated[
        Annotated[str, scalars.duration_between("5s", "30m")],
        Meta(description="How long one fetch may take."),
    ] = "2m"


class Polling(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How often the remote is asked."""

    enabled: Annotated[
        bool,
        Meta(
            description="Ask the remote for news at every interval. If false it is asked when the "
            "spec changes, when somebody requests it, and at start."
        ),
    ] = True
    interval: Annotated[
        Annotated[str, scalars.duration_between("5s", "24h")],
        Meta(description="Time between two questions."),
    ] = "60s"


class GatewayAccess(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the agent connects to the gateway in its pod."""

    api_key_secret_ref: Annotated[
        SecretKeyRef,
        Meta(
            description="The Secret with an API token of the gateway, written name:secret. Usual "
            "key: apiKey."
        ),
    ]
    port: Annotated[Port, Meta(description="Port of the gateway on loopback.")] = 8043
    tls: Annotated[bool, Meta(description="Whether that port speaks TLS.")] = True
    ca_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="A Secret with the CA certificate of the gateway. Usual key: ca.crt. Left "
            "out, the certificate is not checked, because the gateway is in the same pod."
        ),
    ] = None
