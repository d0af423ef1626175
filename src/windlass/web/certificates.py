"""Certificate authority of our own and the certificates it signs.

Everything is PEM bytes in and PEM bytes out, and time is a parameter, so that a renewal
is decided the same way everywhere: once two thirds of a certificate's life are over.
A leaf never outlives its authority. While an authority is replaced, callers trust a
bundle of the old and the new one, so no order of restarts breaks a handshake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from windlass.base.errors import Stalled

# Clocks of nodes differ a little; a certificate must be valid there at once.
_BACKDATED = timedelta(minutes=5)
_MAX_COMMON_NAME = 64
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate of a server or a client, with its key."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed authority; whoever holds `key_pem` can sign for every name."""

    cert_pem: bytes
    key_pem: bytes = field(repr=False)

    @classmethod
    def create(cls, common_name: str, now: datetime, days: int) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        builder = _builder(name, name, key.public_key(), now, now + timedelta(days=days))
        for extension in _authority_extensions(key.public_key()):
            builder = builder.add_extension(extension, critical=_is_critical(extension))
        return cls(_cert_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))

    @classmethod
    def load(cls, cert_pem: bytes, key_pem: bytes) -> Authority:
        """The authority stored as these PEM texts; refused unless they belong together."""
        certificate, key = _read_cert(cert_pem), _read_key(key_pem)
        if certificate.public_key() != key.public_key():
            raise _unreadable("the key of the CA does not match its certificate")
        return cls(cert_pem, key_pem)

    def issue(
        self,
        dns_names: Sequence[str],
        ip_addresses: Sequence[str],
        now: datetime,
        days: int,
    ) -> Leaf:
        """A fresh key and a server certificate for exactly these names and addresses."""
        subject = _name([*dns_names, *ip_addresses][0])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._sign(subject, [usage, _alternatives(dns_names, ip_addresses)], now, days)

    def issue_client(self, user: str, groups: Sequence[str], now: datetime, days: int) -> Leaf:
        """A fresh key and a certificate from which an API server takes `user` and `groups`."""
        names = [(NameOID.COMMON_NAME, user), *((NameOID.ORGANIZATION_NAME, it) for it in groups)]
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
        return self._sign(
            subject, [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])], now, days
        )

    def _sign(
        self, subject: x509.Name, extensions: list[x509.ExtensionType], now: datetime, days: int
    ) -> Leaf:
        issuer, issuer_key = _read_cert(self.cert_pem), _read_key(self.key_pem)
        key = ec.generate_private_key(ec.SECP256R1())
        end = min(now + timedelta(days=days), issuer.not_valid_after_utc)
        builder = _builder(subject, issuer.subject, key.public_key(), now, end)
        identifiers = _leaf_extensions(key.public_key(), issuer_key.public_key())
        for extension in (*identifiers, *extensions):
            builder = builder.add_extension(extension, critical=_is_critical(extension))
        return Leaf(_cert_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))

    def signed(self, cert_pem: bytes) -> bool:
        """Whether this authority signed that certificate."""
        try:
            _read_cert(cert_pem).verify_directly_issued_by(_read_cert(self.cert_pem))
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def renewal_due(cert_pem: bytes, now: datetime) -> bool:
    """Whether two thirds of the certificate's life are over."""
    certificate = _read_cert(cert_pem)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return now >= certificate.not_valid_before_utc + life * 2 / 3


def covers(cert_pem: bytes, dns_names: Sequence[str], ip_addresses: Sequence[str]) -> bool:
    """Whether the certificate names all of these, so that a moved Service is noticed."""
    extensions = _read_cert(cert_pem).extensions
    try:
        named = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    addresses = {ip_address(text) for text in ip_addresses}
    return set(dns_names) <= set(named.get_values_for_type(x509.DNSName)) and addresses <= set(
        named.get_values_for_type(x509.IPAddress)
    )


def bundle(now: datetime, *authorities: bytes) -> bytes:
    """One caBundle out of several, newest first as given; expired and repeated ones drop out."""
    valid: dict[bytes, None] = {}
    for block in (block for pem in authorities for block in _PEM.findall(pem)):
        certificate = _read_cert(block)
        if certificate.not_valid_after_utc > now:
            valid[_cert_pem(certificate)] = None
    return b"".join(valid)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATED)
        .not_valid_after(end)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_MAX_COMMON_NAME])])


def _authority_extensions(public_key: ec.EllipticCurvePublicKey) -> tuple[x509.ExtensionType, ...]:
    return (
        x509.BasicConstraints(ca=True, path_length=0),
        _usage(signs_certificates=True),
        x509.SubjectKeyIdentifier.from_public_key(public_key),
    )


def _leaf_extensions(
    public_key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> tuple[x509.ExtensionType, ...]:
    return (
        x509.BasicConstraints(ca=False, path_length=None),
        _usage(signs_certificates=False),
        x509.SubjectKeyIdentifier.from_public_key(public_key),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key),
    )


def _is_critical(extension: x509.ExtensionType) -> bool:
    return isinstance(extension, x509.BasicConstraints | x509.KeyUsage)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(
    dns_names: Sequence[str], ip_addresses: Sequence[str]
) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    names += [x509.IPAddress(ip_address(text)) for text in ip_addresses]
    return x509.SubjectAlternativeName(names)


def _cert_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _read_cert(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise _unreadable("the certificate is not a PEM certificate") from error


def _read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise _unreadable("the key is not an unencrypted PEM private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _unreadable("the key is not an elliptic curve key")
    return key


def _unreadable(message: str) -> Stalled:
    return Stalled(
        "CertificateUnreadable", f"{message}; delete the stored pair to create a new one"
    )
