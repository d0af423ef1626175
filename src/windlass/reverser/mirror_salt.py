"""The mirror salt Secret: 32 random bytes, created once, kept in the install namespace.

It is the key of every digest that replaces or compares content, so that equal and different can
be distinguished without showing it. It is never mirrored and never logged. Separate from
`content`, which does no I/O.
"""

from __future__ import annotations

import base64
import secrets

from windlass.api.install.installation import Installation
from windlass.base.errors import Fatal
from windlass.kube.api import Api
from windlass.kube.errors import AlreadyExists, NotFound
from windlass.objects.names import Object
from windlass.objects.resources import SECRETS

BYTES = 32
_KEY = "salt"
_MANAGER = "windlass-reverser"


async def ensure_salt(api: Api, install: Installation) -> bytes:
    """The salt of this installation; the first caller creates it."""
    try:
        return _decode_salt(await api.get(SECRETS, install.salt_secret, install.namespace))
    except NotFound:
        pass
    try:
        return _decode_salt(await api.create(SECRETS, _new_secret(install), field_manager=_MANAGER))
    except AlreadyExists:
        # Another replica was faster; both must use the same salt.
        return _decode_salt(await api.get(SECRETS, install.salt_secret, install.namespace))


def _new_secret(install: Installation) -> Object:
    salt = base64.b64encode(secrets.token_bytes(BYTES)).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": install.salt_secret, "namespace": install.namespace},
        "type": "Opaque",
        "immutable": True,
        "data": {_KEY: salt},
    }


def _decode_salt(secret: Object) -> bytes:
    salt = base64.b64decode((secret.get("data") or {}).get(_KEY, ""))
    if len(salt) != BYTES:
        metadata = secret["metadata"]
        raise Fatal(
            "SaltInvalid",
            f"Secret {metadata['namespace']}/{metadata['name']} must contain {BYTES} bytes under "
            f"{_KEY}; restore it, or delete it to have all Secret files redacted anew",
        )
    return salt
