"""The stored identity of an admission endpoint, and when it is renewed."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from windlass.web import certificates, webhook_identity
from windlass.web.webhook_identity import OVERLAP, ServingNames

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ServingNames(("windlass-leader-only.windlass-system.svc",), ("127.0.0.1",))


def test_a_stored_identity_is_read_back() -> None:
    """The next process serves as the same endpoint, and has nothing to renew."""
    identity = webhook_identity.create_identity(NAMES, NOW)
    assert webhook_identity.read_identity(webhook_identity.secret_data(identity)) == identity
    assert not webhook_identity.needs_renewal(identity, NAMES, NOW)
    assert len(identity.token) == 32
    assert identity.tokens(NOW) == (identity.token,)


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("ca.key", b"no key"),
        ("tls.crt", b"no certificate"),
        ("path", b"../x"),
        ("changed", b"yesterday"),
        ("changed", b"2026-01-01"),
        ("path", None),
    ],
)
def test_a_damaged_identity_is_not_used(key: str, content: bytes | None) -> None:
    """An incomplete Secret counts as none."""
    stored = webhook_identity.secret_data(webhook_identity.create_identity(NAMES, NOW))
    if content is None:
        del stored[key]
    else:
        stored[key] = base64.b64encode(content).decode()
    assert webhook_identity.read_identity(stored) is None
    assert webhook_identity.read_identity({**stored, key: "not base64!"}) is None


def test_the_previous_path_is_accepted_for_ten_minutes() -> None:
    """An API server that has not loaded the new path yet is still served."""
    old = webhook_identity.create_identity(NAMES, NOW)
    new = webhook_identity.renew_identity(old, NAMES, NOW)
    assert new.token != old.token
    assert new.authority == old.authority
    assert new.leaf != old.leaf
    assert new.tokens(NOW + OVERLAP - timedelta(seconds=1)) == (new.token, old.token)
    assert new.tokens(NOW + OVERLAP) == (new.token,)
    assert webhook_identity.read_identity(webhook_identity.secret_data(new)) == new


def test_an_old_authority_is_replaced_with_its_leaf() -> None:
    """The leaf is due first; by then the authority may be due as well."""
    old = webhook_identity.create_identity(NAMES, NOW)
    late = NOW + timedelta(days=300)
    assert webhook_identity.needs_renewal(old, NAMES, late)
    new = webhook_identity.renew_identity(old, NAMES, late)
    assert new.authority != old.authority
    assert new.authority.signed(new.leaf.cert_pem)


def test_a_leaf_of_other_names_or_of_another_authority_is_due() -> None:
    """After a Service was renamed, or a Secret was patched."""
    identity = webhook_identity.create_identity(NAMES, NOW)
    moved = ServingNames(("other.windlass-system.svc",))
    assert webhook_identity.needs_renewal(identity, moved, NOW)
    assert certificates.covers(
        webhook_identity.renew_identity(identity, moved, NOW).leaf.cert_pem, moved.dns, ()
    )
    foreign = webhook_identity.create_identity(NAMES, NOW)
    assert webhook_identity.needs_renewal(replace(identity, leaf=foreign.leaf), NAMES, NOW)


def test_neither_key_nor_path_is_printed() -> None:
    """An accidental log line contains no secret."""
    printed = repr(webhook_identity.create_identity(NAMES, NOW))
    assert "PRIVATE KEY" not in printed
    assert webhook_identity.create_identity(NAMES, NOW).token not in printed
    assert "token" not in printed
