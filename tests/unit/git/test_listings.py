"""One question to a remote serves everybody who asks."""

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


class Asked:
    """Stands in for the remote; answers when let."""

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
async def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The remote of a test."""
    return Asked(monkeypatch)


@pytest.fixture
async def clock() -> ManualClock:
    """A clock that stands until moved."""
    return ManualClock()


@pytest.fixture
async def listings(clock: ManualClock, asked: Asked) -> RefListings:
    """Listings that ask the stand-in."""
    return RefListings(Git(), clock)


async def test_ten_askers_make_one_question(listings: RefListings, asked: Asked) -> None:
    """Same endpoint and credential at the same time: one ls-remote."""
    asked.gate.clear()
    askers = [
        asyncio.create_task(listings.get(REMOTE, Credentials("u", "p"), max_age_seconds=60))
        for _ in range(10)
    ]
    await asyncio.sleep(0)
    asked.gate.set()
    assert len({id(each) for each in await asyncio.gather(*askers)}) == 1
    assert asked.count == 1


async def test_age_endpoint_and_credential_decide(
    listings: RefListings, asked: Asked, clock: ManualClock
) -> None:
    """A young answer is enough; another credential or path never shares."""
    await listings.get(REMOTE, max_age_seconds=60)
    clock.seconds = 59
    await listings.get(Remote.parse("https://HOST:443/a/"), max_age_seconds=60)
    assert asked.count == 1
    clock.seconds = 60
    await listings.get(REMOTE, max_age_seconds=60)
    await listings.get(REMOTE, Credentials("u", "p"), max_age_seconds=60)
    await listings.get(Remote.parse("https://host/b"), max_age_seconds=60)
    assert asked.count == 4
    listings.forget(REMOTE)
    await listings.get(REMOTE, max_age_seconds=60)
    assert asked.count == 5


async def test_failures_are_told_and_not_kept(listings: RefListings, asked: Asked) -> None:
    """The next asker asks again."""
    asked.error = GitError("Unavailable", "no")
    with pytest.raises(GitError):
        await listings.get(REMOTE, max_age_seconds=60)
    asked.error = None
    assert (await listings.get(REMOTE, max_age_seconds=60)).default_branch == "main"


async def test_one_who_gives_up_takes_nothing_from_the_others(
    listings: RefListings, asked: Asked
) -> None:
    """Cancelling an asker leaves the question running."""
    asked.gate.clear()
    first, second = (
        asyncio.create_task(listings.get(REMOTE, max_age_seconds=60)) for _ in range(2)
    )
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    asked.gate.set()
    assert (await second).default_branch == "main"
    assert asked.count == 1


async def test_close_ends_running_questions(listings: RefListings, asked: Asked) -> None:
    """Nothing is left behind at the end of a process."""
    asked.gate.clear()
    asker = asyncio.create_task(listings.get(REMOTE, ANONYMOUS, max_age_seconds=1))
    await asyncio.sleep(0)
    await listings.close()
    with pytest.raises(asyncio.CancelledError):
        await asker


async def _several(
    count: int, listings: RefListings, **wants: object
) -> list[asyncio.Task[RefListing]]:
    """That many askers with patience, all of whom want an answer that is newer than now."""
    return [
        asyncio.create_task(
            listings.get(REMOTE, max_age_seconds=0, gather_seconds=0.2, **wants)  # type: ignore[arg-type]
        )
        for _ in range(count)
    ]


@pytest.mark.looptime
async def test_a_hundred_pokes_cost_one_question(listings: RefListings, asked: Asked) -> None:
    """They gather for 200 ms; those who come while it is asked share one more."""
    first = await _several(50, listings)
    await asyncio.sleep(0.1)
    first += await _several(50, listings)
    asked.gate.clear()
    await asyncio.sleep(0.11)
    assert asked.count == 1
    late = await _several(30, listings)
    await asyncio.sleep(1.0)
    late += await _several(30, listings)
    await asyncio.sleep(0)
    assert asked.count == 1
    asked.gate.set()
    await asyncio.gather(*first)
    answers = await asyncio.gather(*late)
    assert asked.count == 2
    assert {answer.refs["refs/heads/main"] for answer in answers} == {f"{2:040d}"}


@pytest.mark.looptime
async def test_the_impatient_do_not_wait_for_the_window(
    listings: RefListings, asked: Asked
) -> None:
    """An asker without patience closes the window for all."""
    (patient,) = await _several(1, listings)
    await asyncio.sleep(0.01)
    began = asyncio.get_running_loop().time()
    await listings.get(REMOTE, max_age_seconds=0)
    await patient
    assert asyncio.get_running_loop().time() == began
    assert asked.count == 1


@pytest.mark.looptime
async def test_a_young_answer_under_way_is_enough(
    listings: RefListings, asked: Asked, clock: ManualClock
) -> None:
    """Who would take an answer of that age waits for it instead of asking again."""
    asked.gate.clear()
    await _several(1, listings)
    await asyncio.sleep(0.3)
    clock.seconds = 5.0
    asker = asyncio.create_task(listings.get(REMOTE, max_age_seconds=60, gather_seconds=0.2))
    await asyncio.sleep(0)
    asked.gate.set()
    await asker
    assert asked.count == 1


async def test_what_others_want_is_asked_for_by_whoever_asks(
    asked: Asked, clock: ManualClock
) -> None:
    """Askers with different wants do not take turns; a name nobody expected costs a question."""
    expected = {"refs/heads/a", "refs/heads/b", "refs/tags/b"}
    listings = RefListings(Git(), clock)
    listings.expect("test", lambda _: expected)

    async def get(*names: str) -> None:
        await listings.get(REMOTE, max_age_seconds=60, wants=frozenset(names))

    for name in sorted(expected):
        await get(name)
    assert asked.wants == [expected]
    await get("refs/pull/7/head", "refs/heads/a")
    assert asked.wants[1:] == [{*expected, "refs/pull/7/head"}]
    await get(BRANCHES)
    assert asked.wants[2:] == [{BRANCHES, "refs/tags/b"}]
    await get("refs/heads/never-named")
    assert asked.count == 3


async def test_a_name_that_is_not_asked_for_joins_the_next_question(
    asked: Asked, clock: ManualClock
) -> None:
    """Those who come meanwhile share one follow-up with all of their names (GRF-3)."""
    listings = RefListings(Git(), clock)
    listings.expect("test", lambda _: ())
    asked.gate.clear()

    def asker(name: str) -> asyncio.Task[RefListing]:
        wants = frozenset({f"refs/heads/{name}"})
        return asyncio.create_task(listings.get(REMOTE, max_age_seconds=60, wants=wants))

    askers = [asker("a")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    askers += [asker(name) for name in "abca"]
    await asyncio.sleep(0)
    asked.gate.set()
    await asyncio.gather(*askers)
    assert asked.wants == [{"refs/heads/a"}, {"refs/heads/b", "refs/heads/c"}]


async def test_many_names_ask_for_all_branches_and_tags(asked: Asked, clock: ManualClock) -> None:
    """Then everybody is served by that answer, whatever the name."""
    names = frozenset(f"refs/{kind}/{n}" for kind in ("heads", "tags") for n in range(33))
    listings = RefListings(Git(), clock)
    listings.expect("test", lambda _: names)
    await listings.get(REMOTE, max_age_seconds=60, wants=frozenset({"refs/heads/1"}))
    await listings.get(REMOTE, max_age_seconds=60, wants=frozenset({"refs/tags/new"}))
    assert asked.wants == [{BRANCHES, TAGS}]


async def test_without_expectations_branches_are_listed(
    listings: RefListings, asked: Asked
) -> None:
    """Whoever names nothing gets all branches."""
    await listings.get(REMOTE, max_age_seconds=60, wants=frozenset({"refs/heads/x"}))
    await listings.get(REMOTE, max_age_seconds=60)
    assert asked.wants == [EVERY_BRANCH]


async def test_spellings_of_one_repository_share(listings: RefListings, asked: Asked) -> None:
    """Case of the host, default port, a slash at the end and `.git` make no difference."""
    spellings = (
        "https://host/a",
        "https://HOST:443/a.git",
        "https://host/a/",
        "https://host/a.git/",
    )
    for text in spellings:
        await listings.get(Remote.parse(text), max_age_seconds=60)
    assert asked.count == 1
    await listings.get(Remote.parse("ssh://git@host/a"), max_age_seconds=60)
    assert asked.count == 2


async def test_who_is_served_by_another_is_counted(clock: ManualClock, asked: Asked) -> None:
    """An answer that is kept, one under way and one that is gathered for count alike."""
    shared: list[int] = []
    listings = RefListings(Git(), clock)

    async def get() -> RefListing:
        return await listings.get(
            REMOTE, max_age_seconds=60, on_shared=lambda: shared.append(asked.count)
        )

    asked.gate.clear()
    askers = [asyncio.create_task(get()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(shared) == 2
    asked.gate.set()
    await asyncio.gather(*askers)
    await get()
    assert (asked.count, len(shared)) == (1, 3)
