"""Fetch and push through the real ssh client, to a real SSH server."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.git.http_server import branch_tips, commit_files, files_at, git_settings
from tests.support.git.ssh_server import RunningSshServer, running_ssh_server
from tests.support.git.workspace import GitWorkspace
from windlass.git import ssh
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.format.remote import Remote
from windlass.git.ls_remote import list_refs
from windlass.git.push import Pushed
from windlass.git.runner import Git
from windlass.git.settings import GitSettings
from windlass_dev.git_server.bare_repositories import BareRepositories


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RunningSshServer]:
    """An SSH server with one repository."""
    with running_ssh_server(tmp_path) as running:
        commit_files(BareRepositories(tmp_path).create("a"), {"f": "1"})
        yield running


async def test_fetch_and_push(tmp_path: Path, served: RunningSshServer) -> None:
    """With key and host key both work, and no key file stays."""
    own = Credentials(ssh_key=served.key, known_hosts=served.known_hosts)
    git = Git(git_settings(tmp_path))
    work = GitWorkspace.at(tmp_path / "store", git, served.remote("a"), own)
    base = await work.fetch()
    assert isinstance(await work.push(work.commit(base, {"f": b"2"}), base), Pushed)
    assert files_at(tmp_path / "a.git") == {"f": "2"}
    assert not list((tmp_path / "run").iterdir())


async def test_a_changed_host_key_is_refused_with_fingerprints(
    tmp_path: Path, served: RunningSshServer
) -> None:
    """Nothing is sent, and the message has the expected fingerprint."""
    name = served.known_hosts.split()[0].decode()
    other = served.user_public_key
    known = f"{name} ssh-ed25519 {other}\n".encode()
    with pytest.raises(GitError, match="SHA256:") as caught:
        await list_refs(
            Git(git_settings(tmp_path)),
            served.remote("a"),
            Credentials(ssh_key=served.key, known_hosts=known),
        )
    assert caught.value.reason == "HostKeyMismatch"


async def test_a_short_rsa_host_key_is_refused(tmp_path: Path) -> None:
    """A server whose RSA key is below 2048 bits is not trusted, and no login is tried."""
    key = asyncssh.generate_private_key("ssh-rsa", key_size=1024)
    with running_ssh_server(tmp_path, host=key) as served:
        commit_files(BareRepositories(tmp_path).create("a"), {"f": "1"})
        own = Credentials(ssh_key=served.key, known_hosts=served.known_hosts)
        with pytest.raises(GitError) as caught:
            await list_refs(Git(git_settings(tmp_path)), served.remote("a"), own)
        assert caught.value.reason == "HostKeyMismatch", caught.value
        assert served.logins == []


async def test_verification_can_be_turned_off(tmp_path: Path, served: RunningSshServer) -> None:
    """Only by an explicit setting."""
    own = Credentials(ssh_key=served.key, host_key_verification=False)
    assert (await list_refs(Git(git_settings(tmp_path)), served.remote("a"), own)).tip("main")
    strict = dataclasses.replace(own, host_key_verification=True)
    with pytest.raises(GitError) as caught:
        await list_refs(Git(git_settings(tmp_path)), served.remote("a"), strict)
    assert caught.value.reason == "HostKeyUnknown"


_STAND_IN = """#!/bin/sh
# Runs what ssh would run over there, and notes what ssh was given.
directory=$(dirname "$2")
stat -c '%a %n' "$directory" "$directory"/identity "$directory"/known_hosts >> {log}
cat "$2" >> {log}
for last; do :; done
exec sh -c "$last"
"""


@pytest.fixture
def open_key() -> bytes:
    """A private key without a passphrase."""
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def _known(port: int, key: bytes) -> bytes:
    loaded = serialization.load_ssh_private_key(key, None)
    public = loaded.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return b"[127.0.0.1]:%d %s\n" % (port, public)


async def test_git_starts_ssh_with_our_files_only(tmp_path: Path, open_key: bytes) -> None:
    """With a stand-in for ssh: the command, private files and both pipes are correct."""
    repository = BareRepositories(tmp_path).create("a")
    commit_files(repository, {"f": "1"})
    program, log = tmp_path / "ssh", tmp_path / "log"
    program.write_text(_STAND_IN.format(log=log))
    program.chmod(0o755)
    remote = Remote.parse(f"ssh://git@127.0.0.1:2222{repository}")
    own = Credentials(ssh_key=open_key, known_hosts=_known(2222, open_key))
    git = Git(git_settings(tmp_path, ssh_program=str(program)))
    work = GitWorkspace.at(tmp_path / "store", git, remote, own)
    base = await work.fetch()
    commit = work.commit(base, {"f": b"2"})
    assert await work.push(commit, base) == Pushed(tip=commit)
    assert branch_tips(repository)["main"] == commit
    noted = log.read_text()
    assert {line.split()[0] for line in noted.splitlines() if line.startswith(("6", "7"))} == {
        "600",
        "700",
    }
    assert "StrictHostKeyChecking yes" in noted
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh client on this machine")
def test_the_real_client_understands_the_configuration(tmp_path: Path, open_key: bytes) -> None:
    """OpenSSH accepts every line with the intended meaning."""
    remote = Remote.parse("ssh://host.example:2222/a")
    own = Credentials(ssh_key=open_key, known_hosts=b"x")
    text = ssh.configuration(
        GitSettings(), remote, own, tmp_path / "k y", tmp_path / "known", "10.0.0.7"
    )
    (tmp_path / "config").write_text(text)
    done = subprocess.run(
        ["ssh", "-G", "-F", str(tmp_path / "config"), "-p", "2222", "host.example"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    meant = set(done.stdout.splitlines())
    assert {
        "hostname 10.0.0.7",
        "user git",
        "hostkeyalias [host.example]:2222",
        "stricthostkeychecking true",
        "identitiesonly yes",
        "batchmode yes",
        f"identityfile {tmp_path}/k y",
        f"userknownhostsfile {tmp_path}/known",
        "globalknownhostsfile /dev/null",
    } <= meant
    assert {"updatehostkeys no", "updatehostkeys false"} & meant


async def test_without_host_keys_ssh_is_not_even_started(tmp_path: Path, open_key: bytes) -> None:
    """The refusal comes before any program runs."""
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    program.chmod(0o755)
    git = Git(git_settings(tmp_path, ssh_program=str(program)))
    with pytest.raises(GitError) as caught:
        await list_refs(git, Remote.parse("ssh://127.0.0.1:2222/a"), Credentials(ssh_key=open_key))
    assert caught.value.reason == "HostKeyUnknown"
    assert not (tmp_path / "started").exists()
