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
            description="Secret with the private key. Default keys: ssh-privatekey, identity, "
            "sshPrivateKey. Its key password is the passphrase, if any; its key known_hosts "
            "contains the host keys."
        ),
    ]
    known_hosts_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="Secret with the host keys, instead of known_hosts in secretRef. Default "
            "key: known_hosts. Without any host key an SSH remote is refused."
        ),
    ] = None
    insecure_skip_host_key_check: Annotated[
        bool,
        Meta(
            description="Accepts any host key. An attacker can then read and change what is "
            "fetched; the condition SourceTrusted is False."
        ),
    ] = False


class TokenAuth(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A token for an https remote."""

    secret_ref: Annotated[
        SecretKeyRef,
        Meta(
            description="Secret with the token. Default keys: token, bearerToken, password. Its "
            "key username is the user name, x-access-token by default; bearerToken is sent "
            "as a bearer header."
        ),
    ]


class GitAuth(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who fetches."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        at_most_one("ssh_key", "token", "set sshKey or token, not both"),
    )

    ssh_key: Annotated[SshKeyAuth | None, Meta(description="Private key for an SSH remote.")] = None
    token: Annotated[TokenAuth | None, Meta(description="Token for an https remote.")] = None


class GitSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The repository, and which commit of it."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = remote_url.url_constraints(
        "repo", "spec.git.auth"
    )

    repo: Annotated[
        RemoteUrl,
        Meta(
            description="URL of the repository: https://host/path, ssh://user@host/path or "
            "user@host:path. It must not contain a password or token; put them into the "
            "Secret named by auth. http:// and git:// are allowed only for hosts in "
            "--git-insecure-hosts of the controller and GIT_INSECURE_HOSTS of the agents; agents "
            "do not support file:///."
        ),
    ]
    ref: Annotated[
        RefName,
        Meta(
            description="Branch, tag, full ref name such as refs/heads/x, or full commit ID to "
            "sync. If a branch and a tag have the same name, the tag is used."
        ),
    ]
    auth: Annotated[
        GitAuth | None,
        Meta(description="Credentials. Omit for a public repository."),
    ] = None
    ca_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="Secret with CA certificates (PEM) for an https remote. Default key: "
            "ca.crt."
        ),
    ] = None
    timeout: Annotated[
        Annotated[str, scalars.duration_between("5s", "30m")],
        Meta(description="Timeout of one fetch."),
    ] = "2m"


class Polling(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How often the remote is asked."""

    enabled: Annotated[
        bool,
        Meta(
            description="Polls the remote at every interval. If false, the remote is checked "
            "only when the spec changes, when a reconcile is requested, and when the "
            "controller starts."
        ),
    ] = True
    interval: Annotated[
        Annotated[str, scalars.duration_between("5s", "24h")],
        Meta(description="Time between two polls."),
    ] = "60s"


class GatewayAccess(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the agent connects to the gateway in its pod."""

    api_key_secret_ref: Annotated[
        SecretKeyRef,
        Meta(
            description="Secret with an API token of the gateway in the form name:secret. "
            "Default key: apiKey."
        ),
    ]
    port: Annotated[Port, Meta(description="Port of the gateway on loopback.")] = 8043
    tls: Annotated[bool, Meta(description="Whether that port uses TLS.")] = True
    ca_secret_ref: Annotated[
        SecretKeyRef | None,
        Meta(
            description="Secret with the CA certificate of the gateway. Default key: ca.crt. If "
            "omitted, the certificate is not verified, because the gateway is in the same "
            "pod."
        ),
    ] = None
