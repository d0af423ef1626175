"""Parses and normalizes remote URLs.

`Remote.parse` lets in https, http, ssh, git, file and the scp form `user@host:path`, and
refuses everything that git could read as an option, a helper or a credential. A refusal
names the rule and never the value, because the value may hold a password. Two spellings
of one repository have the same `identity`; `endpoint` also tells transports apart. An ssh
user is part of both, because a server may show each user repositories of their own; only
`git`, the default user, is not. `url` parses to the same remote again, and none of the texts ever
contains a credential.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418, "file": 0}
MAX_CHARS = 2048
DEFAULT_USER = "git"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCP = re.compile(r"([^@/:]+)@(\[[^\]/]*\]|[^@/:\[\]]*):(.*)", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+~=-]*")
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ALIASES = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "ssh.dev.azure.com": "dev.azure.com",
}
_SSH_OVER_HTTPS_PORT = 443
_CASELESS_HOSTS = frozenset({"github.com", "gitlab.com", "bitbucket.org"})


class RemoteRefused(ValueError):
    """A remote that must not be used; the text names the rule, never the value."""


@dataclass(frozen=True, slots=True)
class Remote:
    """One remote; `path` begins with `/` unless it is `relative` to the ssh user's home."""

    scheme: str  # https, http, ssh, git or file
    host: str  # lower case; an IPv6 address in brackets; empty for file
    port: int  # 0 for file
    path: str  # of the repository
    user: str = ""  # of ssh; empty otherwise
    relative: bool = False  # whether `path` is relative to the home of the ssh user

    @classmethod
    def parse(cls, text: str) -> Remote:
        _check_text(text)
        scheme = _SCHEME.match(text)
        if scheme is None:
            return _parse_scp(text)
        return _parse_url(scheme.group(1).lower(), text[scheme.end() :])

    @property
    def authority(self) -> str:
        """Host and, where it is not the scheme's own, port."""
        own = DEFAULT_PORTS[self.scheme] == self.port
        return self.host if own else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL for git; without a password, and with a user only for ssh."""
        if self.relative:
            return f"{self.user}@{self.host}:{self.path}"
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{self.authority}{self.path}"

    @property
    def display(self) -> str:
        """The URL for people."""
        return f"{self.scheme}://{self.authority}/{self.path.lstrip('/')}"

    @property
    def endpoint(self) -> str:
        """Scheme, user, host, port and path, which identify a server and its repository."""
        return f"{self.scheme}://{self._account}{self.host}:{self.port}/{self.path.strip('/')}"

    @property
    def fetch_key(self) -> str:
        """The endpoint without `.git`: remotes with the same key have the same refs."""
        return self.endpoint.removesuffix(".git")

    @property
    def identity(self) -> str:
        """The repository itself, however it is reached."""
        host = _ALIASES.get(self.host, self.host)
        aliased = host != self.host and self.port == _SSH_OVER_HTTPS_PORT
        own_port = aliased or self.port == DEFAULT_PORTS[self.scheme]
        authority = host if own_port else f"{host}:{self.port}"
        return f"{self._account}{authority}/{_canonical_path(host, self.path)}"

    @property
    def _account(self) -> str:
        return f"{self.user}@" if self.user not in {"", DEFAULT_USER} else ""


def _check_text(text: str) -> None:
    if not text or len(text) > MAX_CHARS:
        raise RemoteRefused(f"the URL must have 1 to {MAX_CHARS} characters")
    if any(char.isspace() or not char.isprintable() for char in text):
        raise RemoteRefused("the URL must not contain whitespace or control characters")
    if "::" in text:
        raise RemoteRefused("the URL must not contain `::` (a remote helper)")
    if "?" in text or "#" in text:
        raise RemoteRefused("the URL must not contain a query (`?`) or a fragment (`#`)")


def _parse_scp(text: str) -> Remote:
    match = _SCP.fullmatch(text)
    if match is None or "\\" in text:
        raise RemoteRefused(
            "the URL must begin with https://, http://, ssh://, git:// or file://,"
            " or have the form user@host:path"
        )
    user, host, path = match.groups()
    host = _checked_host(host)
    _check_path(path)
    absolute = path.startswith("/")
    path = "/" + path.strip("/") if absolute else path.rstrip("/")
    return Remote("ssh", host, 22, path, _checked_user(user), relative=not absolute)


def _parse_url(scheme: str, rest: str) -> Remote:
    if scheme not in DEFAULT_PORTS:
        raise RemoteRefused("the URL's scheme must be https, http, ssh, git or file")
    authority, slash, path = rest.partition("/")
    userinfo, at, host_port = authority.rpartition("@")
    if at and scheme != "ssh":
        raise RemoteRefused(f"a {scheme} URL must not contain a user or password (`...@`)")
    if ":" in userinfo:
        raise RemoteRefused("an ssh URL must not contain a password")
    _check_path(slash + path)
    path = "/" + path.strip("/")
    if scheme == "file":
        if host_port not in {"", "localhost"}:
            raise RemoteRefused("a file URL must not contain a host")
        return Remote(scheme, "", 0, path)
    host, port = _host_and_port(host_port, DEFAULT_PORTS[scheme])
    return Remote(scheme, host, port, path, _checked_user(userinfo) if at else "")


def _host_and_port(host_port: str, default: int) -> tuple[str, int]:
    host, colon, digits = host_port.rpartition(":")
    if not colon or host_port.endswith("]"):
        return _checked_host(host_port), default
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:6]) < 65536):
        raise RemoteRefused("the URL's port must be a number from 1 to 65535")
    return _checked_host(host), int(digits)


def _checked_host(host: str) -> str:
    if host.startswith("-"):
        raise RemoteRefused("the URL's host must not begin with `-`")
    host = host.removesuffix(".")
    if not _HOST.fullmatch(host):
        raise RemoteRefused("the URL's host must be a DNS name (ASCII) or an address")
    return host.lower()


def _checked_user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise RemoteRefused("the URL's user may contain only letters, digits and `._+~=-`")
    return user


def _check_path(path: str) -> None:
    bare = path.strip("/")
    if not bare:
        raise RemoteRefused("the URL must contain a path")
    if bare.startswith("-"):
        raise RemoteRefused("the URL's path must not begin with `-`")
    if any(byte < 0x20 or byte == 0x7F for byte in unquote_to_bytes(path)):
        raise RemoteRefused("the URL's path must not contain encoded control characters")
    if {".", ".."} & set(_normalized_escapes(bare).split("/")):
        raise RemoteRefused("the URL's path must not contain `.` or `..` segments")


def _canonical_path(host: str, path: str) -> str:
    segments = [part for part in _normalized_escapes(path).split("/") if part]
    if host == "dev.azure.com":
        segments = [part for part in segments if part not in {"v3", "_git"}]
    whole = "/".join(segments).removesuffix(".git").rstrip("/")
    return whole.lower() if host in _CASELESS_HOSTS else whole


def _normalized_escapes(path: str) -> str:
    """Escapes of ordinary characters decoded, all others in upper case (RFC 3986, 6.2.2)."""

    def plain(match: re.Match[str]) -> str:
        char = chr(int(match.group(1), 16))
        return char if char in _UNRESERVED else match.group(0).upper()

    return _PERCENT.sub(plain, path)
