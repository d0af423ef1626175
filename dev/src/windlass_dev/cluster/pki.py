"""The certificates of one local cluster: an authority, the servers, its users.

EC P-256 for certificates; RSA for service-account tokens, because clients expect RS256
there. Everything is valid from a day ago, so a clock that is set back does not break a
cluster. Files are written into a directory that gets its final name when it is complete.
"""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from windlass.base.errors import WindlassError

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
    _write(draft / "service-account.key", _private_pem(rsa.generate_private_key(65537, 2048)))
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
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    subject += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return _sign_leaf(authority, x509.Name(subject), [usage])


def _check_name(field: str, value: str) -> None:
    if not 1 <= len(value) <= _LONGEST_NAME or not value.isprintable():
        raise WindlassError(
            "IdentityInvalid",
            f"{field} {value[:80]!r}: use 1 to {_LONGEST_NAME} printable characters, "
            "more do not fit into a certificate",
        )


def _issue_server_pair(authority: KeyPair, addresses: Sequence[str]) -> KeyPair:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _SERVER_NAMES]
    all_addresses = (*_SERVER_ADDRESSES, *addresses)
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in all_addresses]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return _sign_leaf(authority, subject, [usage, x509.SubjectAlternativeName(names)])


def create_authority() -> KeyPair:
    """Create a certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "windlass dev")])
    builder = _builder(subject, subject, key, _AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return KeyPair(_public_pem(builder.sign(key, hashes.SHA256())), _private_pem(key))


def _sign_leaf(
    authority: KeyPair, subject: x509.Name, extensions: list[x509.ExtensionType]
) -> KeyPair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, issuer.subject, key, _LEAF_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return KeyPair(_public_pem(builder.sign(issuer_key, hashes.SHA256())), _private_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _public_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
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
