"""The hardened git child against servers that hang, are slow, flood or try to read secrets."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
from pathlib import Path

import pytest

from tests.support.git.http_server import (
    PASSWORD,
    command_lines_and_environments,
    git_settings,
    running_git_server,
    wait_until,
)
from tests.support.git.workspace import GitWorkspace
from tests.support.processes.polling import DEADLINE_SECONDS
from windlass.git import environment
from windlass.git import process as child_process
from windlass.git.credentials import Credentials, Proxy
from windlass.git.errors import GitError
from windlass.git.format.remote import Remote
from windlass.git.ls_remote import list_refs
from windlass.git.push import Rejected, Transient
from windlass.git.runner import Git
from windlass_dev.git_server.fault_injection import GitFault


def _processes_about(text: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and "git" in line:
            found.append(line)
    return found


async def test_credentials_are_in_no_argv_no_environment_and_no_file(tmp_path: Path) -> None:
    """While git holds an authenticated connection, no process can read the password anywhere."""
    # What other tests have in their processes meanwhile is not what is looked for.
    password = f"{PASSWORD}-{secrets.token_hex(4)}"
    with running_git_server(tmp_path / "srv", password=password) as served:
        served.create("a", {"f": "1"})
        served.server.faults.set(GitFault("hang", advertisement=False))
        call = asyncio.create_task(
            list_refs(Git(git_settings(tmp_path)), served.remote("a"), Credentials("git", password))
        )
        await asyncio.to_thread(
            wait_until, lambda: any(seen.method == "POST" for seen in served.server.requests)
        )
        printed = command_lines_and_environments()
        files = b"".join(
            path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()
        )
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert f":{served.server.port}/a.git" in printed
        pair = base64.b64encode(f"git:{password}".encode()).decode()
        for secret in (password, pair):
            assert secret not in printed
            assert secret.encode() not in files


async def test_canceling_kills_the_whole_group_and_leaves_nothing(tmp_path: Path) -> None:
    """After a canceled call no process and no private directory is left."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        served.server.faults.set(GitFault("hang"))
        call = asyncio.create_task(list_refs(Git(git_settings(tmp_path)), served.remote("a")))
        await asyncio.to_thread(wait_until, lambda: served.server.requests)
        assert _processes_about(f":{served.server.port}/")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not _processes_about(f":{served.server.port}/")
        assert not list((tmp_path / "run").iterdir())


async def test_a_hanging_fetch_ends_at_its_deadline_without_locks(tmp_path: Path) -> None:
    """The deadline kills the group; the store has no lock and works afterwards."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        git = Git(git_settings(tmp_path, fetch_timeout_seconds=1.0))
        work = GitWorkspace.at(tmp_path / "store", git, served.remote("a"))
        served.server.faults.set(GitFault("hang", advertisement=False))
        with pytest.raises(GitError) as caught:
            await work.fetch()
        assert caught.value.reason == "Timeout"
        assert "timed out after 1 s" in str(caught.value)
        assert not _processes_about(f":{served.server.port}/")
        assert not list((tmp_path / "store").rglob("*.lock"))
        served.server.faults.clear()
        patient = GitWorkspace(Git(git_settings(tmp_path)), work.store, work.remote)
        assert await patient.fetch()


async def test_a_slow_server_is_ended_by_its_speed(tmp_path: Path) -> None:
    """One byte a second is too slow, long before any deadline."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        served.server.faults.set(GitFault("slow"))
        git = Git(git_settings(tmp_path, low_speed_seconds=1))
        with pytest.raises(GitError) as caught:
            await list_refs(git, served.remote("a"))
    assert caught.value.reason == "Unavailable"


async def test_endless_refs_hit_the_memory_limit(tmp_path: Path) -> None:
    """A server that never stops listing refs cannot exhaust the machine."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        served.server.faults.set(GitFault("endless"))
        settings = git_settings(
            tmp_path, memory_limit_bytes=64 * 1024 * 1024, list_timeout_seconds=60.0
        )
        with pytest.raises(GitError) as caught:
            await list_refs(Git(settings), served.remote("a"))
    assert caught.value.reason == "TooLarge"


async def test_endless_progress_is_cut(tmp_path: Path) -> None:
    """A server that sends progress without end during a push is stopped, and the ref decides."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        settings = git_settings(tmp_path, stderr_limit_bytes=100_000)
        work = GitWorkspace.at(tmp_path / "store", Git(settings), served.remote("a"))
        tip = await work.fetch()
        served.server.faults.set(GitFault("endless", service="receive-pack", advertisement=False))
        outcome = await work.push(work.commit(tip, {"f": b"2"}), tip)
    assert isinstance(outcome, Transient)
    assert "too much output" in outcome.message


