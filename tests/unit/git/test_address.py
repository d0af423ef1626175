"""Names that resolve to the machine itself are refused."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from windlass.git import address
from windlass.git.errors import GitError
from windlass.git.settings import GitSettings


def _answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", (each, 443)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize(
    "where",
    ["127.0.0.1", "127.8.8.8", "::1", "169.254.169.254", "fe80::1", "fe80::1%eth0", "0.0.0.0",  # noqa: S104
     "::", "::ffff:127.0.0.1", "fd00:ec2::254", "100.100.100.200", "224.0.0.1",
     "168.63.129.16", "fd20:ce::254", "64:ff9b::169.254.169.254", "2002:7f00:1::"],
)  # fmt: skip
async def test_local_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """One bad address among good ones is enough; listing the host allows it."""
    _answers(monkeypatch, "93.184.216.34", where)
    with pytest.raises(GitError) as caught:
        await address.resolve("host", 443, GitSettings())
    assert caught.value.reason == "Unavailable"
    listed = GitSettings(local_hosts=frozenset({"host"}))
    assert where in await address.resolve("host", 443, listed)


@pytest.mark.parametrize(
    "where", ["10.0.0.1", "192.168.1.1", "93.184.216.34", "2001:db8::1", "64:ff9b::a00:1"]
)
async def test_cluster_and_public_addresses_pass(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Git servers inside the cluster are allowed."""
    _answers(monkeypatch, where, where)
    assert await address.resolve("host", 443, GitSettings()) == (where,)


@pytest.mark.parametrize("where", ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1"])
async def test_settings_refuse_further_addresses(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Blocks of the settings count like this machine's own addresses; a listed host is allowed."""
    _answers(monkeypatch, where)
    settings = GitSettings(refused_cidrs=("10.0.0.0/8", "fd00::/8"))
    with pytest.raises(GitError) as caught:
        await address.resolve("host", 443, settings)
    assert caught.value.reason == "Unavailable"
    listed = dataclasses.replace(settings, local_hosts=frozenset({"host:443"}))
    assert await address.resolve("host", 443, listed) == (where,)


async def test_the_api_server_is_refused_with_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under any name, and even if the host is listed; other ports of the address are not."""
    _answers(monkeypatch, "10.96.0.1")
    settings = GitSettings(
        insecure_hosts=frozenset({"host"}), api_server=("kubernetes.default.svc", 443)
    )
    with pytest.raises(GitError) as caught:
        await address.resolve("host", 443, settings)
    assert caught.value.reason == "Unavailable"
    assert await address.resolve("host", 8443, settings) == ("10.96.0.1",)


@pytest.mark.parametrize(
    ("listed", "host", "port", "allowed"),
    [
        ("git.corp", "git.corp", 80, True),
        ("git.corp:3000", "git.corp", 3000, True),
        ("git.corp:3000", "git.corp", 80, False),
        ("[::1]:3000", "[::1]", 3000, True),
        ("[::1]", "::1", 80, True),
        ("git.corp", "git.corp.evil", 80, False),
        ("Git.Corp:3000", "git.corp", 3000, True),
    ],
)
def test_a_listed_host_may_name_its_port(listed: str, host: str, port: int, allowed: bool) -> None:
    """Without a port every port is allowed, with one only that port."""
    assert GitSettings(insecure_hosts=frozenset({listed})).allows_insecure(host, port) == allowed


async def test_an_api_server_without_an_answer_refuses_no_other_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its name may be one that only a proxy resolves; once resolved, its address stays refused."""
    known: dict[str, str] = {"git.example.com": "93.184.216.34", "alias": "10.96.0.1"}

    def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(2, 1, 6, "", (known[host], 443))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    settings = GitSettings(api_server=("api.behind-a-proxy", 443))
    assert await address.resolve("git.example.com", 443, settings) == ("93.184.216.34",)
    known["api.behind-a-proxy"] = "10.96.0.1"
    await address.resolve("git.example.com", 443, settings)
    del known["api.behind-a-proxy"]
    with pytest.raises(GitError):
        await address.resolve("alias", 443, settings)


async def test_unknown_names_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that does not resolve may do so later."""

    def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(GitError) as caught:
        await address.resolve("host", 443, GitSettings())
    assert caught.value.reason == "Unavailable"


def test_literals_are_recognized() -> None:
    """Addresses need no pinning."""
    assert address.is_literal("10.0.0.1")
    assert address.is_literal("[2001:db8::1]")
    assert not address.is_literal("host")
