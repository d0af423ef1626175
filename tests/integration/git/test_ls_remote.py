"""Refs of real servers."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from pathlib import Path

import asyncssh
import pytest
import trustme

from tests.support.git.http_server import (
    PASSWORD,
    TOKEN,
    RunningGitServer,
    branch_tips,
    git_settings,
    running_git_server,
)
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError, InsecureTransport
from windlass.git.fetch import Fetcher
from windlass.git.format.remote import Remote
from windlass.git.ls_remote import RefListings, list_refs
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass_dev.git_server.fault_injection import GitFault


async def test_branches_default_and_emptiness(tmp_path: Path) -> None:
    """A listing has the branches and the default; an empty repository has a listing too."""
    git = Git(git_settings(tmp_path))
    with running_git_server(tmp_path / "srv") as served:
        repository = served.create("team/app", {"a": "1"})
        served.create("empty")
        listing = await list_refs(git, served.remote("team/app"))
        assert (listing.default_branch, listing.tip("main")) == (
            "main",
            branch_tips(repository)["main"],
        )
        assert (await list_refs(git, served.remote("empty"))).refs == {}


async def test_another_object_format_is_recognized(tmp_path: Path) -> None:
    """SHA-256 repositories are recognized by their ids."""
    git = Git(git_settings(tmp_path))
    with running_git_server(tmp_path / "srv") as served:
        path = served.server.create("long", object_format="sha256")
        from tests.support.git.http_server import commit_files

        commit_files(path, {"a": "1"})
        assert (await list_refs(git, served.remote("long"))).object_format == "sha256"


async def test_a_missing_repository_is_not_found(tmp_path: Path) -> None:
    """404 has its own reason."""
    with running_git_server(tmp_path / "srv") as served, pytest.raises(GitError) as caught:
        await list_refs(Git(git_settings(tmp_path)), served.remote("ghost"))
    assert caught.value.reason == "NotFound"


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(username="git", password=PASSWORD),
        Credentials(token=TOKEN),
        Credentials(bearer=TOKEN),
    ],
    ids=["basic", "token", "bearer"],
)
async def test_every_kind_of_credential_works(tmp_path: Path, credentials: Credentials) -> None:
    """Password, token as password, and bearer header."""
    with running_git_server(tmp_path / "srv", password=PASSWORD, token=TOKEN) as served:
        served.create("a", {"f": "1"})
        listing = await list_refs(Git(git_settings(tmp_path)), served.remote("a"), credentials)
        assert listing.tip("main")
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.parametrize(
    "credentials",
    [Credentials(), Credentials("git", "wrong-password"), Credentials(bearer="wrong-password")],
    ids=["none", "basic", "bearer"],
)
async def test_wrong_credentials_fail_and_show_nowhere(
    tmp_path: Path, credentials: Credentials
) -> None:
    """AuthFailed, without the password in the message."""
    with running_git_server(tmp_path / "srv", password=PASSWORD) as served:
        served.create("a")
        with pytest.raises(GitError) as caught:
            await list_refs(Git(git_settings(tmp_path)), served.remote("a"), credentials)
    assert caught.value.reason == "AuthFailed"
    assert "wrong-password" not in repr(caught.value) + str(caught.value)


async def test_http_needs_a_listed_host(tmp_path: Path) -> None:
    """Nothing is sent to a host that is not listed."""
    with running_git_server(tmp_path / "srv", password=PASSWORD) as served:
        served.create("a")
        git = Git(git_settings(tmp_path, insecure_hosts=frozenset()))
        with pytest.raises(InsecureTransport):
            await list_refs(git, served.remote("a"), served.credentials)
        assert served.server.requests == []


async def test_loopback_needs_a_listed_host(tmp_path: Path) -> None:
    """Names that resolve to the machine itself are refused before a connection."""
    git = Git(git_settings(tmp_path, insecure_hosts=frozenset()))
    with pytest.raises(GitError) as caught:
        await list_refs(git, Remote.parse("https://localhost:1/a"))
    assert caught.value.reason == "Unavailable"


async def test_a_listed_host_with_its_port(tmp_path: Path) -> None:
    """HOST:PORT allows http to that port."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        listed = frozenset({f"127.0.0.1:{served.remote('a').port}"})
        git = Git(git_settings(tmp_path, insecure_hosts=listed))
        assert (await list_refs(git, served.remote("a"))).tip("main")


