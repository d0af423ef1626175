"""Reads what a GitRepoConfig names: its Secret, its host keys, its CA.

Everything is read by name, from the namespace of the object that names it, never listed
and never watched (REF-6, LIF-5).
"""

from __future__ import annotations

from dataclasses import replace

from windlass.api.gitrepoconfig import GitRepoConfig
from windlass.api.references import CertificateRef, KnownHostsRef
from windlass.base.errors import Retryable, Stalled
from windlass.git import credentials
from windlass.git.credentials import Credentials
from windlass.git.errors import SecretMalformed
from windlass.kube.api import Api
from windlass.sources import secrets
from windlass.sources.secrets import Held, HolderKind, SecretKeyMissing, SecretMissing

LOOK_AGAIN_SECONDS = 3.0


async def read(api: Api, repository: GitRepoConfig) -> Credentials:
    """The credentials of a repository; Stalled says which object or key is missing."""
    spec, namespace = repository.spec, repository.metadata.namespace
    found = credentials.ANONYMOUS
    if spec.secret_ref is not None:
        found = _understood(await _get(api, "Secret", namespace, spec.secret_ref.name))
    if spec.known_hosts_ref is not None and not found.known_hosts:
        found = replace(found, known_hosts=await _key(api, namespace, spec.known_hosts_ref))
    if spec.ca_ref is not None:
        found = replace(found, ca=await _key(api, namespace, spec.ca_ref))
    return replace(found, host_key_verification=spec.host_key_verification == "Strict")


def _understood(secret: Held) -> Credentials:
    try:
        return credentials.from_secret(secret.data)
    except SecretMalformed as error:
        # A Secret is not watched: only looking again notices that it was corrected.
        raise Stalled("SecretMalformed", error.message, after=LOOK_AGAIN_SECONDS) from error


async def _key(api: Api, namespace: str, ref: KnownHostsRef | CertificateRef) -> bytes:
    held = await _get(api, ref.kind, namespace, ref.name)
    try:
        return held.first(ref.key)[1]
    except SecretKeyMissing as error:
        raise Stalled("SecretMalformed", error.message, after=LOOK_AGAIN_SECONDS) from error


async def _get(api: Api, kind: HolderKind, namespace: str, name: str) -> Held:
    try:
        return await secrets.read(api, kind, namespace, name)
    except SecretMissing as error:
        if not error.is_refused:
            raise Stalled("SecretNotFound", error.message, after=LOOK_AGAIN_SECONDS) from error
        # An API server that just started refuses for a moment; that takes nothing away.
        raise Retryable(
            "SecretNotFound",
            f"reading {kind} {namespace}/{name} is not allowed; bind the role windlass-reverser",
            after=LOOK_AGAIN_SECONDS,
        ) from error
