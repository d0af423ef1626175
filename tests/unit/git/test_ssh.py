"""ssh gets a configuration of ours and keys without passphrase, or is not started at all."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from windlass.git import ssh
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, SecretMalformed
from windlass.git.format import known_hosts
from windlass.git.format.remote import Remote
from windlass.git.settings import GitSettings

REMOTE = Remote.parse("ssh://git@host:2222/a.git")
KEY = ed25519.Ed25519PrivateKey.generate()
OPEN = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
)
HOST_KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519").decode()
KNOWN = f"[host]:2222 ssh-ed25519 {HOST_KEY}\n".encode()
PRINT = "SHA256:" + base64.b64encode(
    hashlib.sha256(base64.b64decode(HOST_KEY)).digest()
).decode().rstrip("=")


@pytest.mark.parametrize("known", [b"", b"  \n", b"other ssh-ed25519 AAAA\n"])
def test_without_host_keys_nothing_is_connected(known: bytes) -> None:
    """Strict verification without a key for the host fails before any connection."""
    with pytest.raises(GitError) as caught:
        ssh.check(REMOTE, Credentials(ssh_key=OPEN, known_hosts=known))
    assert caught.value.reason == "HostKeyUnknown"
    assert caught.value.message == (
        "add the host key of [host]:2222 to known_hosts in the Secret with the SSH key"
    )


def test_without_a_key_nothing_is_connected() -> None:
    """An ssh remote needs an SSH key."""
    with pytest.raises(GitError, match="no SSH key"):
        ssh.check(REMOTE, Credentials(password="p", known_hosts=KNOWN))


def test_configuration_is_strict_by_default() -> None:
    """Only an explicit setting turns verification off, and then no host key is stored."""
    strict = _configuration(Credentials(ssh_key=OPEN, known_hosts=KNOWN))
    assert "StrictHostKeyChecking yes" in strict
    assert 'UserKnownHostsFile "/p/known"' in strict
    assert "HostKeyAlias [host]:2222" in strict
    assert "HostName 10.0.0.1" in strict
    assert {"BatchMode yes", "IdentitiesOnly yes", "IdentityAgent none"} <= set(strict.splitlines())
    loose = _configuration(Credentials(ssh_key=OPEN, host_key_verification=False))
    assert "StrictHostKeyChecking no" in loose
    assert 'UserKnownHostsFile "/dev/null"' in loose


def _configuration(credentials: Credentials) -> str:
    paths = Path("/p/key"), Path("/p/known")
    return ssh.configuration(GitSettings(), REMOTE, credentials, *paths, "10.0.0.1")


def test_open_keys_pass_also_with_a_spare_passphrase() -> None:
    """A Secret may carry a password that the key does not need."""
    assert b"OPENSSH PRIVATE KEY" in ssh.open_key(OPEN, "spare")


def test_encrypted_pem_key_is_decrypted() -> None:
    """With the right passphrase; a wrong one is an error."""
    closed = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"phrase"),
    )
    assert b"OPENSSH PRIVATE KEY" in ssh.open_key(closed, "phrase")
    for wrong in ("", "other"):
        with pytest.raises(SecretMalformed, match="passphrase"):
            ssh.open_key(closed, wrong)


def test_encrypted_openssh_key_is_decrypted() -> None:
    """The format that ssh-keygen writes."""
    closed = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.BestAvailableEncryption(b"phrase"),
    )
    assert b"OPENSSH PRIVATE KEY" in ssh.open_key(closed, "phrase")
    with pytest.raises(SecretMalformed, match="passphrase"):
        ssh.open_key(closed, "other")


def test_weak_and_damaged_keys_are_refused() -> None:
    """RSA below 2048 bits and garbage have different errors, without the value."""
    weak = rsa.generate_private_key(65537, 1024).private_bytes(  # noqa: S505
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    with pytest.raises(SecretMalformed, match="2048"):
        ssh.open_key(weak, "")
    with pytest.raises(SecretMalformed, match="cannot be read") as caught:
        ssh.open_key(b"hunter2", "")
    assert "hunter2" not in str(caught.value)


def test_fingerprints_of_plain_and_hashed_hosts() -> None:
    """Both formats of a host entry are read; markers and other hosts are not."""
    salt = b"s" * 20
    digest = hmac.new(salt, b"[host]:2222", hashlib.sha1).digest()
    hashed = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    for line in (KNOWN.decode(), f"{hashed} ssh-ed25519 {HOST_KEY}\n"):
        assert known_hosts.fingerprints(line.encode(), "host", 2222) == (PRINT,)
        assert known_hosts.fingerprints(line.encode(), "host", 22) == ()
        assert known_hosts.fingerprints(f"@revoked {line}".encode(), "host", 2222) == ()
    assert known_hosts.fingerprints(f"*.x.org,y ssh-rsa {HOST_KEY}".encode(), "a.x.org", 22)
    assert known_hosts.fingerprints(b"|1|broken|x y z\n|1|x y z\nshort\n", "host", 22) == ()
