"""Refs of real servers to commits, with as few calls as possible."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.git.http_server import (
    PASSWORD,
    RunningGitServer,
    branch_tips,
    commit_files,
    git,
    git_settings,
    running_git_server,
)
from windlass.base.clock import SystemClock
from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.git import ls_remote
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError
from windlass.git.format import refs
from windlass.git.format.remote import Remote
from windlass.sources import proofs
from windlass.sources.git_service import GitService
from windlass.sources.resolver import Resolved, Resolver
from windlass_dev.git_server.fault_injection import GitFault
from windlass_dev.git_server.smart_http import GitServer


class Desk:
    """A resolver and a repository with tags, a pull request and a commit behind the tip."""

    def __init__(self, tmp_path: Path, served: RunningGitServer) -> None:
        self.served = served
        self.service = GitService(git_settings(tmp_path), clock=SystemClock())
        self.git, self.listings = self.service.git, self.service.listings
        self.scratch = tmp_path / "scratch"
        self.expected: set[str] = set()
        self.listings.expect("test", lambda _: refs.ref_patterns_of(self.expected))
        self.resolver = Resolver(self.service, self.scratch, SystemClock())
        self.repository = served.create("a", {"x": "1"})
        self.first = branch_tips(self.repository)["main"]
        self.tip = commit_files(self.repository, {"x": "2"})
        for args in (("light",), ("-a", "-m", "1", "heavy"), ("-a", "-m", "2", "nested", "heavy")):
            git(self.repository, "tag", *args, *(("main",) if "nested" not in args else ()))
        git(self.repository, "update-ref", "refs/pull/7/head", self.first)

    async def resolve(
        self, wanted: str, credentials: Credentials = ANONYMOUS, *, max_age: float = 60.0
    ) -> Resolved:
        return await self.resolver.resolve(
            self.served.remote("a"), credentials, wanted, max_age_seconds=max_age
        )

    async def refused(self, wanted: str, *, max_age: float = 60.0) -> WindlassError:
        with pytest.raises(WindlassError) as caught:
            await self.resolve(wanted, max_age=max_age)
        return caught.value

    @property
    def exchanges(self) -> int:
        return sum(seen.method == "GET" for seen in self.served.server.requests)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RunningGitServer]:
    """A server without credentials."""
    with running_git_server(tmp_path / "srv") as running:
        yield running


@pytest.fixture
async def desk(tmp_path: Path, served: RunningGitServer) -> AsyncIterator[Desk]:
    """A resolver on that server."""
    made = Desk(tmp_path, served)
    yield made
    await made.resolver.close()
    await made.listings.close()


@pytest.mark.scenario("G4")
async def test_every_kind_of_ref(desk: Desk) -> None:
    """Branch, three kinds of tag, other refs by their full name."""
    wanted = ("main", "refs/heads/main", "light", "heavy", "nested", "refs/tags/nested")
    desk.expected.update(wanted)
    for each in wanted:
        assert (await desk.resolve(each)).commit == desk.tip
    found = await desk.resolve("refs/pull/7/head")
    assert found == Resolved(desk.first, "refs/pull/7/head", "ref")
    assert desk.exchanges == 2


@pytest.mark.scenario("G5")
async def test_a_tag_wins_over_a_branch(desk: Desk) -> None:
    """The full name selects the branch."""
    git(desk.repository, "update-ref", "refs/heads/light", desk.first)
    found = await desk.resolve("light")
    assert (found.commit, found.kind) == (desk.tip, "tag")
    assert found.ambiguous is not None
    assert (await desk.resolve("refs/heads/light")).commit == desk.first


@pytest.mark.scenario("G6")
async def test_ids_are_proven_once(desk: Desk) -> None:
    """A commit that is no tip is proven by one fetch, for all who ask, and remembered."""
    found = await asyncio.gather(*(desk.resolve(desk.first.upper()) for _ in range(5)))
    assert set(found) == {Resolved(desk.first, desk.first, "sha")}
    assert desk.exchanges == 1
    await desk.resolve(desk.first, max_age=0)
    assert desk.exchanges == 1
    desk.resolver.forget(desk.served.remote("a"), desk.first)
    await desk.resolve(desk.first)
    assert desk.exchanges == 2
    assert list(desk.scratch.iterdir()) == []


@pytest.mark.scenario("G6")
async def test_ids_that_lead_nowhere(desk: Desk) -> None:
    """A random id is unreachable, a short one gets a hint, a tag's id is its commit."""
    error = await desk.refused("1" * 40)
    assert isinstance(error, Stalled)
    assert (error.reason, error.after) == ("CommitUnreachable", 300.0)
    short = await desk.refused(desk.first[:7])
    assert short.reason == "RefNotFound"
    assert "full SHA" in short.message
    tag = git(desk.repository, "rev-parse", "nested").strip()
    assert (await desk.resolve(tag)).commit == desk.tip
    tree = git(desk.repository, "rev-parse", "main^{tree}").strip()
    assert (await desk.refused(tree)).reason == "CommitUnreachable"
    assert (await desk.refused("1" * 64)).reason == "CommitUnreachable"
    assert (await desk.refused("a..b")).reason == "RefNotFound"


