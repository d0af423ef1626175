"""Certificates: names, lifetimes, renewal, bundles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from windlass.base.errors import Stalled
from windlass.web import certificates
from windlass.web.certificates import Authority

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    """An authority that is valid for three hundred days."""
    return Authority.create("windlass test", NOW, days=300)


def test_authority_may_sign_only_leaves(authority: Authority) -> None:
    """An authority is a CA that cannot create further authorities."""
    certificate = x509.load_pem_x509_certificate(authority.cert_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)


def test_a_leaf_has_exactly_the_requested_names(authority: Authority) -> None:
    """A leaf covers its names and addresses and no others."""
    leaf = authority.issue(["hook.ns.svc"], ["127.0.0.1", "::1"], NOW, days=90)
    assert certificates.covers(leaf.cert_pem, ["hook.ns.svc"], ["::1", "127.0.0.1"])
    assert not certificates.covers(leaf.cert_pem, ["other.ns.svc"], [])
    assert not certificates.covers(leaf.cert_pem, [], ["10.0.0.1"])
    assert not certificates.covers(authority.cert_pem, ["hook.ns.svc"], [])


def test_a_leaf_is_verified_by_its_authority(authority: Authority) -> None:
    """Only by the one that signed it, even if another has the same name."""
    leaf = authority.issue(["a"], [], NOW, days=90)
    assert authority.signed(leaf.cert_pem)
    assert not Authority.create("windlass test", NOW, days=300).signed(leaf.cert_pem)
    assert not Authority.create("other", NOW, days=300).signed(leaf.cert_pem)


def test_leaf_never_outlives_its_authority(authority: Authority) -> None:
    """A longer lifetime ends with its authority."""
    leaf = authority.issue(["a"], [], NOW, days=10_000)
    end = x509.load_pem_x509_certificate(leaf.cert_pem).not_valid_after_utc
    assert end == NOW + timedelta(days=300)


def test_long_names_are_kept_whole_in_the_alternatives(authority: Authority) -> None:
    """A service name that is too long for a common name is still covered."""
    long = "a" * 60 + ".b" * 20
    assert certificates.covers(authority.issue([long], [], NOW, 1).cert_pem, [long], [])


@pytest.mark.parametrize(("days", "due"), [(0, False), (59, False), (61, True), (95, True)])
def test_renewal_is_due_after_two_thirds(authority: Authority, days: int, due: bool) -> None:
    """Renewal becomes due when two thirds of ninety days are over."""
    leaf = authority.issue(["a"], [], NOW, days=90)
    assert certificates.renewal_due(leaf.cert_pem, NOW + timedelta(days=days)) is due


def test_stored_authority_signs_again(authority: Authority) -> None:
    """An authority loaded from its PEM texts continues to sign."""
    again = Authority.load(authority.cert_pem, authority.key_pem)
    assert authority.signed(again.issue(["a"], [], NOW, 1).cert_pem)


def test_foreign_key_is_refused(authority: Authority) -> None:
    """A key that does not belong to the certificate is refused when it is loaded."""
    other = Authority.create("other", NOW, days=1)
    with pytest.raises(Stalled, match="does not match its certificate"):
        Authority.load(authority.cert_pem, other.key_pem)


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"\xff"])
def test_an_unreadable_certificate_names_the_remedy(pem: bytes) -> None:
    """The message repeats nothing of the text."""
    with pytest.raises(Stalled, match="delete the stored pair"):
        certificates.renewal_due(pem, NOW)


def test_unreadable_key_is_refused(authority: Authority) -> None:
    """A text that is not a key."""
    with pytest.raises(Stalled, match="PEM private key"):
        Authority.load(authority.cert_pem, authority.cert_pem)


def test_bundle_overlaps_and_drops_the_expired(authority: Authority) -> None:
    """A bundle has old and new once each, without expired ones."""
    new = Authority.create("new", NOW, days=900)
    both = certificates.bundle(NOW, new.cert_pem, authority.cert_pem, new.cert_pem)
    assert both == new.cert_pem + authority.cert_pem
    later = NOW + timedelta(days=400)
    assert certificates.bundle(later, both) == new.cert_pem


def test_keys_stay_out_of_representations(authority: Authority) -> None:
    """Neither an authority nor a leaf prints its key."""
    leaf = authority.issue(["a"], [], NOW, 1)
    assert "PRIVATE" not in repr(authority) + repr(leaf)
