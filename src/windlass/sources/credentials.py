"""Credentials for a remote, from the Secrets that an object of ours names.

Every kind says in its own words where its credentials are; `CredentialRefs` is what they have in
common. All objects lie in the namespace of the one that names them. What a key list
leaves open is decided by the first key that has a value.

Reads one Secret or ConfigMap by name, from one namespace.

Nothing is listed and nothing is watched: whoever misses something looks again after a
while. Messages name objects and keys, never values.

Where things of one repository are kept: apart for every credential.

What one credential may read another may not, so nothing fetched with one is ever found by
an asker with the other.
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
from windlass.objects.names import GVR, Object

SECRETS = GVR("", "v1", "secrets")
CONFIG_MAPS = GVR("", "v1", "configmaps")
RECHECK_SECONDS = 15.0

HolderKind = Literal["Secret", "ConfigMap"]


class SecretMissing(Waiting):
    """The object is not there, or reading it `is_refused`."""

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__("SecretMissing", message, after=RECHECK_SECONDS)
        self.is_refused = is_refused


class SecretKeyMissing(Waiting):
    """The object is there and does not hold what is needed."""

    def __init__(self, message: str) -> None:
        super().__init__("SecretKeyMissing", message, after=RECHECK_SECONDS)


@dataclass(frozen=True, slots=True)
class HeldData:
    """What a Secret or ConfigMap holds."""

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
        raise SecretKeyMissing(f"{self} {has} {wanted} (found: {self._found()})")

    def value(self, key: str) -> bytes:
        """The value of `key`; nothing where there is none."""
        return self.data.get(key, b"")

    def _found(self) -> str:
        """The keys, by name only."""
        shown = [key if self.data[key].strip() else f"{key} (empty)" for key in sorted(self.data)]
        return ", ".join(shown) or "nothing"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


async def read_holder(api: Api, kind: HolderKind, namespace: str, name: str) -> HeldData:
    """The object; SecretMissing where it is not there or may not be read."""
    try:
        found = await api.get(SECRETS if kind == "Secret" else CONFIG_MAPS, name, namespace)
    except NotFound as error:
        raise SecretMissing(
            f"{kind} {namespace}/{name} does not exist; create it or fix the reference"
        ) from error
    except Forbidden as error:
        raise SecretMissing(
            f"reading {kind} {namespace}/{name} is not allowed; bind the operator's role there",
            is_refused=True,
        ) from error
    return HeldData(kind, namespace, name, _decoded(kind, found))


def _decoded(kind: HolderKind, found: Object) -> dict[str, bytes]:
    if kind == "ConfigMap":
        return {key: str(text).encode() for key, text in (found.get("data") or {}).items()}
    decoded: dict[str, bytes] = {}
    for key, value in (found.get("data") or {}).items():
        try:
            decoded[key] = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise SecretMalformed(f"key {key} of the Secret is not base64") from error
    return decoded


TOKEN_KEYS = ("token", "bearerToken", "password")
KNOWN_HOSTS_KEYS = ("known_hosts",)
CA_KEYS = ("ca.crt",)


@dataclass(frozen=True, slots=True)
class KeyRef:
    """One value in a Secret or ConfigMap; without a key the first that fits."""

    name: str
    key: str = ""
    kind: HolderKind = "Secret"


@dataclass(frozen=True, slots=True)
class CredentialRefs:
    """Where credentials and trust are: at most one of `secret`, `ssh_key` and `token`.

    `secret` names a Secret in any accepted form; the other two say what it must hold.
    """

    secret: str = ""
    ssh_key: KeyRef | None = None
    token: KeyRef | None = None
    known_hosts: KeyRef | None = None
    ca: KeyRef | None = None
    proxy: str = ""
    verifies_host_keys: bool = True
    prefers_own_hosts: bool = False
    """Whether host keys that lie beside the SSH key win over those of `known_hosts`."""


async def read_credentials(api: Api, namespace: str, named: CredentialRefs) -> Credentials:
    """The credentials; SecretMissing or SecretKeyMissing says what is not there."""
    found = await _proof(api, namespace, named)
    has_own_hosts = named.prefers_own_hosts and bool(found.known_hosts)
    if named.known_hosts is not None and not has_own_hosts:
        hosts = await read_key(api, namespace, named.known_hosts, KNOWN_HOSTS_KEYS)
        found = replace(found, known_hosts=hosts)
    if named.ca is not None:
        found = replace(found, ca=await read_key(api, namespace, named.ca, CA_KEYS))
    if named.proxy:
        held = await read_holder(api, "Secret", namespace, named.proxy)
        found = replace(found, proxy=_proxy(held))
    return replace(found, host_key_verification=named.verifies_host_keys)


async def read_key(api: Api, namespace: str, ref: KeyRef, keys: tuple[str, ...]) -> bytes:
    """The value a reference leads to; `keys` are tried where it names none."""
    held = await read_holder(api, ref.kind, namespace, ref.name)
    return held.first(*((ref.key,) if ref.key else keys))[1]


async def _proof(api: Api, namespace: str, named: CredentialRefs) -> Credentials:
    """What proves who we are."""
    if named.ssh_key is not None:
        held = await read_holder(api, "Secret", namespace, named.ssh_key.name)
        return _understood(held, _ssh_data(held, named.ssh_key.key))
    if named.token is not None:
        held = await read_holder(api, "Secret", namespace, named.token.name)
        return _understood(held, _token_data(held, named.token.key))
    if named.secret:
        held = await read_holder(api, "Secret", namespace, named.secret)
        return _understood(held, held.data)
    return ANONYMOUS


def _ssh_data(held: HeldData, key: str) -> dict[str, bytes]:
    _, text = held.first(*((key,) if key else SSH_KEYS))
    kept = ("ssh-password", "password", "known_hosts")
    return {SSH_KEYS[0]: text} | {name: held.value(name) for name in kept}


def _token_data(held: HeldData, key: str) -> dict[str, bytes]:
    """A `bearerToken` stays one; everything else is a token beside a user name."""
    name, text = held.first(*((key,) if key else TOKEN_KEYS))
    if name == "bearerToken":
        return {name: text}
    return {"token": text, "username": held.value("username")}


def _understood(held: HeldData, data: Mapping[str, bytes]) -> Credentials:
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
    """A directory name for a repository as seen with some credentials."""
    text = f"{remote.fetch_key}\0{remote.user}\0{credentials.fingerprint}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