@pytest.mark.parametrize("filters", [True, False])
async def test_ids_of_an_old_server(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, filters: bool
) -> None:
    """Where ids are refused, branches and tags are searched."""
    original = GitServer._variables
    monkeypatch.setattr(
        GitServer, "_variables", lambda self, *args: original(self, *args) | {"GIT_PROTOCOL": ""}
    )
    git(desk.repository, "config", "uploadpack.allowAnySHA1InWant", "false")
    git(desk.repository, "config", "uploadpack.allowFilter", str(filters).lower())
    assert (await desk.resolve(desk.first)).commit == desk.first
    assert (await desk.refused("1" * 40)).reason == "CommitUnreachable"


@pytest.mark.scenario("G9")
async def test_twenty_askers_three_spellings_one_call(desk: Desk) -> None:
    """One call per interval and credential, however the repository is spelled."""
    url = desk.served.server.url("a")
    spellings = [url, url.removesuffix(".git"), url + "/"]
    wanted = ["main", "light", "heavy", "refs/heads/main"]
    credentials = [ANONYMOUS, Credentials("someone", "else")]

    async def one(number: int, who: Credentials) -> None:
        remote = Remote.parse(spellings[number % 3])
        found = await desk.resolver.resolve(remote, who, wanted[number % 4], max_age_seconds=60)
        assert found.commit == desk.tip

    for count, who in enumerate(credentials, start=1):
        await asyncio.gather(*(one(number, who) for number in range(20)))
        for number in range(20):
            await one(number, who)
        assert desk.exchanges == count


async def test_only_the_named_refs_are_printed(desk: Desk) -> None:
    """Names that end alike are not taken for each other, and odd ones are no wildcards."""
    git(desk.repository, "update-ref", "refs/heads/x/refs/heads/main", desk.first)
    git(desk.repository, "update-ref", "refs/heads/deep/main", desk.first)
    git(desk.repository, "update-ref", "refs/heads/-dash", desk.first)
    found = await ls_remote.list_refs(
        desk.git, desk.served.remote("a"), wants=refs.ref_patterns("main")
    )
    assert (dict(found.refs), found.default_branch) == ({"refs/heads/main": desk.tip}, "main")
    assert (await desk.resolve("refs/heads/-dash")).commit == desk.first
    for wanted in ("-dash", "ma*", "mai?", "[m]ain"):
        assert (await desk.refused(wanted)).reason == "RefNotFound"


async def test_pokes_see_what_was_pushed_before(desk: Desk) -> None:
    """A hundred at once cost one call or two, and none gets an old answer."""
    await desk.resolve("main")
    newest = commit_files(desk.repository, {"x": "3"})
    assert (await desk.resolve("main")).commit == desk.tip
    before = desk.exchanges
    found = await asyncio.gather(*(desk.resolve("main", max_age=0) for _ in range(100)))
    assert {each.commit for each in found} == {newest}
    assert desk.exchanges - before <= 2


