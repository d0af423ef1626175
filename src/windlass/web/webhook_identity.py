"""Identity of the admission endpoint: CA, server certificate and path, stored in one Secret.

The next leader serves with the same identity, so nothing has to be registered again.

| Secret | Then |
|---|---|
| missing, or unreadable | everything is created |
| a CA past two thirds of its life | CA, leaf and path are renewed |
| a leaf past two thirds of its life, of another CA or for other names | leaf and path |
| otherwise | unchanged |

The previous path is accepted for ten minutes more: an API server may not have learned of the new
one yet.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from windlass.base.errors import Stalled
from windlass.web import certificates
from windlass.web.certificates import Authority, Leaf

OVERLAP = timedelta(minutes=10)

_AUTHORITY_DAYS = 365
_LEAF_DAYS = 90
_TOKEN_BYTES = 16
_TOKEN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class ServingNames:
    """DNS names and IP addresses by which the endpoint is called."""

    dns: tuple[str, ...]
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookIdentity:
    """One endpoint; `token` is the last part of its path."""

    authority: Authority
    leaf: Leaf
    token: str = field(repr=False)
    previous: str = field(repr=False)
    changed: datetime

    def tokens(self, now: datetime) -> tuple[str, ...]:
        """The tokens that are accepted now, the present one first."""
        overlaps = self.previous and now < self.changed + OVERLAP
        return (self.token, self.previous) if overlaps else (self.token,)


def create_identity(names: ServingNames, now: datetime) -> WebhookIdentity:
    """A new identity."""
    authority = Authority.create("windlass", now, _AUTHORITY_DAYS)
    return WebhookIdentity(authority, _leaf(authority, names, now), _token(), "", now)


def renew_identity(old: WebhookIdentity, names: ServingNames, now: datetime) -> WebhookIdentity:
    """The identity with a new leaf and path, and a new CA where that is due."""
    authority = old.authority
    if certificates.renewal_due(authority.cert_pem, now):
        authority = Authority.create("windlass", now, _AUTHORITY_DAYS)
    leaf = _leaf(authority, names, now)
    return WebhookIdentity(authority, leaf, _token(), old.token, now)


def needs_renewal(identity: WebhookIdentity, names: ServingNames, now: datetime) -> bool:
    """Whether the identity must be renewed."""
    leaf = identity.leaf.cert_pem
    return (
        certificates.renewal_due(leaf, now)
        or not certificates.covers(leaf, names.dns, names.addresses)
        or not identity.authority.signed(leaf)
    )


def secret_data(identity: WebhookIdentity) -> dict[str, str]:
    """The data of the Secret for an identity."""
    rows = {
        "ca.crt": identity.authority.cert_pem,
        "ca.key": identity.authority.key_pem,
        "tls.crt": identity.leaf.cert_pem,
        "tls.key": identity.leaf.key_pem,
        "path": identity.token.encode(),
        "previous-path": identity.previous.encode(),
        "changed": identity.changed.isoformat(timespec="seconds").encode(),
    }
    return {name: base64.b64encode(content).decode() for name, content in rows.items()}


def read_identity(data: Mapping[str, str]) -> WebhookIdentity | None:
    """The identity in the data of a Secret; None if it cannot be read completely."""
    try:
        rows = {name: base64.b64decode(text, validate=True) for name, text in data.items()}
        identity = WebhookIdentity(
            Authority.load(rows["ca.crt"], rows["ca.key"]),
            Leaf(rows["tls.crt"], rows["tls.key"]),
            rows["path"].decode("ascii"),
            rows["previous-path"].decode("ascii"),
            datetime.fromisoformat(rows["changed"].decode("ascii")),
        )
        # Raises where the leaf is not a certificate, before anything relies on it.
        certificates.covers(identity.leaf.cert_pem, (), ())
    except (KeyError, ValueError, binascii.Error, Stalled):
        return None
    whole = _TOKEN.fullmatch(identity.token) and identity.changed.tzinfo is not None
    return replace(identity, changed=identity.changed.astimezone(UTC)) if whole else None


def _leaf(authority: Authority, names: ServingNames, now: datetime) -> Leaf:
    return authority.issue(names.dns, names.addresses, now, _LEAF_DAYS)


def _token() -> str:
    return secrets.token_hex(_TOKEN_BYTES)
