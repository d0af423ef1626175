"""Resolving refs of real servers to commits, with as few calls as possible."""

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


class ResolverHarness:
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
async def harness(tmp_path: Path, served: RunningGitServer) -> AsyncIterator[ResolverHarness]:
    """A resolver on that server."""
    created = ResolverHarness(tmp_path, served)
    yield created
    await created.resolver.close()
    await created.listings.close()


@pytest.mark.scenario("G4")
async def test_every_kind_of_ref(harness: ResolverHarness) -> None:
    """Branch, three kinds of tag, other refs by their full name."""
    wanted = ("main", "refs/heads/main", "light", "heavy", "nested", "refs/tags/nested")
    harness.expected.update(wanted)
    for each in wanted:
        assert (await harness.resolve(each)).commit == harness.tip
    resolved = await harness.resolve("refs/pull/7/head")
    assert resolved == Resolved(harness.first, "refs/pull/7/head", "ref")
    assert harness.exchanges == 2


@pytest.mark.scenario("G5")
async def test_a_tag_wins_over_a_branch(harness: ResolverHarness) -> None:
    """The full name selects the branch."""
    git(harness.repository, "update-ref", "refs/heads/light", harness.first)
    resolved = await harness.resolve("light")
    assert (resolved.commit, resolved.kind) == (harness.tip, "tag")
    assert resolved.ambiguous is not None
    assert (await harness.resolve("refs/heads/light")).commit == harness.first


@pytest.mark.scenario("G6")
async def test_ids_are_proven_once(harness: ResolverHarness) -> None:
    """A commit that is not a tip is verified by one fetch, for all callers, and cached."""
    resolved = await asyncio.gather(*(harness.resolve(harness.first.upper()) for _ in range(5)))
    assert set(resolved) == {Resolved(harness.first, harness.first, "sha")}
    assert harness.exchanges == 1
    await harness.resolve(harness.first, max_age=0)
    assert harness.exchanges == 1
    harness.resolver.forget(harness.served.remote("a"), harness.first)
    await harness.resolve(harness.first)
    assert harness.exchanges == 2
    assert list(harness.scratch.iterdir()) == []


@pytest.mark.scenario("G6")
async def test_ids_that_are_not_commits_of_the_remote(harness: ResolverHarness) -> None:
    """A random id is unreachable, a short one gets a hint, a tag's id is its commit."""
    error = await harness.refused("1" * 40)
    assert isinstance(error, Stalled)
    assert (error.reason, error.after) == ("CommitUnreachable", 300.0)
    short = await harness.refused(harness.first[:7])
    assert short.reason == "RefNotFound"
    assert "full SHA" in short.message
    tag = git(harness.repository, "rev-parse", "nested").strip()
    assert (await harness.resolve(tag)).commit == harness.tip
    tree = git(harness.repository, "rev-parse", "main^{tree}").strip()
    assert (await harness.refused(tree)).reason == "CommitUnreachable"
    assert (await harness.refused("1" * 64)).reason == "CommitUnreachable"
    assert (await harness.refused("a..b")).reason == "RefNotFound"


@pytest.mark.parametrize("filters", [True, False])
async def test_ids_of_an_old_server(
    harness: ResolverHarness, monkeypatch: pytest.MonkeyPatch, filters: bool
) -> None:
    """Where ids are refused, branches and tags are searched."""
    original = GitServer._variables
    monkeypatch.setattr(
        GitServer, "_variables", lambda self, *args: original(self, *args) | {"GIT_PROTOCOL": ""}
    )
    git(harness.repository, "config", "uploadpack.allowAnySHA1InWant", "false")
    git(harness.repository, "config", "uploadpack.allowFilter", str(filters).lower())
    assert (await harness.resolve(harness.first)).commit == harness.first
    assert (await harness.refused("1" * 40)).reason == "CommitUnreachable"


@pytest.mark.scenario("G9")
async def test_twenty_callers_three_spellings_one_call(harness: ResolverHarness) -> None:
    """One call per interval and credential, however the repository is spelled."""
    url = harness.served.server.url("a")
    spellings = [url, url.removesuffix(".git"), url + "/"]
    wanted = ["main", "light", "heavy", "refs/heads/main"]
    credentials = [ANONYMOUS, Credentials("someone", "else")]

    async def one(number: int, who: Credentials) -> None:
        remote = Remote.parse(spellings[number % 3])
        resolved = await harness.resolver.resolve(
            remote, who, wanted[number % 4], max_age_seconds=60
        )
        assert resolved.commit == harness.tip

    for count, who in enumerate(credentials, start=1):
        await asyncio.gather(*(one(number, who) for number in range(20)))
        for number in range(20):
            await one(number, who)
        assert harness.exchanges == count


async def test_only_the_named_refs_are_printed(harness: ResolverHarness) -> None:
    """Names that end alike are not confused, and unusual ones are not wildcards."""
    git(harness.repository, "update-ref", "refs/heads/x/refs/heads/main", harness.first)
    git(harness.repository, "update-ref", "refs/heads/deep/main", harness.first)
    git(harness.repository, "update-ref", "refs/heads/-dash", harness.first)
    resolved = await ls_remote.list_refs(
        harness.git, harness.served.remote("a"), wants=refs.ref_patterns("main")
    )
    assert (dict(resolved.refs), resolved.default_branch) == (
        {"refs/heads/main": harness.tip},
        "main",
    )
    assert (await harness.resolve("refs/heads/-dash")).commit == harness.first
    for wanted in ("-dash", "ma*", "mai?", "[m]ain"):
        assert (await harness.refused(wanted)).reason == "RefNotFound"


