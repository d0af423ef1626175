"""The refs of remotes, asked for once and shared.

All who ask for the same repository with the same credential share one `ls-remote`: an
answer younger than they demand is enough, also one that is still under way. Who comes
too late for that waits for the next question, one for all; it waits `gather_seconds` for
more to come. Without that patience an asker takes the answer that is under way, however
old, as long as it holds what is wanted.

Refs are named to git, so that it prints no others (GRF-2). A question holds the names of all
who wait for it, and those that are expected of others, so that askers with different wants
do not take turns. A name that it does not hold goes into the next one. Too many names become
all branches and all tags. A failure is told to those who waited and is not kept. One asker
who gives up does not take the answer from the others.

One question about a remote's refs, from the first who wants it to the answer.

    gathering ──(the window closes, the question before is over)──▶ asked ──▶ answered

While it gathers, everybody adds what they want to know; once asked it changes no more.
The window is as short as the least patient asker demands.
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
    """What is to be asked of one remote with one credential; `task` brings the answer."""

    task: asyncio.Task[RefListing]

    def __init__(self) -> None:
        self.wants: set[str] = set()
        self.asked: frozenset[str] = frozenset()
        self.asked_at: float | None = None
        self._closed = asyncio.Event()
        self._due = float("inf")

    def join(self, wants: Iterable[str], gather_seconds: float) -> None:
        """Want something of it, and close its window in `gather_seconds` at the latest."""
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
        """Until the window is closed and the question before this one is answered."""
        await self._closed.wait()
        if before is not None and not before.task.done():
            await asyncio.wait([before.task])

    def ask(self, expected: Iterable[str], most: int, now: float) -> frozenset[str]:
        """What is asked for now: what was wanted, and what others are going to want."""
        self.asked = refs.fold_patterns(frozenset(self.wants).union(expected), most)
        self.asked_at = now
        return self.asked

    def serves(self, wants: frozenset[str], after: float) -> bool:
        """Whether the answer under way holds what is wanted and was asked for after a moment."""
        is_young = self.asked_at is not None and self.asked_at > after
        return is_young and refs.covers_patterns(self.asked, wants)


ADVERTISEMENT_BYTES = 16 * 1024 * 1024
MOST_NAMES = 64
"""A short name is two of them: the branch and the tag."""

_LISTING_MEMORY_BYTES = 1024 * 1024 * 1024
_MOST_KEPT = 1024

_Key = tuple[str, str, str]
Expected = Callable[[Remote], Iterable[str]]


@dataclass(frozen=True, slots=True)
class _Kept:
    listing: RefListing
    asked: frozenset[str]
    at: float


class RefListings:
    """One listing per repository and credential.

    `on_shared` is called for each asker that is served by somebody else's question.
    `expected` says what is asked for whoever asks: patterns and full names.
    """

    def __init__(
        self,
        git: Git,
        clock: Clock | None = None,
        *,
        on_shared: Callable[[], object] = lambda: None,
        expected: Expected = lambda _: EVERY_BRANCH,
    ) -> None:
        self._git = git
        self._on_shared = on_shared
        self._expected = expected
        self._clock = clock if clock is not None else SystemClock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._gathering: dict[_Key, RefQuery] = {}
        self._under_way: dict[_Key, RefQuery] = {}

    async def get(
        self,
        remote: Remote,
        credentials: Credentials = ANONYMOUS,
        *,
        max_age_seconds: float,
        wants: frozenset[str] = EVERY_BRANCH,
        gather_seconds: float = 0.0,
    ) -> RefListing:
        """A listing not older than `max_age_seconds`, counted from when it was asked for.

        `wants` are full names of refs, or the patterns for all branches and all tags.
        """
        key = (remote.fetch_key, remote.user, credentials.fingerprint)
        now = self._clock.monotonic()
        kept = self._kept.get(key)
        is_young = kept is not None and now - kept.at < max_age_seconds
        if kept is not None and is_young and refs.covers_patterns(kept.asked, wants):
            self._on_shared()
            return kept.listing
        after = now - max_age_seconds if gather_seconds > 0 else float("-inf")
        question, is_shared = self._under_way.get(key), True
        if question is None or not question.serves(wants, after):
            is_shared = key in self._gathering
            question = self._gathering.get(key) or self._open(key, remote, credentials)
            question.join(wants, gather_seconds)
        if is_shared:
            self._on_shared()
        return await asyncio.shield(question.task)

    def forget(self, remote: Remote) -> None:
        """Drop what is kept of a repository, after a push or a poke."""
        for key in [key for key in self._kept if key[0] == remote.fetch_key]:
            del self._kept[key]

    async def close(self) -> None:
        questions = [*self._gathering.values(), *self._under_way.values()]
        for question in questions:
            question.task.cancel()
        await asyncio.gather(*(each.task for each in questions), return_exceptions=True)

    def _open(self, key: _Key, remote: Remote, credentials: Credentials) -> RefQuery:
        question = RefQuery()
        question.task = asyncio.create_task(self._answer(key, question, remote, credentials))
        self._gathering[key] = question
        question.task.add_done_callback(lambda _: self._finished(key, question))
        return question

    async def _answer(
        self, key: _Key, question: RefQuery, remote: Remote, credentials: Credentials
    ) -> RefListing:
        await question.wait_gathered(self._under_way.get(key))
        del self._gathering[key]
        self._under_way[key] = question
        now = self._clock.monotonic()
        asked = question.ask(self._expected(remote), MOST_NAMES, now)
        answer = await list_refs(self._git, remote, credentials, asked)
        self._keep(key, _Kept(answer, asked, now))
        return answer

    def _keep(self, key: _Key, newest: _Kept) -> None:
        """Note the newest; what was not renewed for the longest time goes first."""
        self._kept[key] = newest
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _finished(self, key: _Key, question: RefQuery) -> None:
        for questions in (self._gathering, self._under_way):
            if questions.get(key) is question:
                del questions[key]
        if not question.task.cancelled():
            # Seen here, so that a failure nobody waits for any more is no warning.
            question.task.exception()


async def list_refs(
    git: Git,
    remote: Remote,
    credentials: Credentials = ANONYMOUS,
    wants: frozenset[str] = EVERY_BRANCH,
) -> RefListing:
    """Ask the remote now, not sharing with anybody."""
    limits = replace(
        git.settings,
        stdout_limit_bytes=min(ADVERTISEMENT_BYTES, git.settings.stdout_limit_bytes),
        memory_limit_bytes=min(_LISTING_MEMORY_BYTES, git.settings.memory_limit_bytes),
    )
    done = await git.under(limits).run(
        ["ls-remote", "--symref", "--", remote.url, *_patterns(wants)],
        credentials=credentials,
        remote=remote,
        deadline_seconds=git.settings.list_timeout_seconds,
    )
    try:
        return refs.parse_listing(done.stdout, wants)
    except ValueError as error:
        raise GitError("Unavailable", str(error)) from error


def _patterns(wants: frozenset[str]) -> Iterator[str]:
    """What git shall print; nothing = every ref, where naming them would take too long.

    Beside our own two patterns only full names: none is an option or holds a wildcard.
    """
    if len(wants) > MOST_NAMES:
        return
    yield "HEAD"
    for name in sorted(wants):
        yield name
        if not name.startswith(BRANCH_PREFIX) and not name.endswith("*"):
            yield name + PEELED