async def test_too_much_output_is_too_large(tmp_path: Path) -> None:
    """The output of a child is bounded."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        git = Git(git_settings(tmp_path, stdout_limit_bytes=10))
        with pytest.raises(GitError) as caught:
            await list_refs(git, served.remote("a"))
    assert caught.value.reason == "TooLarge"


async def test_server_errors_are_unavailable(tmp_path: Path) -> None:
    """A 500 may be transient."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        served.server.faults.set(GitFault("error"))
        with pytest.raises(GitError) as caught:
            await list_refs(Git(git_settings(tmp_path)), served.remote("a"))
        assert (caught.value.reason, caught.value.is_transient) == ("Unavailable", True)


async def test_hook_text_is_redacted(tmp_path: Path) -> None:
    """A server that repeats our password in its refusal does not get it into a status."""
    with running_git_server(tmp_path / "srv", password=PASSWORD) as served:
        served.create("a", {"f": "1"})
        git = Git(git_settings(tmp_path))
        work = GitWorkspace.at(tmp_path / "store", git, served.remote("a"), served.credentials)
        tip = await work.fetch()
        served.server.faults.set(
            GitFault("reject", service="receive-pack", text=f"not you, {PASSWORD}: quota")
        )
        outcome = await work.push(work.commit(tip, {"f": b"2"}), tip)
    assert isinstance(outcome, Rejected)
    assert PASSWORD not in outcome.message
    assert "not you" in outcome.message


async def test_the_users_configuration_and_hooks_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither our environment nor a hook in the store changes what git does."""
    hostile = tmp_path / "home"
    hostile.mkdir()
    (hostile / ".gitconfig").write_text("[alias]\n\tx = !touch pwned\n[core]\n\tpager = bad\n")
    monkeypatch.setenv("HOME", str(hostile))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_SSH_COMMAND", "touch pwned")
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        work = GitWorkspace.at(tmp_path / "store", Git(git_settings(tmp_path)), served.remote("a"))
        hooks = work.store.directory / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in ("pre-push", "reference-transaction", "post-index-change"):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\nexit 1\n")
            (hooks / name).chmod(0o755)
        tip = await work.fetch()
        await work.push(work.commit(tip, {"f": b"2"}), tip)
        done = await work.git.run(
            ["config", "--show-origin", "--list"],
            cwd=work.store.directory,
            deadline_seconds=DEADLINE_SECONDS,
        )
    assert str(hostile).encode() not in done.stdout
    assert not (tmp_path / "pwned").exists()


async def test_the_proxy_gets_its_own_password_only(tmp_path: Path) -> None:
    """The helper authenticates to a proxy; the remote's password is not sent to it."""
    received = bytearray()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    own = Credentials("git", PASSWORD, proxy=Proxy(f"http://127.0.0.1:{port}", "p@u", "proxied"))
    async with server:
        with pytest.raises(GitError):
            await list_refs(Git(git_settings(tmp_path)), Remote.parse("http://localhost:1/a"), own)
    pair = base64.b64encode(b"p@u:proxied")
    assert b"GET http://localhost:1/a/info/refs" in received
    assert pair in received
    assert base64.b64encode(f"git:{PASSWORD}".encode()) not in received


async def test_a_missing_git_is_reported(tmp_path: Path) -> None:
    """The message names the program."""
    git = Git(git_settings(tmp_path, program="no-such-git"))
    with pytest.raises(GitError, match="no-such-git"):
        await git.run(["version"], deadline_seconds=DEADLINE_SECONDS)


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    """Keys of a killed process are removed; those of running ones, and our own in use, stay."""
    for name in ("windlass-git-4194305-x", f"windlass-git-{os.getppid()}-y", "else"):
        (tmp_path / name).mkdir()
    with environment.PrivateDirectory(tmp_path) as mine:
        key = mine.write("identity", b"k")
        assert key.stat().st_mode & 0o777 == 0o600
        assert mine.path.stat().st_mode & 0o777 == 0o700
        environment.remove_leftovers(tmp_path)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {f"windlass-git-{os.getppid()}-y", "else", mine.path.name}
    assert not mine.path.exists()


