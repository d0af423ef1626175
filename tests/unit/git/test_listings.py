"""One ls-remote serves every caller that waits for it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from windlass.git import ls_remote
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError
from windlass.git.format.refs import BRANCHES, EVERY_BRANCH, TAGS, RefListing
from windlass.git.format.remote import Remote
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git

REMOTE = Remote.parse("https://host/a")


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


class FakeRemote:
    """Stands in for the remote; responds while its gate is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.wants: list[frozenset[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: GitError | None = None
        monkeypatch.setattr(ls_remote, "list_refs", self.read)

    async def read(
        self,
        git: Git,
        remote: Remote,
        credentials: Credentials,
        wants: frozenset[str] = frozenset(),
    ) -> RefListing:
        self.count += 1
        self.wants.append(wants)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return RefListing({"refs/heads/main": f"{self.count:040d}"}, "main")


@pytest.fixture
async def fake_remote(monkeypatch: pytest.MonkeyPatch) -> FakeRemote:
    """The remote of a test."""
    return FakeRemote(monkeypatch)


@pytest.fixture
async def clock() -> ManualClock:
    """A clock that tests advance."""
    return ManualClock()


@pytest.fixture
async def listings(clock: ManualClock, fake_remote: FakeRemote) -> RefListings:
    """Listings that call the fake remote."""
    return RefListings(Git(), clock)


async def test_ten_callers_share_one_call(listings: RefListings, fake_remote: FakeRemote) -> None:
    """Same endpoint and credential at the same time: one ls-remote."""
    fake_remote.gate.clear()
    callers = [
        asyncio.create_task(listings.get(REMOTE, Credentials("u", "p"), max_age_seconds=60))
        for _ in range(10)
    ]
    await asyncio.sleep(0)
    fake_remote.gate.set()
    assert len({id(each) for each in await asyncio.gather(*callers)}) == 1
    assert fake_remote.count == 1


async def test_age_endpoint_and_credential_decide(
    listings: RefListings, fake_remote: FakeRemote, clock: ManualClock
) -> None:
    """A listing within its age is reused; another credential or path never shares."""
    await listings.get(REMOTE, max_age_seconds=60)
    clock.seconds = 59
    await listings.get(Remote.parse("https://HOST:443/a/"), max_age_seconds=60)
    assert fake_remote.count == 1
    clock.seconds = 60
    await listings.get(REMOTE, max_age_seconds=60)
    await listings.get(REMOTE, Credentials("u", "p"), max_age_seconds=60)
    await listings.get(Remote.parse("https://host/b"), max_age_seconds=60)
    assert fake_remote.count == 4
    listings.forget(REMOTE)
    await listings.get(REMOTE, max_age_seconds=60)
    assert fake_remote.count == 5


async def test_failures_are_raised_and_not_cached(
    listings: RefListings, fake_remote: FakeRemote
) -> None:
    """The next caller calls again."""
    fake_remote.error = GitError("Unavailable", "no")
    with pytest.raises(GitError):
        await listings.get(REMOTE, max_age_seconds=60)
    fake_remote.error = None
    assert (await listings.get(REMOTE, max_age_seconds=60)).default_branch == "main"


async def test_a_canceled_caller_does_not_affect_the_others(
    listings: RefListings, fake_remote: FakeRemote
) -> None:
    """The call keeps running."""
    fake_remote.gate.clear()
    first, second = (
        asyncio.create_task(listings.get(REMOTE, max_age_seconds=60)) for _ in range(2)
    )
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    fake_remote.gate.set()
    assert (await second).default_branch == "main"
    assert fake_remote.count == 1


async def test_close_ends_running_calls(listings: RefListings, fake_remote: FakeRemote) -> None:
    """No task is left at the end of a process."""
    fake_remote.gate.clear()
    caller = asyncio.create_task(listings.get(REMOTE, ANONYMOUS, max_age_seconds=1))
    await asyncio.sleep(0)
    await listings.close()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def _several(
    count: int, listings: RefListings, **wants: object
) -> list[asyncio.Task[RefListing]]:
    """That many callers that accept gathering and want a listing newer than now."""
    return [
        asyncio.create_task(
            listings.get(REMOTE, max_age_seconds=0, gather_seconds=0.2, **wants)  # type: ignore[arg-type]
        )
        for _ in range(count)
    ]


@pytest.mark.looptime
async def test_a_hundred_callers_cost_one_call(
    listings: RefListings, fake_remote: FakeRemote
) -> None:
    """They are gathered for 200 ms; those that come during the call share one more."""
    first = await _several(50, listings)
    await asyncio.sleep(0.1)
    first += await _several(50, listings)
    fake_remote.gate.clear()
    await asyncio.sleep(0.11)
    assert fake_remote.count == 1
    late = await _several(30, listings)
    await asyncio.sleep(1.0)
    late += await _several(30, listings)
    await asyncio.sleep(0)
    assert fake_remote.count == 1
    fake_remote.gate.set()
    await asyncio.gather(*first)
    answers = await asyncio.gather(*late)
    assert fake_remote.count == 2
    assert {answer.refs["refs/heads/main"] for answer in answers} == {f"{2:040d}"}


@pytest.mark.looptime
async def test_a_caller_without_gathering_closes_the_window(
    listings: RefListings, fake_remote: FakeRemote
) -> None:
    """For all callers that wait in it."""
    (patient,) = await _several(1, listings)
    await asyncio.sleep(0.01)
    began = asyncio.get_running_loop().time()
    await listings.get(REMOTE, max_age_seconds=0)
    await patient
    assert asyncio.get_running_loop().time() == began
    assert fake_remote.count == 1


@pytest.mark.looptime
async def test_a_running_call_is_shared(
    listings: RefListings, fake_remote: FakeRemote, clock: ManualClock
) -> None:
    """A caller that accepts its age waits for it instead of calling again."""
    fake_remote.gate.clear()
    await _several(1, listings)
    await asyncio.sleep(0.3)
    clock.seconds = 5.0
    caller = asyncio.create_task(listings.get(REMOTE, max_age_seconds=60, gather_seconds=0.2))
    await asyncio.sleep(0)
    fake_remote.gate.set()
    await caller
    assert fake_remote.count == 1


async def test_one_call_lists_the_refs_of_all_callers(
    fake_remote: FakeRemote, clock: ManualClock
) -> None:
    """Callers of different refs do not alternate; an unexpected name costs one call."""
    expected = {"refs/heads/a", "refs/heads/b", "refs/tags/b"}
    listings = RefListings(Git(), clock)
    listings.expect("test", lambda _: expected)

    async def get(*names: str) -> None:
        await listings.get(REMOTE, max_age_seconds=60, wants=frozenset(names))

    for name in sorted(expected):
        await get(name)
    assert fake_remote.wants == [expected]
    await get("refs/pull/7/head", "refs/heads/a")
    assert fake_remote.wants[1:] == [{*expected, "refs/pull/7/head"}]
    await get(BRANCHES)
    assert fake_remote.wants[2:] == [{BRANCHES, "refs/tags/b"}]
    await get("refs/heads/never-named")
    assert fake_remote.count == 3


async def test_a_name_that_is_not_listed_joins_the_next_call(
    fake_remote: FakeRemote, clock: ManualClock
) -> None:
    """Callers during a call share one follow-up with all of their names (GRF-3)."""
    listings = RefListings(Git(), clock)
    listings.expect("test", lambda _: ())
    fake_remote.gate.clear()

    def caller(name: str) -> asyncio.Task[RefListing]:
        wants = frozenset({f"refs/heads/{name}"})
        return asyncio.create_task(listings.get(REMOTE, max_age_seconds=60, wants=wants))

    callers = [caller("a")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    callers += [caller(name) for name in "abca"]
    await asyncio.sleep(0)
    fake_remote.gate.set()
    await asyncio.gather(*callers)
    assert fake_remote.wants == [{"refs/heads/a"}, {"refs/heads/b", "refs/heads/c"}]


async def test_many_names_list_all_branches_and_tags(
    fake_remote: FakeRemote, clock: ManualClock
) -> None:
    """That listing then serves every caller, whatever the name."""
    names = frozenset(f"refs/{kind}/{n}" for kind in ("heads", "tags") for n in range(33))
    listings = RefListings(Git(), clock)
    listings.expect("test", lambda _: names)
    await listings.get(REMOTE, max_age_seconds=60, wants=frozenset({"refs/heads/1"}))
    await listings.get(REMOTE, max_age_seconds=60, wants=frozenset({"refs/tags/new"}))
    assert fake_remote.wants == [{BRANCHES, TAGS}]


async def test_without_names_all_branches_are_listed(
    listings: RefListings, fake_remote: FakeRemote
) -> None:
    """A caller that names no ref gets all branches."""
    await listings.get(REMOTE, max_age_seconds=60, wants=frozenset({"refs/heads/x"}))
    await listings.get(REMOTE, max_age_seconds=60)
    assert fake_remote.wants == [EVERY_BRANCH]


async def test_spellings_of_one_repository_share(
    listings: RefListings, fake_remote: FakeRemote
) -> None:
    """Case of the host, default port, trailing slash and `.git` make no difference."""
    spellings = (
        "https://host/a",
        "https://HOST:443/a.git",
        "https://host/a/",
        "https://host/a.git/",
    )
    for text in spellings:
        await listings.get(Remote.parse(text), max_age_seconds=60)
    assert fake_remote.count == 1
    await listings.get(Remote.parse("ssh://git@host/a"), max_age_seconds=60)
    assert fake_remote.count == 2


async def test_callers_served_by_another_call_are_counted(
    clock: ManualClock, fake_remote: FakeRemote
) -> None:
    """Cached, running and gathered calls count alike."""
    shared: list[int] = []
    listings = RefListings(Git(), clock)

    async def get() -> RefListing:
        return await listings.get(
            REMOTE, max_age_seconds=60, on_shared=lambda: shared.append(fake_remote.count)
        )

    fake_remote.gate.clear()
    callers = [asyncio.create_task(get()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(shared) == 2
    fake_remote.gate.set()
    await asyncio.gather(*callers)
    await get()
    assert (fake_remote.count, len(shared)) == (1, 3)
