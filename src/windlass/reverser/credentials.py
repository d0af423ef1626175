"""Reads what a GitRepoConfig names: its Secret, its host keys, its CA.

Everything is read by name, from the namespace of the object that names it, never listed
and never watched (REF-6, LIF-5). So only looking again notices that something was put right.
"""

from __future__ import annotations

from windlass.api.kinds.gitrepoconfig import GitRepoConfig, GitRepoConfigSpec
from windlass.api.schema.object_references import CertificateRef, KnownHostsRef
from windlass.base.errors import Retryable, Stalled
from windlass.git.credentials import Credentials
from windlass.kube.api import Api
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef, SecretKeyMissing, SecretMissing

LOOK_AGAIN_SECONDS = 3.0


async def read(api: Api, repository: GitRepoConfig) -> Credentials:
    """The credentials of a repository; Stalled says which object or key is missing."""
    try:
        return await credentials.read_credentials(
            api, repository.metadata.namespace, named(repository.spec)
        )
    except SecretKeyMissing as error:
        raise Stalled("SecretMalformed", error.message, after=LOOK_AGAIN_SECONDS) from error
    except SecretMissing as error:
        # An API server that just started refuses for a moment; that takes nothing away.
        decision = Retryable if error.is_refused else Stalled
        raise decision("SecretNotFound", error.message, after=LOOK_AGAIN_SECONDS) from error


def named(spec: GitRepoConfigSpec) -> CredentialRefs:
    """Where the credentials of a repository are."""
    return CredentialRefs(
        secret=spec.secret_ref.name if spec.secret_ref is not None else "",
        known_hosts=_key(spec.known_hosts_ref),
        ca=_key(spec.ca_ref),
        verifies_host_keys=spec.host_key_verification == "Strict",
        prefers_own_hosts=True,
    )


def _key(ref: KnownHostsRef | CertificateRef | None) -> KeyRef | None:
    return KeyRef(ref.name, ref.key, ref.kind) if ref is not None else None