def test_a_directory_is_in_use_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread of the same process may remove leftovers at any moment."""
    make = os.mkdir

    def make_while_another_removes(path: Path, *mode: int, **given: int) -> None:
        make(path, *mode, **given)
        environment.remove_leftovers(tmp_path)

    monkeypatch.setattr(os, "mkdir", make_while_another_removes)
    with environment.PrivateDirectory(tmp_path) as mine:
        assert mine.path.is_dir()


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_the_environment_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of our own environment a child has the search path and nothing else."""
    for name in ("CANARY", "SSH_AUTH_SOCK", "HTTPS_PROXY", "GIT_TRACE", "LD_PRELOAD_X"):
        monkeypatch.setenv(name, "canary")
    git = Git(git_settings(tmp_path, program=_program(tmp_path / "shows", "env")))
    printed = (await git.run(["x"], deadline_seconds=DEADLINE_SECONDS)).stdout.decode()
    assert "canary" not in printed
    ours = {line.partition("=")[0] for line in printed.splitlines()}
    foreign = {name for name in ours if not name.startswith("GIT_")}
    assert foreign <= {"PATH", "HOME", "TMPDIR", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"}


async def test_the_output_of_a_child_is_redacted(tmp_path: Path) -> None:
    """Whatever git prints, the password is not in the result."""
    text = f"echo 'fatal: {PASSWORD} was wrong' >&2; exit 1"
    git = Git(git_settings(tmp_path, program=_program(tmp_path / "blabs", text)))
    with pytest.raises(GitError) as caught:
        await git.run(
            ["x"], credentials=Credentials("git", PASSWORD), deadline_seconds=DEADLINE_SECONDS
        )
    assert "fatal: [redacted] was wrong" in caught.value.message


async def test_a_verdict_is_redacted(tmp_path: Path) -> None:
    """Also if the server's status of a ref repeats the password."""
    verdict = f"printf '!\\ta:b\\t[remote rejected] ({PASSWORD})\\n'; exit 1"
    text = f'case "$1" in push) {verdict};; *) exec git "$@";; esac'
    with running_git_server(tmp_path / "srv", password=PASSWORD) as served:
        served.create("a", {"f": "1"})
        git = Git(git_settings(tmp_path, program=_program(tmp_path / "half", text)))
        work = GitWorkspace.at(tmp_path / "store", git, served.remote("a"), served.credentials)
        tip = await work.fetch()
        outcome = await work.push(work.commit(tip, {"f": b"2"}), tip)
    assert isinstance(outcome, Rejected)
    assert "[remote rejected] ([redacted])" in outcome.message


async def test_limits_bind_every_descendant(tmp_path: Path) -> None:
    """Memory and file size are bounded from the first instruction on, also in grandchildren."""
    text = "(ulimit -v; ulimit -f; ulimit -c)"
    settings = git_settings(
        tmp_path,
        program=_program(tmp_path / "limits", text),
        memory_limit_bytes=512 * 1024 * 1024,
        file_limit_bytes=1024 * 1024,
    )
    done = await Git(settings).run(["x"], deadline_seconds=DEADLINE_SECONDS)
    assert done.stdout.split() == [b"524288", b"2048", b"0"]


async def test_large_files_are_refused(tmp_path: Path) -> None:
    """A fetch that would fill the disk ends as TooLarge, and the store works afterwards."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "".join(str(number) for number in range(200_000))})
        git = Git(git_settings(tmp_path, file_limit_bytes=64 * 1024))
        work = GitWorkspace.at(tmp_path / "store", git, served.remote("a"))
        with pytest.raises(GitError) as caught:
            await work.fetch(blobless=False)
        assert caught.value.reason == "TooLarge"
        assert await GitWorkspace(Git(git_settings(tmp_path)), work.store, work.remote).fetch()


async def test_the_error_of_a_sink_is_raised_unchanged(tmp_path: Path) -> None:
    """While git still writes on both pipes; a full disk must not look like our fault."""

    def full(piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await child_process.run(
            ["/bin/sh", "-c", "echo piece; exec sleep 60"],
            environment={},
            cwd=tmp_path,
            stdin=b"",
            descriptors=(),
            limits=child_process.ProcessLimits(30, 1 << 20, 1 << 20, 1 << 30, 1 << 30),
            sink=full,
        )
