"""What lies in files around an agent: its pod's labels and annotations, and credentials.

All of it is mounted, all of it may change or be missing at any moment, so it is read again
for every use. Values of Secrets are in no error and in no log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from windlass.base.errors import Waiting
from windlass.gateways.decide import pod_info
from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.metadata import AuthType, Source
from windlass.git import credentials
from windlass.git.credentials import ANONYMOUS, SSH_KEYS, Credentials
from windlass.git.errors import SecretMalformed

_LARGEST = 1024 * 1024
_LOOK_AGAIN_SECONDS = 15.0
_TOKEN_KEYS = ("token", "bearerToken", "password")
_TRUST_KEYS = ("known_hosts", "ca.crt")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this agent is."""

    pod_name: str
    pod_uid: str
    namespace: str
    cr_name: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the files around an agent lie."""

    data: Path
    store: Path
    pod_info: Path
    api_key: Path
    git_auth: Path
    git_ca: Path
    gateway_ca: Path


def pod(identity: Identity, places: Places) -> Pod:
    """The pod as the kubelet tells it now."""
    return Pod(
        identity.pod_name,
        identity.namespace,
        pod_info.read(_text(places.pod_info / "annotations")),
        pod_info.read(_text(places.pod_info / "labels")),
    )


def api_token_name(places: Places) -> str:
    """The name in the key we scan with; empty while there is none."""
    name, colon, _ = _text(places.api_key).strip().partition(":")
    return name if colon else ""


def gateway_ca(places: Places) -> Path | None:
    """The authority of the gateway's certificate, where one was given."""
    return places.gateway_ca if places.gateway_ca.is_file() else None


def git_credentials(places: Places, source: Source, *, verifies_host_keys: bool) -> Credentials:
    """What proves to the repository who we are; Waiting while the Secret is not there."""
    found = ANONYMOUS
    if source.auth_type != "none":
        found = _proof(_files(places.git_auth), source.auth_type)
    authority = _files(places.git_ca).get("ca.crt", b"")
    if authority.strip():
        found = replace(found, ca=authority)
    return replace(found, host_key_verification=verifies_host_keys)


def _proof(data: dict[str, bytes], auth_type: AuthType) -> Credentials:
    wanted = SSH_KEYS if auth_type == "ssh" else _TOKEN_KEYS
    key = next((name for name in wanted if data.get(name, b"").strip()), None)
    if key is None:
        shown = ", ".join(sorted(data)) or "nothing"
        raise Waiting(
            "WaitingForCredential",
            f"the Git Secret holds none of the keys {', '.join(wanted)} (found: {shown}); "
            "create the Secret that git.auth names",
            after=_LOOK_AGAIN_SECONDS,
        )
    if auth_type == "ssh":
        kept = {SSH_KEYS[0]: data[key], **_chosen(data, "ssh-password", "password", *_TRUST_KEYS)}
    elif key == "bearerToken":
        kept = {key: data[key], **_chosen(data, *_TRUST_KEYS)}
    else:
        kept = {"token": data[key], **_chosen(data, "username", *_TRUST_KEYS)}
    try:
        return credentials.from_secret(kept)
    except SecretMalformed as error:
        raise Waiting("WaitingForCredential", error.message, after=_LOOK_AGAIN_SECONDS) from error


def _chosen(data: dict[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data[name] for name in names if name in data}


def _files(folder: Path) -> dict[str, bytes]:
    """The keys of a mounted Secret; those of the kubelet's own names begin with dots."""
    try:
        names = [path for path in folder.iterdir() if not path.name.startswith("..")]
    except OSError:
        return {}
    return {path.name: _bytes(path) for path in names if path.is_file()}


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