async def test_more_names_than_can_be_asked_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then everything is listed, and matched by whole names all the same."""
    monkeypatch.setattr(ls_remote, "MOST_NAMES", 3)
    desk.expected.update(f"refs/pull/{number}/head" for number in range(1, 6))
    for number in range(1, 6):
        git(desk.repository, "update-ref", f"refs/pull/{number}/head", desk.first)
    for number in range(1, 6):
        assert (await desk.resolve(f"refs/pull/{number}/head")).commit == desk.first
    assert (await desk.resolve("nested")).commit == desk.tip
    assert (await desk.refused("refs/pull/9/head")).reason == "RefNotFound"


async def test_too_many_refs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer beyond the cap is refused, not held in memory."""
    monkeypatch.setattr(ls_remote, "ADVERTISEMENT_BYTES", 200)
    assert (await desk.resolve("main")).commit == desk.tip
    desk.expected.update(f"v{number}" for number in range(40))
    for number in range(9):
        git(desk.repository, "tag", f"unasked-{number}", "main")
    error = await desk.refused("main", max_age=0)
    assert isinstance(error, Retryable)
    assert error.reason == "TooLarge"


async def test_a_failure_is_told_again_for_a_moment(desk: Desk) -> None:
    """Passes that other events cause do not bother the remote; who wants news asks."""
    desk.served.server.faults.set(GitFault("error"))
    assert (await desk.refused("main")).reason == "Unavailable"
    before = desk.exchanges
    assert (await desk.refused("main")).reason == "Unavailable"
    assert desk.exchanges == before
    desk.served.server.faults.clear()
    assert (await desk.resolve("main", max_age=0)).commit == desk.tip
    assert (await desk.resolve("main")).commit == desk.tip


async def test_causes_of_a_remote(desk: Desk, tmp_path: Path) -> None:
    """Missing repository, wrong password, redirect, blocked transport."""
    await _expect(desk.resolver, desk.served.remote("ghost"), "RepoNotFound")
    desk.served.server.faults.set(GitFault("refuse-auth"))
    await _expect(desk.resolver, desk.served.remote("a"), "AuthFailed")
    desk.served.server.faults.set(GitFault("redirect", location="http://elsewhere.example"))
    await _expect(desk.resolver, desk.served.remote("a"), "HostBlocked")
    strict = GitService(git_settings(tmp_path, insecure_hosts=frozenset()), clock=SystemClock())
    blocked = Resolver(strict, tmp_path / "other", SystemClock())
    await _expect(blocked, desk.served.remote("a"), "HostBlocked")
    await _expect(blocked, Remote.parse("https://localhost:1/a"), "HostBlocked")


async def _expect(resolver: Resolver, remote: Remote, reason: str) -> None:
    with pytest.raises(Stalled) as caught:
        await resolver.resolve(remote, ANONYMOUS, "main", max_age_seconds=0)
    assert (caught.value.reason, caught.value.after) == (reason, 300.0)


async def test_a_certificate_nobody_knows(tmp_path: Path) -> None:
    """TLSFailed, and the password stays here."""
    pem = tmp_path / "tls.pem"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    with running_git_server(
        tmp_path / "srv", password=PASSWORD, certificate=pem, key=pem
    ) as served:
        remote = Remote.parse(served.server.url("a").replace("127.0.0.1", "localhost"))
        service = GitService(git_settings(tmp_path), clock=SystemClock())
        resolver = Resolver(service, tmp_path / "s", SystemClock())
        await _expect(resolver, remote, "TLSFailed")
        assert served.server.requests == []


async def test_repositories_with_long_ids(desk: Desk) -> None:
    """They are told apart and refused."""
    path = desk.served.server.create("long", object_format="sha256")
    commit_files(path, {"a": "1"})
    await _expect(desk.resolver, desk.served.remote("long"), "CommitUnreachable")


async def test_a_proof_has_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends more than the scratch may hold is stopped; nothing stays."""
    desk.scratch.mkdir()
    left = desk.scratch / "proof-left"
    left.mkdir()
    monkeypatch.setattr(proofs, "SCRATCH_BYTES", 1000)
    assert (await desk.refused(desk.first)).reason == "TooLarge"
    assert list(desk.scratch.iterdir()) == []


async def test_the_resolver_reports_only_causes(desk: Desk) -> None:
    """Git's own errors stay inside."""
    desk.served.server.faults.set(GitFault("error"))
    with pytest.raises(WindlassError) as caught:
        await desk.resolve("main")
    assert not isinstance(caught.value, GitError)
    assert isinstance(caught.value.__cause__, GitError)
