"""Identities in certificates."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from windlass.base.errors import WindlassError
from windlass_dev.cluster import pki


def test_identity_is_the_certificate_subject() -> None:
    """The common name is the user, each organization a group."""
    authority = pki.create_authority()
    pair = pki.issue_client_pair(authority, "alice@example.org", ["dev", "ops"])
    subject = x509.load_pem_x509_certificate(pair.certificate).subject
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "alice@example.org"
    ]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert {one.value for one in groups} == {"dev", "ops"}


def test_certificate_is_issued_by_the_authority() -> None:
    """A client is verified by its issuer."""
    authority = pki.create_authority()
    pair = pki.issue_client_pair(authority, "alice", [])
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    x509.load_pem_x509_certificate(pair.certificate).verify_directly_issued_by(issuer)


@pytest.mark.parametrize("user", ["", "x" * 65, "line\nbreak"])
def test_impossible_names_are_refused(user: str) -> None:
    """A name that a certificate cannot have is refused before the API server does so."""
    with pytest.raises(WindlassError, match="64 printable characters"):
        pki.issue_client_pair(pki.create_authority(), user, [])


def test_pair_does_not_show_its_key() -> None:
    """A traceback must not print a private key."""
    assert repr(pki.KeyPair(b"CERT", b"KEY")) == "Pair()"
