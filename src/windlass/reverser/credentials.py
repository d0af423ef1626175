"""Reads what a GitRepoConfig names: its Secret, its host keys, its CA.

Everything is read by name, from the namespace of the object that names it, never listed
and never watched (REF-6, LIF-5).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace

from windlass.api.gitrepoconfig import GitRepoConfig
from windlass.api.references import CertificateRef, KnownHostsRef
from windlass.base.errors import Retryable, Stalled
from windlass.git import credentials
from windlass.git.credentials import Credentials
from windlass.git.errors import SecretMalformed
from windlass.kube.api import Api
from windlass.kube.errors import Forbidden, NotFound
from windlass.objects.gvr import GVR
from windlass.objects.json import Object

SECRETS = GVR("", "v1", "secrets")
CONFIG_MAPS = GVR("", "v1", "configmaps")

LOOK_AGAIN_SECONDS = 3.0


async def read(api: Api, repository: GitRepoConfig) -> Credentials:
    """The credentials of a repository; Stalled says which object or key is missing."""
    spec, namespace = repository.spec, repository.metadata.namespace
    found = credentials.ANONYMOUS
    if spec.secret_ref is not None:
        secret = await _get(api, SECRETS, "Secret", namespace, spec.secret_ref.name)
        found = _understood(secret)
    if spec.known_hosts_ref is not None and not found.known_hosts:
        found = replace(found, known_hosts=await _key(api, namespace, spec.known_hosts_ref))
    if spec.ca_ref is not None:
        found = replace(found, ca=await _key(api, namespace, spec.ca_ref))
    return replace(found, host_key_verification=spec.host_key_verification == "Strict")


def _understood(secret: Object) -> Credentials:
    try:
        return credentials.from_secret(_secret_data(secret))
    except SecretMalformed as error:
        # A Secret is not watched: only looking again notices that it was corrected.
        raise Stalled("SecretMalformed", error.message, after=LOOK_AGAIN_SECONDS) from error


async def _key(api: Api, namespace: str, ref: KnownHostsRef | CertificateRef) -> bytes:
    if ref.kind == "Secret":
        data = _secret_data(await _get(api, SECRETS, "Secret", namespace, ref.name))
    else:
        held = await _get(api, CONFIG_MAPS, "ConfigMap", namespace, ref.name)
        data = {key: str(text).encode() for key, text in (held.get("data") or {}).items()}
    if ref.key not in data:
        raise Stalled(
            "SecretMalformed",
            f"{ref.kind} {namespace}/{ref.name} has no key {ref.key}; add it or name another",
            after=LOOK_AGAIN_SECONDS,
        )
    return data[ref.key]


async def _get(api: Api, gvr: GVR, kind: str, namespace: str, name: str) -> Object:
    try:
        return await api.get(gvr, name, namespace)
    except NotFound as error:
        raise Stalled(
            "SecretNotFound",
            f"{kind} {namespace}/{name} does not exist; create it or fix the reference",
            after=LOOK_AGAIN_SECONDS,
        ) from error
    except Forbidden as error:
        # An API server that just started refuses for a moment; that takes nothing away.
        raise Retryable(
            "SecretNotFound",
            f"reading {kind} {namespace}/{name} is not allowed; bind the role windlass-reverser",
            after=LOOK_AGAIN_SECONDS,
        ) from error


def _secret_data(secret: Object) -> dict[str, bytes]:
    decoded: dict[str, bytes] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Stalled("SecretMalformed", f"key {key} of the Secret is not base64") from error
    return decoded
