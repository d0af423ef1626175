"""Fetch and push through a real sshd."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.gitserver import SshServed, commit_files, files_at, git_settings, serving_ssh
from tests.support.gitwork import Work

from windlass.dev.git_repositories import Repositories
from windlass.git.child import Git
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.listing import read
from windlass.git.push import Pushed


@pytest.fixture
def served(tmp_path: Path) -> Iterator[SshServed]:
    """An sshd with one repository."""
    with serving_ssh(tmp_path) as running:
        commit_files(Repositories(tmp_path).create("a"), {"f": "1"})
        yield running


async def test_fetch_and_push(tmp_path: Path, served: SshServed) -> None:
    """With key and host key everything works, and no key file stays."""
    own = Credentials(ssh_key=served.key, known_hosts=served.known_hosts)
    git = Git(git_settings(tmp_path))
    work = Work.at(tmp_path / "store", git, served.remote("a"), own)
    base = await work.fetch()
    assert isinstance(await work.push(work.commit(base, {"f": b"2"}), base), Pushed)
    assert files_at(tmp_path / "a.git") == {"f": "2"}
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.scenario("A6")
async def test_a_changed_host_key_is_refused_with_fingerprints(
    tmp_path: Path, served: SshServed
) -> None:
    """Nothing is sent, and the message names what was expected."""
    name = served.known_hosts.split()[0].decode()
    other = (served.root / "user.pub").read_text().split()[1]
    known = f"{name} ssh-ed25519 {other}\n".encode()
    with pytest.raises(GitError, match="SHA256:") as caught:
        await read(
            Git(git_settings(tmp_path)),
            served.remote("a"),
            Credentials(ssh_key=served.key, known_hosts=known),
        )
    assert caught.value.reason == "HostKeyMismatch"


async def test_verification_can_be_turned_off(tmp_path: Path, served: SshServed) -> None:
    """Only when asked."""
    own = Credentials(ssh_key=served.key, host_key_verification=False)
    assert (await read(Git(git_settings(tmp_path)), served.remote("a"), own)).tip("main")
    strict = dataclasses.replace(own, host_key_verification=True)
    with pytest.raises(GitError) as caught:
        await read(Git(git_settings(tmp_path)), served.remote("a"), strict)
    assert caught.value.reason == "HostKeyMismatch"
