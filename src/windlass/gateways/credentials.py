"""The Secrets that an IgnitionSync names, read by name on every pass (REC-3)."""

from __future__ import annotations

from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.api.kinds.ignitionsync_source import GitSource
from windlass.api.schema.object_references import SecretKeyRef
from windlass.git.credentials import Credentials
from windlass.kube.api import Api
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef

API_KEY_KEYS = ("apiKey",)


async def of_git(api: Api, sync: IgnitionSync) -> Credentials:
    """Who fetches; Waiting says which Secret or key is missing."""
    return await credentials.read_credentials(api, sync.metadata.namespace, named(sync.spec.git))


async def check_api_key(api: Api, sync: IgnitionSync) -> None:
    """Waiting, where the key for the gateways is not there; nobody here looks at its value."""
    ref = _key(sync.spec.gateway.api_key_secret_ref)
    await credentials.read_key(api, sync.metadata.namespace, ref, API_KEY_KEYS)


def named(git: GitSource) -> CredentialRefs:
    """Where the credentials of a repository are."""
    ca = _key(git.ca_secret_ref) if git.ca_secret_ref is not None else None
    if git.auth is not None and git.auth.ssh_key is not None:
        ssh = git.auth.ssh_key
        hosts = ssh.known_hosts_secret_ref
        return CredentialRefs(
            ssh_key=_key(ssh.secret_ref),
            known_hosts=_key(hosts) if hosts is not None else None,
            ca=ca,
            verifies_host_keys=not ssh.insecure_skip_host_key_check,
        )
    if git.auth is not None and git.auth.token is not None:
        return CredentialRefs(token=_key(git.auth.token.secret_ref), ca=ca)
    return CredentialRefs(ca=ca)


def _key(ref: SecretKeyRef) -> KeyRef:
    return KeyRef(ref.name, ref.key)
