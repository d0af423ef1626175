"""The certificates of one local cluster: an authority, the servers, its users.

EC P-256 for certificates; RSA for service-account tokens, because clients expect RS256
there. Everything is valid from a day ago, so a clock that is set back does not break a
cluster. Files are written into a directory that gets its final name when it is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from windlass.base.errors import WindlassError
from windlass.web.certificates import Authority, Leaf

SERVICE_ADDRESS = "10.0.0.1"

_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_SERVER_ADDRESSES = ("127.0.0.1", "::1", SERVICE_ADDRESS)
_LONGEST_NAME = 64
_AUTHORITY_DAYS = 3650
_LEAF_DAYS = 365


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A certificate and its key, both PEM; its repr shows neither."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair()"


def ensure_pki(directory: Path, addresses: Sequence[str] = ()) -> None:
    """Create the cluster's keys and certificates in `directory`, unless it exists.

    The serving certificate is valid for loopback addresses and for `addresses`.
    """
    if directory.is_dir():
        return
    draft = directory.with_name(f"{directory.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    authority = create_authority()
    _write_pair(draft, "ca", authority)
    _write_pair(draft, "server", _issue_server_pair(authority, addresses))
    _write_pair(draft, "admin", issue_client_pair(authority, "admin", ["system:masters"]))
    _write(draft / "service-account.key", _token_key())
    draft.rename(directory)


def read_pair(directory: Path, name: str) -> KeyPair:
    """The pair `name` that `ensure_pki` wrote."""
    return KeyPair(
        (directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes()
    )


def issue_client_pair(authority: KeyPair, user: str, groups: Sequence[str]) -> KeyPair:
    """Issue a client certificate from which the API server takes `user` and `groups`."""
    for field, value in (("user", user), *(("group", group) for group in groups)):
        _check_name(field, value)
    return _pair(_load(authority).issue_client(user, groups, _valid_from(), _LEAF_DAYS))


def _check_name(field: str, value: str) -> None:
    if not 1 <= len(value) <= _LONGEST_NAME or not value.isprintable():
        raise WindlassError(
            "IdentityInvalid",
            f"{field} {value[:80]!r}: use 1 to {_LONGEST_NAME} printable characters, "
            "more do not fit into a certificate",
        )


def _issue_server_pair(authority: KeyPair, addresses: Sequence[str]) -> KeyPair:
    all_addresses = (*_SERVER_ADDRESSES, *addresses)
    return _pair(_load(authority).issue(_SERVER_NAMES, all_addresses, _valid_from(), _LEAF_DAYS))


def create_authority() -> KeyPair:
    """Create a certificate authority."""
    return _pair(Authority.create("windlass dev", _valid_from(), _AUTHORITY_DAYS))


def _valid_from() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def _load(authority: KeyPair) -> Authority:
    return Authority.load(authority.certificate, authority.key)


def _pair(issued: Authority | Leaf) -> KeyPair:
    return KeyPair(issued.cert_pem, issued.key_pem)


def _token_key() -> bytes:
    return rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_pair(directory: Path, name: str, pair: KeyPair) -> None:
    _write(directory / f"{name}.crt", pair.certificate)
    _write(directory / f"{name}.key", pair.key)


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
