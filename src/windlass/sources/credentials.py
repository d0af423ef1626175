"""Credentials for a remote, from the Secrets that an object of ours names.

Every kind says in its own words where its credentials are; `Named` is what they have in
common. All objects lie in the namespace of the one that names them. What a key list
leaves open is decided by the first key that has a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from windlass.git import credentials
from windlass.git.credentials import ANONYMOUS, SSH_KEYS, Credentials, Proxy
from windlass.git.errors import SecretMalformed
from windlass.kube.api import Api
from windlass.sources import secrets
from windlass.sources.secrets import Held, HolderKind, SecretKeyMissing

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
class Named:
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


async def read(api: Api, namespace: str, named: Named) -> Credentials:
    """The credentials; SecretMissing or SecretKeyMissing says what is not there."""
    found = await _proof(api, namespace, named)
    has_own_hosts = named.prefers_own_hosts and bool(found.known_hosts)
    if named.known_hosts is not None and not has_own_hosts:
        hosts = await value(api, namespace, named.known_hosts, KNOWN_HOSTS_KEYS)
        found = replace(found, known_hosts=hosts)
    if named.ca is not None:
        found = replace(found, ca=await value(api, namespace, named.ca, CA_KEYS))
    if named.proxy:
        held = await secrets.read(api, "Secret", namespace, named.proxy)
        found = replace(found, proxy=_proxy(held))
    return replace(found, host_key_verification=named.verifies_host_keys)


async def value(api: Api, namespace: str, ref: KeyRef, keys: tuple[str, ...]) -> bytes:
    """The value a reference leads to; `keys` are tried where it names none."""
    held = await secrets.read(api, ref.kind, namespace, ref.name)
    return held.first(*((ref.key,) if ref.key else keys))[1]


async def _proof(api: Api, namespace: str, named: Named) -> Credentials:
    """What proves who we are."""
    if named.ssh_key is not None:
        held = await secrets.read(api, "Secret", namespace, named.ssh_key.name)
        return _understood(held, _ssh_data(held, named.ssh_key.key))
    if named.token is not None:
        held = await secrets.read(api, "Secret", namespace, named.token.name)
        return _understood(held, _token_data(held, named.token.key))
    if named.secret:
        held = await secrets.read(api, "Secret", namespace, named.secret)
        return _understood(held, held.data)
    return ANONYMOUS


def _ssh_data(held: Held, key: str) -> dict[str, bytes]:
    _, text = held.first(*((key,) if key else SSH_KEYS))
    kept = ("ssh-password", "password", "known_hosts")
    return {SSH_KEYS[0]: text} | {name: held.value(name) for name in kept}


def _token_data(held: Held, key: str) -> dict[str, bytes]:
    """A `bearerToken` stays one; everything else is a token beside a user name."""
    name, text = held.first(*((key,) if key else TOKEN_KEYS))
    if name == "bearerToken":
        return {name: text}
    return {"token": text, "username": held.value("username")}


def _understood(held: Held, data: Mapping[str, bytes]) -> Credentials:
    try:
        return credentials.from_secret(data)
    except SecretMalformed as error:
        raise SecretKeyMissing(f"{held}: {error.message}") from error


def _proxy(held: Held) -> Proxy:
    held.first("address")
    try:
        return credentials.proxy_from_secret(held.data)
    except SecretMalformed as error:
        raise SecretKeyMissing(f"{held}: {error.message}") from error
