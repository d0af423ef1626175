"""Decrypts and checks the private key of an SSH credential.

Apart from `ssh`, so that only a process with such a key loads the cryptography library. Messages
never contain any part of a key.
"""

from __future__ import annotations

from typing import cast, get_args

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.hazmat.primitives.serialization import SSHPrivateKeyTypes

from windlass.git.errors import SecretMalformed

_MIN_RSA_BITS = 2048


def opened(key: bytes, passphrase: str) -> bytes:
    """The private key without its passphrase; SecretMalformed for an unusable key."""
    loaded = _load(key, passphrase.encode() or None)
    if isinstance(loaded, dsa.DSAPrivateKey):
        raise SecretMalformed("the SSH key is a DSA key, which servers reject; use ed25519")
    if isinstance(loaded, rsa.RSAPrivateKey) and loaded.key_size < _MIN_RSA_BITS:
        raise SecretMalformed(f"the SSH key is an RSA key below {_MIN_RSA_BITS} bits; use ed25519")
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def _load(key: bytes, passphrase: bytes | None) -> SSHPrivateKeyTypes:
    try:
        return _parse(key, passphrase)
    except UnsupportedAlgorithm as error:
        raise SecretMalformed("the SSH key is encrypted with an unsupported algorithm") from error
    except (ValueError, TypeError) as error:
        if passphrase is not None and isinstance(error, TypeError):
            # A passphrase beside an unencrypted key is fine: many Secrets also hold a password.
            return _load(key, None)
        raise SecretMalformed(
            "the SSH key cannot be read: it is damaged, or the passphrase (ssh-password or"
            " password) is wrong or missing"
        ) from error


def _parse(key: bytes, passphrase: bytes | None) -> SSHPrivateKeyTypes:
    if b"BEGIN OPENSSH PRIVATE KEY" in key:
        return serialization.load_ssh_private_key(key, passphrase)
    loaded = serialization.load_pem_private_key(key, passphrase)
    if not isinstance(loaded, get_args(SSHPrivateKeyTypes)):
        raise ValueError("not an SSH key")
    return cast("SSHPrivateKeyTypes", loaded)
