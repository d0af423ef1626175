"""Reads the credentials of a remote from the Secrets and ConfigMaps that an object names.

Every kind has its own fields for them; `CredentialRefs` is what they have in common. All objects
are in the namespace of the one that names them. Where no key is named, the first accepted key with
a value is used. Nothing is listed or watched: a missing object is read again after a while.
Messages name objects and keys, never values.

`store_name` keeps the data of a repository apart per credential: what one credential may read,
another may not, so nothing fetched with one is served to a caller with another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from windlass.base.errors import Waiting
from windlass.git import credentials
from windlass.git.credentials import ANONYMOUS, SSH_KEYS, Credentials, Proxy
from windlass.git.errors import SecretMalformed
from windlass.git.format.remote import Remote
from windlass.kube.api import Api
from windlass.kube.errors import Forbidden, NotFound
from windlass.objects.names import Object
from windlass.objects.resources import CONFIG_MAPS, SECRETS

RECHECK_SECONDS = 15.0

HolderKind = Literal["Secret", "ConfigMap"]


class SecretMissing(Waiting):
    """The object does not exist, or reading it `is_refused`."""

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__("SecretMissing", message, after=RECHECK_SECONDS)
        self.is_refused = is_refused


class SecretKeyMissing(Waiting):
    """The object exists and lacks a needed key."""

    def __init__(self, message: str) -> None:
        super().__init__("SecretKeyMissing", message, after=RECHECK_SECONDS)


@dataclass(frozen=True, slots=True)
class HeldData:
    """The data of a Secret or ConfigMap."""

    kind: HolderKind
    namespace: str
    name: str
    data: Mapping[str, bytes] = field(repr=False)

    def first(self, *keys: str) -> tuple[str, bytes]:
        """The first of `keys` that has a value, and the value."""
        for key in keys:
            if self.data.get(key, b"").strip():
                return key, self.data[key]
        wanted = f"key {keys[0]}" if len(keys) == 1 else f"none of the keys {', '.join(keys)}"
        has = "has no" if len(keys) == 1 else "has"
        raise SecretKeyMissing(f"{self} {has} {wanted} (found: {self._key_names()})")

    def value(self, key: str) -> bytes:
        """The value of `key`; empty where there is none."""
        return self.data.get(key, b"")

    def _key_names(self) -> str:
        """The keys, by name only."""
        shown = [key if self.data[key].strip() else f"{key} (empty)" for key in sorted(self.data)]
        return ", ".join(shown) or "none"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


async def read_holder(api: Api, kind: HolderKind, namespace: str, name: str) -> HeldData:
    """Read a Secret or ConfigMap; SecretMissing where it does not exist or is forbidden."""
    try:
        obj = await api.get(SECRETS if kind == "Secret" else CONFIG_MAPS, name, namespace)
    except NotFound as error:
        raise SecretMissing(
            f"{kind} {namespace}/{name} not found; create it or fix the reference"
        ) from error
    except Forbidden as error:
        raise SecretMissing(
            f"{kind} {namespace}/{name} cannot be read: forbidden; grant the operator get on "
            f"{kind}s in namespace {namespace}",
            is_refused=True,
        ) from error
    return HeldData(kind, namespace, name, _decoded(kind, obj))


def _decoded(kind: HolderKind, obj: Object) -> dict[str, bytes]:
    if kind == "ConfigMap":
        return {key: str(text).encode() for key, text in (obj.get("data") or {}).items()}
    decoded: dict[str, bytes] = {}
    for key, value in (obj.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SecretMalformed(f"key {key} of the Secret is not valid base64") from error
    return decoded


TOKEN_KEYS = ("token", "bearerToken", "password")
KNOWN_HOSTS_KEYS = ("known_hosts",)
CA_KEYS = ("ca.crt",)


@dataclass(frozen=True, slots=True)
class KeyRef:
    """One value in a Secret or ConfigMap; without a key the first accepted one."""

    name: str
    key: str = ""
    kind: HolderKind = "Secret"


@dataclass(frozen=True, slots=True)
class CredentialRefs:
    """References to credentials and trust: at most one of `secret`, `ssh_key` and `token`."""

    secret: str = ""  # a Secret in any accepted form; empty: none
    ssh_key: KeyRef | None = None  # a private SSH key
    token: KeyRef | None = None  # a token or bearer token
    known_hosts: KeyRef | None = None  # SSH host keys
    ca: KeyRef | None = None  # PEM certificates to trust
    proxy: str = ""  # a Secret with a proxy; empty: none
    verifies_host_keys: bool = True  # False accepts any SSH host key
    prefers_own_hosts: bool = False  # host keys in the Secret of the SSH key win over `known_hosts`


async def read_credentials(api: Api, namespace: str, refs: CredentialRefs) -> Credentials:
    """Read all references; SecretMissing or SecretKeyMissing names what is missing."""
    result = await _read_proof(api, namespace, refs)
    has_own_hosts = refs.prefers_own_hosts and bool(result.known_hosts)
    if refs.known_hosts is not None and not has_own_hosts:
        hosts = await read_key(api, namespace, refs.known_hosts, KNOWN_HOSTS_KEYS)
        result = replace(result, known_hosts=hosts)
    if refs.ca is not None:
        result = replace(result, ca=await read_key(api, namespace, refs.ca, CA_KEYS))
    if refs.proxy:
        held = await read_holder(api, "Secret", namespace, refs.proxy)
        result = replace(result, proxy=_proxy(held))
    return replace(result, host_key_verification=refs.verifies_host_keys)


async def read_key(api: Api, namespace: str, ref: KeyRef, keys: tuple[str, ...]) -> bytes:
    """The value of a reference; `keys` are tried where it names none."""
    held = await read_holder(api, ref.kind, namespace, ref.name)
    return held.first(*((ref.key,) if ref.key else keys))[1]


async def _read_proof(api: Api, namespace: str, refs: CredentialRefs) -> Credentials:
    """The credentials without known hosts, CA and proxy of their own."""
    if refs.ssh_key is not None:
        held = await read_holder(api, "Secret", namespace, refs.ssh_key.name)
        return _parse_credentials(held, _ssh_data(held, refs.ssh_key.key))
    if refs.token is not None:
        held = await read_holder(api, "Secret", namespace, refs.token.name)
        return _parse_credentials(held, _token_data(held, refs.token.key))
    if refs.secret:
        held = await read_holder(api, "Secret", namespace, refs.secret)
        return _parse_credentials(held, held.data)
    return ANONYMOUS


def _ssh_data(held: HeldData, key: str) -> dict[str, bytes]:
    _, text = held.first(*((key,) if key else SSH_KEYS))
    optional = ("ssh-password", "password", "known_hosts")
    return {SSH_KEYS[0]: text} | {name: held.value(name) for name in optional}


def _token_data(held: HeldData, key: str) -> dict[str, bytes]:
    """A `bearerToken` stays one; everything else is a token beside a user name."""
    name, text = held.first(*((key,) if key else TOKEN_KEYS))
    if name == "bearerToken":
        return {name: text}
    return {"token": text, "username": held.value("username")}


def _parse_credentials(held: HeldData, data: Mapping[str, bytes]) -> Credentials:
    try:
        return credentials.from_secret(data)
    except SecretMalformed as error:
        raise SecretKeyMissing(f"{held}: {error.message}") from error


def _proxy(held: HeldData) -> Proxy:
    held.first("address")
    try:
        return credentials.proxy_from_secret(held.data)
    except SecretMalformed as error:
        raise SecretKeyMissing(f"{held}: {error.message}") from error


def store_name(remote: Remote, credentials: Credentials) -> str:
    """A directory name for a repository read with these credentials."""
    text = f"{remote.fetch_key}\0{remote.user}\0{credentials.fingerprint}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
