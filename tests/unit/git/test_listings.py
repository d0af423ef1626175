"""One question to a remote serves everybody who asks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from windlass.git import listing
from windlass.git.child import Git
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError
from windlass.git.format.remote import Remote
from windlass.git.listing import Listing, Listings

REMOTE = Remote.parse("https://host/a")


class HandClock:
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
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: GitError | None = None
        monkeypatch.setattr(listing, "read", self.read)

    async def read(self, git: Git, remote: Remote, credentials: Credentials) -> Listing:
        self.count += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Listing({"refs/heads/main": f"{self.count:040d}"}, "main")


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The remote of a test."""
    return Asked(monkeypatch)


@pytest.fixture
async def clock() -> HandClock:
    """A clock that stands until moved."""
    return HandClock()


@pytest.fixture
async def listings(clock: HandClock, asked: Asked) -> Listings:
    """Listings that ask the stand-in."""
    return Listings(Git(), clock)


async def test_ten_askers_make_one_question(listings: Listings, asked: Asked) -> None:
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
    listings: Listings, asked: Asked, clock: HandClock
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


async def test_failures_are_told_and_not_kept(listings: Listings, asked: Asked) -> None:
    """The next asker asks again."""
    asked.error = GitError("Unavailable", "no")
    with pytest.raises(GitError):
        await listings.get(REMOTE, max_age_seconds=60)
    asked.error = None
    assert (await listings.get(REMOTE, max_age_seconds=60)).default_branch == "main"


async def test_one_who_gives_up_takes_nothing_from_the_others(
    listings: Listings, asked: Asked
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


async def test_close_ends_running_questions(listings: Listings, asked: Asked) -> None:
    """Nothing is left behind at the end of a process."""
    asked.gate.clear()
    asker = asyncio.create_task(listings.get(REMOTE, ANONYMOUS, max_age_seconds=1))
    await asyncio.sleep(0)
    await listings.close()
    with pytest.raises(asyncio.CancelledError):
        await asker
