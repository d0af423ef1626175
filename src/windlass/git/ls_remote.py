"""Lists the refs of remotes by `git ls-remote`; one request is shared by all callers.

Callers that need the same repository with the same credentials share one `ls-remote`: a listing
younger than `max_age_seconds` is enough, also one that is under way. A caller that comes too late
for that waits for the next query, which waits `gather_seconds` for more callers. With
`gather_seconds` 0 a caller takes the query under way, however old, if it covers its refs.

Refs are named to git, so that it prints no others (GRF-2). A query covers the names of all waiting
callers and the `expected` ones, so that callers with different refs do not alternate. A name that
it does not cover goes into the next one. Too many names become all branches and all tags. A
failure goes to the waiting callers and is not cached. A caller that is cancelled does not cancel
the query for the others.

The states of a `RefQuery`:

    gathering ──(the window closes, the query before is done)──▶ asked ──▶ answered

While it gathers, callers add the refs they need; once asked it changes no more. The window is as
short as the least patient caller demands.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from windlass.base.clock import Clock, SystemClock
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.errors import GitError
from windlass.git.format import refs
from windlass.git.format.refs import BRANCH_PREFIX, EVERY_BRANCH, PEELED, RefListing
from windlass.git.format.remote import Remote
from windlass.git.runner import Git


class RefQuery:
    """One query of a remote with one credential; `task` returns the listing."""

    task: asyncio.Task[RefListing]

    def __init__(self) -> None:
        # Refs that callers need, collected while gathering.
        self.wants: set[str] = set()
        # Refs and patterns that were passed to git; empty while gathering.
        self.asked: frozenset[str] = frozenset()
        # When git was started, monotonic; None while gathering.
        self.asked_at: float | None = None
        # Set when the window for more callers closes.
        self._closed = asyncio.Event()
        # When the window closes, on the clock of the loop.
        self._due = float("inf")

    def join(self, wants: Iterable[str], gather_seconds: float) -> None:
        """Add refs to the query, and close its window in `gather_seconds` at the latest."""
        self.wants.update(wants)
        loop = asyncio.get_running_loop()
        due = loop.time() + gather_seconds
        if due >= self._due:
            return
        self._due = due
        if gather_seconds > 0:
            loop.call_at(due, self._closed.set)
        else:
            self._closed.set()

    async def wait_gathered(self, before: RefQuery | None) -> None:
        """Wait until the window is closed and the query before this one is done."""
        await self._closed.wait()
        if before is not None and not before.task.done():
            await asyncio.wait([before.task])

    def ask(self, expected: Iterable[str], most: int, now: float) -> frozenset[str]:
        """Close the query for changes; returns the refs of its callers and the `expected` ones."""
        self.asked = refs.fold_patterns(frozenset(self.wants).union(expected), most)
        self.asked_at = now
        return self.asked

    def serves(self, wants: frozenset[str], after: float) -> bool:
        """Whether the query under way covers `wants` and was started after `after`."""
        is_young = self.asked_at is not None and self.asked_at > after
        return is_young and refs.covers_patterns(self.asked, wants)


ADVERTISEMENT_BYTES = 16 * 1024 * 1024
MOST_NAMES = 64
"""A short name counts twice: as a branch and as a tag."""

# A listing is small: a server that sends it more slowly than this is ended early.
_LOW_SPEED_BYTES = 1024
_LOW_SPEED_SECONDS = 10
_LISTING_MEMORY_BYTES = 1024 * 1024 * 1024
_MAX_CACHED = 1024

_Key = tuple[str, str, str]
Expected = Callable[[Remote], Iterable[str]]


@dataclass(frozen=True, slots=True)
class _CachedListing:
    """A listing, the refs it covers, and when it was asked for (monotonic)."""

    listing: RefListing
    asked: frozenset[str]
    at: float


class RefListings:
    """Listings by repository and credential."""

    def __init__(self, git: Git, clock: Clock | None = None) -> None:
        self._git = git
        # By user of the listings: the refs that it expects every query of a remote to cover.
        self._expected: dict[str, Expected] = {}
        self._clock = clock if clock is not None else SystemClock()
        # The newest listing of each key, least recently renewed first; bounded.
        self._cached: OrderedDict[_Key, _CachedListing] = OrderedDict()
        # Queries that callers may still join; at most one per key.
        self._gathering: dict[_Key, RefQuery] = {}
        # Queries that git works on; at most one per key.
        self._under_way: dict[_Key, RefQuery] = {}

    def expect(self, user: str, expected: Expected) -> None:
        """Have every query cover the refs that `expected` returns for its remote.

        They are full names and patterns; a `user` that calls again replaces its function.
        """
        self._expected[user] = expected

    async def get(
        self,
        remote: Remote,
        credentials: Credentials = ANONYMOUS,
        *,
        max_age_seconds: float,
        wants: frozenset[str] = EVERY_BRANCH,
        gather_seconds: float = 0.0,
        on_shared: Callable[[], object] = lambda: None,
    ) -> RefListing:
        """A listing not older than `max_age_seconds`, counted from when it was asked for.

        `wants` are full names of refs, or the patterns for all branches and all tags. `on_shared`
        is called where the query of another caller serves this one.
        """
        key = (remote.fetch_key, remote.user, credentials.fingerprint)
        now = self._clock.monotonic()
        cached = self._cached.get(key)
        is_young = cached is not None and now - cached.at < max_age_seconds
        if cached is not None and is_young and refs.covers_patterns(cached.asked, wants):
            on_shared()
            return cached.listing
        after = now - max_age_seconds if gather_seconds > 0 else float("-inf")
        query, is_shared = self._under_way.get(key), True
        if query is None or not query.serves(wants, after):
            is_shared = key in self._gathering
            query = self._gathering.get(key) or self._open(key, remote, credentials)
            query.join(wants, gather_seconds)
        if is_shared:
            on_shared()
        return await asyncio.shield(query.task)

    def forget(self, remote: Remote) -> None:
        """Drop the cached listings of a repository, after a push or a reconcile request."""
        for key in [key for key in self._cached if key[0] == remote.fetch_key]:
            del self._cached[key]

    async def close(self) -> None:
        """Cancel all queries."""
        queries = [*self._gathering.values(), *self._under_way.values()]
        for query in queries:
            query.task.cancel()
        await asyncio.gather(*(query.task for query in queries), return_exceptions=True)

    def _open(self, key: _Key, remote: Remote, credentials: Credentials) -> RefQuery:
        query = RefQuery()
        query.task = asyncio.create_task(self._answer(key, query, remote, credentials))
        self._gathering[key] = query
        query.task.add_done_callback(lambda _: self._finished(key, query))
        return query

    async def _answer(
        self, key: _Key, query: RefQuery, remote: Remote, credentials: Credentials
    ) -> RefListing:
        await query.wait_gathered(self._under_way.get(key))
        del self._gathering[key]
        self._under_way[key] = query
        now = self._clock.monotonic()
        asked = query.ask(self._expected_refs(remote), MOST_NAMES, now)
        answer = await list_refs(self._git, remote, credentials, asked)
        self._keep(key, _CachedListing(answer, asked, now))
        return answer

    def _expected_refs(self, remote: Remote) -> frozenset[str]:
        """What every query covers; all branches where no user of the listings says otherwise."""
        if not self._expected:
            return EVERY_BRANCH
        return frozenset(name for refs_of in self._expected.values() for name in refs_of(remote))

    def _keep(self, key: _Key, newest: _CachedListing) -> None:
        """Cache the newest listing; the one not renewed for the longest time is evicted first."""
        self._cached[key] = newest
        self._cached.move_to_end(key)
        while len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)

    def _finished(self, key: _Key, query: RefQuery) -> None:
        for queries in (self._gathering, self._under_way):
            if queries.get(key) is query:
                del queries[key]
        if not query.task.cancelled():
            # Retrieved here, so that asyncio does not warn of a failure without a waiting caller.
            query.task.exception()


async def list_refs(
    git: Git,
    remote: Remote,
    credentials: Credentials = ANONYMOUS,
    wants: frozenset[str] = EVERY_BRANCH,
) -> RefListing:
    """List the refs of a remote now, without sharing."""
    limits = replace(
        git.settings,
        stdout_limit_bytes=min(ADVERTISEMENT_BYTES, git.settings.stdout_limit_bytes),
        memory_limit_bytes=min(_LISTING_MEMORY_BYTES, git.settings.memory_limit_bytes),
        low_speed_bytes=max(_LOW_SPEED_BYTES, git.settings.low_speed_bytes),
        low_speed_seconds=min(_LOW_SPEED_SECONDS, git.settings.low_speed_seconds),
    )
    completed = await git.under(limits).run(
        ["ls-remote", "--symref", "--", remote.url, *_patterns(wants)],
        credentials=credentials,
        remote=remote,
        deadline_seconds=git.settings.list_timeout_seconds,
        before_repeat=lambda: None,
    )
    try:
        return refs.parse_listing(completed.stdout, wants)
    except ValueError as error:
        raise GitError("Unavailable", str(error)) from error


def _patterns(wants: frozenset[str]) -> Iterator[str]:
    """The arguments that limit what git prints; none where there are too many: every ref.

    Except for our own two patterns these are full names: none is an option or holds a wildcard.
    """
    if len(wants) > MOST_NAMES:
        return
    yield "HEAD"
    for name in sorted(wants):
        yield name
        if not name.startswith(BRANCH_PREFIX) and not name.endswith("*"):
            yield name + PEELED