async def test_requested_checks_see_earlier_pushes(harness: ResolverHarness) -> None:
    """A hundred at once cost one call or two, and none gets an old listing."""
    await harness.resolve("main")
    newest = commit_files(harness.repository, {"x": "3"})
    assert (await harness.resolve("main")).commit == harness.tip
    before = harness.exchanges
    resolved = await asyncio.gather(*(harness.resolve("main", max_age=0) for _ in range(100)))
    assert {each.commit for each in resolved} == {newest}
    assert harness.exchanges - before <= 2


async def test_more_names_than_one_call_can_list(
    harness: ResolverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is listed then, and matched by full names all the same."""
    monkeypatch.setattr(ls_remote, "MOST_NAMES", 3)
    harness.expected.update(f"refs/pull/{number}/head" for number in range(1, 6))
    for number in range(1, 6):
        git(harness.repository, "update-ref", f"refs/pull/{number}/head", harness.first)
    for number in range(1, 6):
        assert (await harness.resolve(f"refs/pull/{number}/head")).commit == harness.first
    assert (await harness.resolve("nested")).commit == harness.tip
    assert (await harness.refused("refs/pull/9/head")).reason == "RefNotFound"


async def test_too_many_refs(harness: ResolverHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing beyond the cap is refused, not held in memory."""
    monkeypatch.setattr(ls_remote, "ADVERTISEMENT_BYTES", 200)
    assert (await harness.resolve("main")).commit == harness.tip
    harness.expected.update(f"v{number}" for number in range(40))
    for number in range(9):
        git(harness.repository, "tag", f"unasked-{number}", "main")
    error = await harness.refused("main", max_age=0)
    assert isinstance(error, Retryable)
    assert error.reason == "TooLarge"


class StoppedClock(SystemClock):
    """Stands still: however slow the machine, a failure stays recent."""

    def monotonic(self) -> float:
        return 1000.0


async def test_a_failure_is_cached_briefly(harness: ResolverHarness) -> None:
    """Reconciles for other events do not call the remote; a request for a new listing does."""
    harness.resolver = Resolver(harness.service, harness.scratch, StoppedClock())
    harness.served.server.faults.set(GitFault("error"))
    assert (await harness.refused("main")).reason == "Unavailable"
    before = harness.exchanges
    assert (await harness.refused("main")).reason == "Unavailable"
    assert harness.exchanges == before
    harness.served.server.faults.clear()
    assert (await harness.resolve("main", max_age=0)).commit == harness.tip
    assert (await harness.resolve("main")).commit == harness.tip


async def test_causes_of_a_remote(harness: ResolverHarness, tmp_path: Path) -> None:
    """Missing repository, wrong password, redirect, transport that is not allowed."""
    await _expect(harness.resolver, harness.served.remote("ghost"), "RepoNotFound")
    harness.served.server.faults.set(GitFault("refuse-auth"))
    await _expect(harness.resolver, harness.served.remote("a"), "AuthFailed")
    harness.served.server.faults.set(GitFault("redirect", location="http://elsewhere.example"))
    await _expect(harness.resolver, harness.served.remote("a"), "HostBlocked")
    strict = GitService(git_settings(tmp_path, insecure_hosts=frozenset()), clock=SystemClock())
    blocked = Resolver(strict, tmp_path / "other", SystemClock())
    await _expect(blocked, harness.served.remote("a"), "HostBlocked")


async def test_a_refused_address_reads_like_one_without_a_server(
    harness: ResolverHarness, tmp_path: Path
) -> None:
    """Reason, message and retry are those of a server that does not answer."""
    strict = GitService(git_settings(tmp_path, insecure_hosts=frozenset()), clock=SystemClock())
    refusing = Resolver(strict, tmp_path / "other", SystemClock())
    remote = Remote.parse("https://127.0.0.1:1/a")
    errors = []
    for resolver in (harness.resolver, refusing):
        with pytest.raises(Retryable) as caught:
            await resolver.resolve(remote, ANONYMOUS, "main", max_age_seconds=0)
        errors.append((caught.value.reason, caught.value.message, caught.value.after))
    assert errors[0] == errors[1]
    assert errors[0][0] == "Unavailable"


async def _expect(resolver: Resolver, remote: Remote, reason: str) -> None:
    with pytest.raises(Stalled) as caught:
        await resolver.resolve(remote, ANONYMOUS, "main", max_age_seconds=0)
    assert (caught.value.reason, caught.value.after) == (reason, 300.0)


async def test_an_untrusted_certificate(tmp_path: Path) -> None:
    """TLSFailed, and the password is not sent."""
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


async def test_repositories_with_long_ids(harness: ResolverHarness) -> None:
    """They are recognized and refused."""
    path = harness.served.server.create("long", object_format="sha256")
    commit_files(path, {"a": "1"})
    await _expect(harness.resolver, harness.served.remote("long"), "CommitUnreachable")


async def test_a_proof_is_bounded(
    harness: ResolverHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends more than the scratch store may hold is stopped; nothing stays."""
    harness.scratch.mkdir()
    left = harness.scratch / "proof-left"
    left.mkdir()
    monkeypatch.setattr(proofs, "SCRATCH_BYTES", 1000)
    assert (await harness.refused(harness.first)).reason == "TooLarge"
    assert list(harness.scratch.iterdir()) == []


async def test_the_resolver_reports_only_causes(harness: ResolverHarness) -> None:
    """Git's own errors are not raised."""
    harness.served.server.faults.set(GitFault("error"))
    with pytest.raises(WindlassError) as caught:
        await harness.resolve("main")
    assert not isinstance(caught.value, GitError)
    assert isinstance(caught.value.__cause__, GitError)
