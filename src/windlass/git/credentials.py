"""Credentials of a remote, as read from a Secret.

`from_secret` takes the first kind of credential whose keys are present: an SSH key, then user and
password, then a token. A `token` is sent as the password of basic authentication, which every
forge accepts; a `bearerToken` is sent as a bearer header, for servers that accept nothing else.
Values never appear in a repr, an error or a fingerprint, and are known to the redactor while they
are `in_use`.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from windlass.base import redaction
from windlass.git.errors import SecretMalformed

TOKEN_USER = "x-access-token"  # noqa: S105 - a user name that forges accept beside a token
SSH_KEYS = ("ssh-privatekey", "identity", "sshPrivateKey")
ACCEPTED_KEYS = (
    "ssh-privatekey | identity | sshPrivateKey (with ssh-password | password, known_hosts); "
    "username and password, or password alone; token | bearerToken; ca.crt"
)

_FINGERPRINT_KEY = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """An HTTP proxy; `address` is scheme://host:port without a user."""

    address: str
    username: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Secrets and trust for one remote; everything is optional."""

    username: str = ""  # of basic authentication; empty: a default beside password or token
    password: str = ""  # of basic authentication
    token: str = ""  # sent as the password of basic authentication
    bearer: str = ""  # sent as a bearer header
    ssh_key: bytes = b""  # private key, PEM or OpenSSH form
    ssh_passphrase: str = ""  # of `ssh_key`; empty: it is not encrypted
    known_hosts: bytes = b""  # host keys in the form of OpenSSH
    host_key_verification: bool = True  # False accepts any host key
    ca: bytes = b""  # PEM certificates trusted beside those of the machine
    proxy: Proxy | None = None  # for http and https; None: direct
    _fingerprint: str = field(default="", init=False, compare=False)  # computed once

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fingerprint", _fingerprint(self))

    def __repr__(self) -> str:
        return "Credentials(...)"

    @property
    def fingerprint(self) -> str:
        """Equal for equal credentials in this process; reveals nothing about them."""
        return self._fingerprint

    @property
    def basic(self) -> tuple[str, str] | None:
        """User and password of basic authentication; None without any."""
        if self.password:
            return self.username or "git", self.password
        if self.token:
            return self.username or TOKEN_USER, self.token
        return None

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Register the values with the redactor of the process while they may appear in text."""
        values = [value for value in self._secret_values() if value]
        for value in values:
            redaction.process.add(value)
        try:
            yield
        finally:
            for value in values:
                redaction.process.discard(value)

    def _secret_values(self) -> tuple[str, ...]:
        proxy = self.proxy.password if self.proxy is not None else ""
        pair = ":".join(self.basic) if self.basic is not None else ""
        return self.password, self.token, self.bearer, self.ssh_passphrase, proxy, pair


def from_secret(data: Mapping[str, bytes]) -> Credentials:
    """The credentials in the data of a Secret; SecretMalformed lists the accepted keys."""
    present = {key: value for key, value in data.items() if value.strip()}
    ca, known_hosts = present.get("ca.crt", b""), present.get("known_hosts", b"")
    for key in SSH_KEYS:
        if key in present:
            phrase = _text(present, "ssh-password") or _text(present, "password")
            return Credentials(
                ssh_key=present[key].rstrip() + b"\n",
                ssh_passphrase=phrase,
                known_hosts=known_hosts,
                ca=ca,
            )
    username = _text(present, "username")
    if "password" in present:
        return Credentials(username=username, password=_text(present, "password"), ca=ca)
    if "token" in present:
        return Credentials(username=username, token=_text(present, "token"), ca=ca)
    if "bearerToken" in present:
        return Credentials(bearer=_text(present, "bearerToken"), ca=ca)
    if ca and not username:
        return Credentials(ca=ca)
    raise SecretMalformed(f"no credentials found; accepted keys: {ACCEPTED_KEYS}")


def proxy_from_secret(data: Mapping[str, bytes]) -> Proxy:
    """The proxy in a Secret's data: `address`, and `username` with `password` where needed."""
    address = _text(data, "address").rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port
    except ValueError:
        usable = False
    if not usable or "@" in address or parts.path:
        raise SecretMalformed(
            "key address must be http://host:port or https://host:port without a user; accepted"
            " keys: address; username and password"
        )
    return Proxy(address, _text(data, "username"), _text(data, "password"))


def _text(data: Mapping[str, bytes], key: str) -> str:
    """A value as one line, without the newline that editors leave at its end."""
    try:
        text = data.get(key, b"").decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretMalformed(f"key {key} is not valid UTF-8") from None
    if any(char < " " or char == "\x7f" for char in text):
        raise SecretMalformed(f"key {key} must be a single line of text")
    return text


def _fingerprint(credentials: Credentials) -> str:
    digest = hashlib.blake2b(key=_FINGERPRINT_KEY, digest_size=16)
    proxy = credentials.proxy or Proxy("")
    for value in (
        credentials.username,
        credentials.password,
        credentials.token,
        credentials.bearer,
        credentials.ssh_passphrase,
        proxy.address,
        proxy.username,
        proxy.password,
        str(credentials.host_key_verification),
        credentials.ssh_key,
        credentials.known_hosts,
        credentials.ca,
    ):
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


ANONYMOUS = Credentials()
