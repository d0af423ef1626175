"""What an admission endpoint is known by, and when that changes."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from windlass.web import certificates, webhook_identity
from windlass.web.webhook_identity import OVERLAP, ServingNames

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ServingNames(("windlass-leader-only.windlass-system.svc",), ("127.0.0.1",))


def test_what_is_kept_is_read_back() -> None:
    """Whoever serves next is the same endpoint, and has nothing to renew."""
    made = webhook_identity.create_identity(NAMES, NOW)
    assert webhook_identity.read_identity(webhook_identity.secret_data(made)) == made
    assert not webhook_identity.needs_renewal(made, NAMES, NOW)
    assert len(made.token) == 32
    assert made.tokens(NOW) == (made.token,)


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
def test_what_is_spoiled_is_not_served_with(key: str, content: bytes | None) -> None:
    """A Secret that is not whole counts as none."""
    kept = webhook_identity.secret_data(webhook_identity.create_identity(NAMES, NOW))
    if content is None:
        del kept[key]
    else:
        kept[key] = base64.b64encode(content).decode()
    assert webhook_identity.read_identity(kept) is None
    assert webhook_identity.read_identity({**kept, key: "not base64!"}) is None


def test_the_path_of_before_is_accepted_for_ten_minutes() -> None:
    """An API server that has not loaded the new path yet is still heard."""
    old = webhook_identity.create_identity(NAMES, NOW)
    new = webhook_identity.renew_identity(old, NAMES, NOW)
    assert new.token != old.token
    assert new.authority == old.authority
    assert new.leaf != old.leaf
    assert new.tokens(NOW + OVERLAP - timedelta(seconds=1)) == (new.token, old.token)
    assert new.tokens(NOW + OVERLAP) == (new.token,)
    assert webhook_identity.read_identity(webhook_identity.secret_data(new)) == new


def test_an_authority_past_its_best_is_replaced_with_its_leaf() -> None:
    """The leaf is due first; by then the authority may be due as well."""
    old = webhook_identity.create_identity(NAMES, NOW)
    late = NOW + timedelta(days=300)
    assert webhook_identity.needs_renewal(old, NAMES, late)
    new = webhook_identity.renew_identity(old, NAMES, late)
    assert new.authority != old.authority
    assert new.authority.signed(new.leaf.cert_pem)


def test_a_leaf_of_other_names_or_of_another_authority_is_due() -> None:
    """A Service that was renamed, or a Secret that was patched together, is noticed."""
    made = webhook_identity.create_identity(NAMES, NOW)
    moved = ServingNames(("other.windlass-system.svc",))
    assert webhook_identity.needs_renewal(made, moved, NOW)
    assert certificates.covers(
        webhook_identity.renew_identity(made, moved, NOW).leaf.cert_pem, moved.dns, ()
    )
    stranger = webhook_identity.create_identity(NAMES, NOW)
    assert webhook_identity.needs_renewal(replace(made, leaf=stranger.leaf), NAMES, NOW)


def test_neither_key_nor_path_is_shown() -> None:
    """What is logged by accident tells nothing."""
    shown = repr(webhook_identity.create_identity(NAMES, NOW))
    assert "PRIVATE KEY" not in shown
    assert webhook_identity.create_identity(NAMES, NOW).token not in shown
    assert "token" not in shown