@pytest.mark.scenario("S18")
@pytest.mark.parametrize("scheme", ["http", "https", "ssh"])
async def test_no_message_reveals_open_ports(tmp_path: Path, scheme: str) -> None:
    """A closed, silent, foreign or refused port, and one that hangs up, have one error.

    So has a fetch of a commit id, before which nothing is listed.
    """

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        try:
            await reader.read(1)
        finally:
            writer.close()

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that was killed may close its socket after the test has ended.
        try:
            await reader.read()
        finally:
            writer.close()

    async def listing_error(port: int, **changes: object) -> tuple[str, str]:
        git = Git(git_settings(tmp_path, **changes))
        own = Credentials(ssh_key=_ssh_key(), host_key_verification=False)
        with pytest.raises(GitError) as caught:
            await list_refs(git, Remote.parse(f"{scheme}://127.0.0.1:{port}/a"), own)
        return caught.value.reason, caught.value.message.replace(f":{port}", ":PORT")

    async def fetch_error(port: int, **changes: object) -> tuple[str, str]:
        git, remote = Git(git_settings(tmp_path, **changes)), f"{scheme}://127.0.0.1:{port}/a"
        own = Credentials(ssh_key=_ssh_key(), host_key_verification=False)
        store = Store.open(tmp_path / "store")
        with pytest.raises(GitError) as caught:
            await Fetcher(git, store.directory, Remote.parse(remote), own).fetch_id("a" * 40)
        return caught.value.reason, caught.value.message.replace(f":{port}", ":PORT")

    async with (
        await asyncio.start_server(hang_up, "127.0.0.1", 0) as ending,
        await asyncio.start_server(speak, "127.0.0.1", 0) as speaking,
        await asyncio.start_server(stay_silent, "127.0.0.1", 0) as quiet,
    ):
        ports = [server.sockets[0].getsockname()[1] for server in (ending, speaking)]
        errors = {await listing_error(port) for port in (1, *ports)}
        errors.add(await listing_error(ports[0], api_server=("127.0.0.1", ports[0])))
        silent = quiet.sockets[0].getsockname()[1]
        errors.add(await listing_error(silent, list_timeout_seconds=1.0))
        speed = {"low_speed_seconds": 1, "connect_timeout_seconds": 1, "list_timeout_seconds": 4.0}
        errors.add(await listing_error(silent, **speed))
        limits = {"fetch_timeout_seconds": 1.0, "list_timeout_seconds": 1.0}
        errors.add(await fetch_error(silent, **limits))
    [(reason, message)] = errors
    assert reason == "Unavailable"
    assert message.startswith("git server 127.0.0.1:PORT cannot be reached")


def _ssh_key() -> bytes:
    return asyncssh.generate_private_key("ssh-ed25519").export_private_key()


@pytest.mark.scenario("S14")
async def test_a_redirect_gets_no_credentials(tmp_path: Path) -> None:
    """A redirect to another host is an error, and that host gets no request."""
    with (
        running_git_server(tmp_path / "a", password=PASSWORD) as first,
        running_git_server(tmp_path / "b") as second,
    ):
        first.create("a", {"f": "1"})
        second.create("a", {"f": "1"})
        target = second.server.url("x").rpartition("/")[0]
        first.server.faults.set(GitFault("redirect", location=target))
        with pytest.raises(GitError) as caught:
            await list_refs(Git(git_settings(tmp_path)), first.remote("a"), first.credentials)
        assert caught.value.reason == "Unavailable"
        assert second.server.requests == []


@pytest.fixture
def authority() -> trustme.CA:
    """A certificate authority that no machine trusts."""
    return trustme.CA()


def _tls(tmp_path: Path, authority: trustme.CA, name: str) -> dict[str, Path]:
    issued = authority.issue_cert(name)
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "tls.pem"))
    return {"certificate": tmp_path / "tls.pem", "key": tmp_path / "tls.pem"}


def _by_name(served: RunningGitServer, name: str) -> Remote:
    return Remote.parse(served.server.url(name).replace("127.0.0.1", "localhost"))


async def test_https_with_an_own_authority(tmp_path: Path, authority: trustme.CA) -> None:
    """The extra CA is trusted for this call; the name is pinned to the checked addresses."""
    own = Credentials("git", PASSWORD, ca=authority.cert_pem.bytes())
    tls = _tls(tmp_path, authority, "localhost")
    with running_git_server(tmp_path / "srv", password=PASSWORD, **tls) as served:
        served.create("a", {"f": "1"})
        listing = await list_refs(Git(git_settings(tmp_path)), _by_name(served, "a"), own)
        assert listing.tip("main")


@pytest.mark.parametrize("name", ["localhost", "other.example.org"])
async def test_unverified_tls_sends_nothing(
    tmp_path: Path, authority: trustme.CA, name: str
) -> None:
    """An unknown authority or a wrong name ends before the password is sent."""
    ca = authority.cert_pem.bytes() if name != "localhost" else b""
    with running_git_server(
        tmp_path / "srv", password=PASSWORD, **_tls(tmp_path, authority, name)
    ) as served:
        served.create("a", {"f": "1"})
        with pytest.raises(GitError) as caught:
            await list_refs(
                Git(git_settings(tmp_path)),
                _by_name(served, "a"),
                Credentials("git", PASSWORD, ca=ca),
            )
        assert caught.value.reason == "Unavailable"
        assert served.server.requests == []


@pytest.mark.scenario("S17")
@pytest.mark.parametrize(
    ("version", "negotiated"),
    [
        (ssl.TLSVersion.TLSv1_1, []),
        (ssl.TLSVersion.TLSv1_2, ["TLSv1.2"]),
        (ssl.TLSVersion.TLSv1_3, ["TLSv1.3"]),
    ],
)
async def test_git_speaks_no_tls_before_1_2(
    version: ssl.TLSVersion, negotiated: list[str], tmp_path: Path, authority: trustme.CA
) -> None:
    """A server with an older version alone gets no request; a newer version is no hindrance."""
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("ssl_object").version())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    context = _context(authority, version)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        remote = Remote.parse(f"https://localhost:{server.sockets[0].getsockname()[1]}/a")
        own = Credentials(ca=authority.cert_pem.bytes())
        with pytest.raises(GitError):
            await list_refs(Git(git_settings(tmp_path)), remote, own)
    assert seen == negotiated


def _context(authority: trustme.CA, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A server that speaks this version alone, also where the machine's policy is stricter."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = version
        context.minimum_version = version
    return context


async def test_shared_listing_makes_one_exchange(tmp_path: Path) -> None:
    """Ten callers in a row cost the server one exchange."""
    with running_git_server(tmp_path / "srv") as served:
        served.create("a", {"f": "1"})
        listings = RefListings(Git(git_settings(tmp_path)))
        for _ in range(10):
            await listings.get(served.remote("a"), max_age_seconds=60)
        assert [seen.method for seen in served.server.requests] == ["GET", "POST"]
