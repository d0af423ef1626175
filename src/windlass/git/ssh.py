"""The ssh command of a git call: key, known hosts and a configuration of its own.

No ssh configuration of the user or the machine is read. Without known host keys and with
verification on, no connection is made. Keys with a passphrase are decrypted here, because ssh could
only prompt for it; the decrypted key is in the private directory for the time of the call.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from windlass.git.credentials import Credentials
from windlass.git.environment import PrivateDirectory
from windlass.git.errors import GitError
from windlass.git.format import known_hosts
from windlass.git.format.remote import DEFAULT_USER, Remote
from windlass.git.settings import GitSettings


def command(
    settings: GitSettings,
    remote: Remote,
    credentials: Credentials,
    directory: PrivateDirectory,
    address: str | None,
) -> str:
    """The ssh command for git; writes all files it reads into the private directory."""
    check(remote, credentials)
    key = directory.write("identity", open_key(credentials.ssh_key, credentials.ssh_passphrase))
    hosts = directory.write("known_hosts", credentials.known_hosts)
    text = configuration(settings, remote, credentials, key, hosts, address)
    path = directory.write("ssh_config", text.encode())
    return shlex.join([settings.ssh_program, "-F", str(path)])


def check(remote: Remote, credentials: Credentials) -> None:
    """Raise what ssh could only fail with, before any connection is made."""
    known = known_hosts.fingerprints(credentials.known_hosts, remote.host, remote.port)
    if credentials.host_key_verification and not known:
        name = known_hosts.lookup_name(remote.host, remote.port)
        raise GitError(
            "HostKeyUnknown",
            f"add the host key of {name} to known_hosts in the Secret with the SSH key",
        )
    if not credentials.ssh_key:
        raise GitError("AuthFailed", f"no SSH key for {remote.host}; add one to the Secret")


def configuration(
    settings: GitSettings,
    remote: Remote,
    credentials: Credentials,
    key: Path,
    hosts: Path,
    address: str | None,
) -> str:
    """The whole ssh_config of one call."""
    verified = credentials.host_key_verification
    lines = [
        "Host *",
        f"User {DEFAULT_USER}",
        f"StrictHostKeyChecking {'yes' if verified else 'no'}",
        f'UserKnownHostsFile "{hosts if verified else "/dev/null"}"',
        "GlobalKnownHostsFile /dev/null",
        f"HostKeyAlias {known_hosts.lookup_name(remote.host, remote.port)}",
        "UpdateHostKeys no",
        "CheckHostIP no",
        f'IdentityFile "{key}"',
        "IdentitiesOnly yes",
        "IdentityAgent none",
        "AddKeysToAgent no",
        "PreferredAuthentications publickey",
        # Shorter RSA keys can be broken; ssh before 9.1 does not know how to refuse them.
        "IgnoreUnknown RequiredRSASize",
        "RequiredRSASize 2048",
        "BatchMode yes",
        "ForwardAgent no",
        "ClearAllForwardings yes",
        "PermitLocalCommand no",
        "ControlMaster no",
        "ControlPath none",
        f"ConnectTimeout {settings.connect_timeout_seconds}",
        "ServerAliveInterval 10",
        "ServerAliveCountMax 3",
    ]
    if address is not None:
        lines.append(f"HostName {address}")
    return "\n".join(lines) + "\n"


def open_key(key: bytes, passphrase: str) -> bytes:
    """The private key without its passphrase; SecretMalformed for an unusable key."""
    # Imported here: it takes megabytes that a process without SSH remotes never needs.
    from windlass.git import ssh_key

    return ssh_key.opened(key, passphrase)
