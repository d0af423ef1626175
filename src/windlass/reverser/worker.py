"""The single writer of one branch of one remote.

Rules:
1. Only this task touches the store and pushes; intake only adds to open windows.
2. A window closes by its cadence, at its ceilings, on request, or when we shut down.
3. Before a push the lease must be held; a process that was paused writes nothing.
4. After any failure the windows go back, in order; the remote's ref decides what is
   planned next. There is no force, no merge and no cursor.

| Push ended in | Then |
|---|---|
| pushed, or already there | acknowledge: index and tip move |
| raced, rewound | fetch the new tip, load the folders again, plan again |
| absent | the branch is looked up again: created where allowed, else BranchNotFound |
| rejected | PushRejected: slow retry, or when something changes |
| transient | GitUnavailable: backoff |
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import structlog

from windlass.base import failpoint, memory
from windlass.base.clock import Clock
from windlass.base.errors import Retryable, Stalled, Waiting, WindlassError
from windlass.git import push as pushing
from windlass.git.child import Git
from windlass.git.errors import StoreCorrupt
from windlass.objects.key import Key
from windlass.reverser import authorship, batching, opening, telling
from windlass.reverser.arrival import Arrival, Sweep
from windlass.reverser.branch import Branch
from windlass.reverser.decide import cadence
from windlass.reverser.folder import Folder, Gathered, LastPush
from windlass.reverser.party import Party
from windlass.reverser.publisher import Batch, Built, Delivery, Publisher, lag_seconds, stored
from windlass.reverser.surroundings import Surroundings
from windlass.reverser.target import Target

_log = structlog.get_logger(__name__)

_SEEDING_SECONDS = 2.0
"""How long first snapshots of several types are gathered into one commit."""

_MANY_FILES = 1000
"""A push of this size leaves memory behind that is worth giving back."""

_CLAIMED_SECONDS = 300.0
"""How long a folder that somebody else claims is left alone."""


class BranchWorker:
    """One branch, its folders, and the loop that writes them."""

    def __init__(
        self,
        branch: Branch,
        publisher: Publisher,
        git: Git,
        limits: cadence.Limits,
        around: Surroundings,
        clock: Clock,
        gates: tuple[asyncio.Semaphore, asyncio.Semaphore],
        pending_max_bytes: int,
    ) -> None:
        self.parties: dict[Key, Party] = {}
        self._branch = branch
        self._publisher = publisher
        self._git = git
        self._limits = limits
        self._around = around
        self._clock = clock
        self._repository_gate, self._gate = gates
        self._pending_max_bytes = pending_max_bytes
        self._rng = random.Random()
        self._last_push_end: float | None = None
        self._push_average: float | None = None
        self._wake = asyncio.Event()
        self._doubtful = False
        self._closing = False
        self.is_active = False

    # ---- what intake and the controllers call

    def attach(self, target: Target) -> Folder:
        """Take a destination in, or take over its changed target; the folder opens by itself."""
        self.detach(target.key)
        party = self.parties.setdefault(target.repository, Party(target.repository))
        folder = party.folders[target.key] = Folder(target)
        party.urge()
        return folder

    def detach(self, key: Key) -> None:
        """Stop writing for a destination; its files stay, what waited is dropped."""
        for party in list(self.parties.values()):
            party.folders.pop(key, None)
            party.reconsider()
            if not party.folders:
                del self.parties[party.repository]
        self._wake.set()

    def folders(self) -> Iterator[tuple[Party, Folder]]:
        for party in self.parties.values():
            for folder in party.folders.values():
                yield party, folder

    def find(self, key: Key) -> tuple[Party, Folder] | None:
        return next((pair for pair in self.folders() if pair[1].target.key == key), None)

    def offer(self, folder: Folder, arrival: Arrival) -> None:
        if folder.offer(arrival, self._clock.monotonic()):
            self._wake.set()
            if sum(each.waiting.size for _, each in self.folders()) > self._pending_max_bytes:
                batching.shed(self.folders())

    def sweep(self, folder: Folder, sweep: Sweep) -> None:
        folder.sweep(sweep, self._clock.monotonic())
        self._wake.set()

    def heard(self, key: Key, tip: str | None, *, asked: bool) -> None:
        """The branch was seen at `tip`, which may not be our doing.

        `asked` says that somebody wants what waits to be written now.
        """
        self._doubtful |= self._branch.known and tip != self._branch.expected
        if found := self.find(key):
            party, folder = found
            folder.waiting.asked = folder.waiting.asked or (asked and bool(folder.waiting))
            party.urge()
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    # ---- the loop

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._until_due()
            for _, folder in self.folders():
                authorship.settle(folder.waiting, self._publisher.judge, self._clock.monotonic())
            for party in list(self.parties.values()):
                if self._is_due(party):
                    await self._serve(party)

    async def drain(self) -> None:
        """Close every window now; return when all is written or in trouble."""
        self._closing = True
        for party in list(self.parties.values()):
            if any(folder.waiting for folder in party.folders.values()):
                await self._serve(party)

    async def _until_due(self) -> None:
        self._wake.clear()
        times = [self._due_at(party) for party in self.parties.values()]
        times += [authorship.settles_at(folder.waiting) for _, folder in self.folders()]
        due = min(times, default=float("inf"))
        if due == float("inf"):
            await self._wake.wait()
            return
        delay = due - self._clock.monotonic()
        if delay > 0:
            try:
                async with asyncio.timeout(delay):
                    await self._wake.wait()
            except TimeoutError:
                return

    def _is_due(self, party: Party) -> bool:
        return self._due_at(party) <= self._clock.monotonic()

    def _due_at(self, party: Party) -> float:
        times = [self._folder_due_at(folder) for folder in party.folders.values()]
        return max(0.0 if self._doubtful else min(times, default=float("inf")), party.not_before)

    def _folder_due_at(self, folder: Folder) -> float:
        if not folder.is_open:
            return folder.retry_at
        if folder.dirty or folder.waiting.is_heavy:
            return 0.0
        waiting = folder.waiting
        if not waiting:
            return float("inf")
        if self._closing or waiting.asked:
            return 0.0
        if not waiting.live and self._around.seeding(folder.target.key):
            return 0.0 if waiting.is_full else waiting.opened + _SEEDING_SECONDS
        return cadence.closes_at(
            opened=waiting.opened,
            last_event=waiting.newest,
            last_push_end=self._last_push_end,
            push_average=self._push_average,
            files=len(waiting.arrivals) if waiting.live else 0,
            size_bytes=waiting.size if waiting.live else 0,
            fixed_window=folder.target.window_seconds,
            limits=self._limits,
        )

    async def _serve(self, party: Party) -> None:
        """One attempt to open and write what a party has."""
        try:
            async with self._repository_gate, self._gate:
                if not party.folders:
                    # Its last destination was taken away while this waited for its turn.
                    return
                self.is_active = True
                await self._open(party)
                await self._publish(party)
                await self._tidy(party)
            party.succeeded()
        except StoreCorrupt as error:
            await self._start_over(error)
        except WindlassError as error:
            party.failed(error, self._clock.monotonic())
        except OSError as error:
            party.failed_on_disk(error, self._clock.monotonic())
        except Exception as error:
            # The loop must outlive an error of ours; what waited was put back.
            _log.exception("writing failed", repository=str(party.repository))
            crash = Retryable("InternalError", f"{type(error).__name__} while writing; see the log")
            party.failed(crash, self._clock.monotonic())
        finally:
            self.is_active = False
        for folder in party.folders.values():
            self._around.changed(folder.target.key)

    async def _start_over(self, error: StoreCorrupt) -> None:
        """The store is damaged: fetch it again, and see every object again."""
        _log.warning("store damaged; fetching it again", message=error.message)
        await self._branch.start_over()
        for party in self.parties.values():
            for key, folder in party.folders.items():
                party.folders[key] = Folder(folder.target)
                self._around.seen_again(key)

    async def _tidy(self, party: Party) -> None:
        """The store grows with every commit; while nothing waits it is cheap to begin anew."""
        waiting = any(folder.waiting or folder.dirty for _, folder in self.folders())
        if party.folders and not waiting and await self._branch.is_cluttered():
            await self._branch.start_over()
            await self._catch_up(next(iter(party.folders.values())).target)

    # ---- opening

    async def _open(self, party: Party) -> None:
        closed = [folder for folder in party.folders.values() if not folder.is_open]
        # Objects are read again only for a remote that answers.
        recalls = any(folder.dirty for folder in party.folders.values())
        if not closed and not recalls and self._branch.known and not self._doubtful:
            return
        await self._catch_up(next(iter(party.folders.values())).target)
        self._doubtful = False
        for folder in closed:
            await self._open_folder(folder)

    async def _catch_up(self, target: Target) -> None:
        """See where the branch is now; every open folder follows."""
        moved = await self._branch.refresh(target)
        if moved == "same":
            return
        if moved == "rewound":
            telling.rewound(self._around, self._branch, self.folders())
        for _, folder in list(self.folders()):
            if folder.is_open:
                before = folder.index
                await self._open_folder(folder)
                if folder.damaged_since(before):
                    self._around.seen_again(folder.target.key)

    async def _open_folder(self, folder: Folder) -> None:
        """Load a folder if it may be written to; else say why and look again later."""
        until = self._clock.monotonic() + _CLAIMED_SECONDS
        was_open = folder.is_open
        try:
            displaced = await opening.load(
                folder,
                self._branch,
                self._publisher.claim_of(folder),
                destinations=self._around.destinations(),
                beside=opening.holders(folder, self.folders()),
            )
            for other, why in displaced:
                other.close(why, until)
                self._around.changed(other.target.key)
            if not was_open:
                # What happened while it was closed was told to nobody.
                self._around.seen_again(folder.target.key)
        except Stalled as error:
            folder.close(error, until)
        self._around.changed(folder.target.key)

    # ---- writing

    async def _publish(self, party: Party) -> None:
        for folder in list(party.folders.values()):
            if folder.is_open and folder.waiting.is_heavy:
                await self._publisher.stow(folder)
        now = self._clock.monotonic()
        due = [
            folder
            for folder in party.folders.values()
            if folder.is_open and self._folder_due_at(folder) <= now
        ]
        for folder in due:
            await batching.recall(folder, self._publisher, self._around, self._clock)
        taken = [(folder, folder.take()) for folder in due if folder.waiting]
        try:
            await self._write_out(party, taken)
        except BaseException:
            for folder, gathered in taken:
                folder.put_back(gathered)
            raise

    async def _write_out(self, party: Party, taken: list[tuple[Folder, Gathered]]) -> None:
        patience = 0.05
        while taken:
            batches = [await self._batch(folder, gathered) for folder, gathered in taken]
            built = await self._publisher.build(batches)
            party.commits = built.commits
            if built.changes_nothing or await self._push(taken, built, batches):
                party.commits = 0
                self._settle(built)
                return
            self._around.raced()
            await asyncio.sleep(self._rng.uniform(patience, patience * 10))
            patience = min(patience * 2, 0.5)
            await self._catch_up(taken[0][0].target)
            batching.let_go(taken, [folder for _, folder in self.folders()])

    async def _batch(self, folder: Folder, gathered: Gathered) -> Batch:
        return await batching.batch(folder, gathered, self._branch, self._around, self._clock)

    def _settle(self, built: Built) -> None:
        """All is written, or nothing had to be."""
        for written in built.written:
            written.folder.settle()
            for identity, reason in written.skipped:
                self._around.skipped(identity, reason)

    async def _push(
        self, taken: list[tuple[Folder, Gathered]], built: Built, batches: list[Batch]
    ) -> bool:
        """Whether the server has the commits now; False means: plan again."""
        target = taken[0][0].target
        taken[:] = [(folder, stored(gathered, built)) for folder, gathered in taken]
        if not self._around.may_push():
            raise Waiting("NotLeader", "the lease is not held; nothing is pushed", after=1.0)
        started = self._clock.monotonic()
        failpoint.reach("reverser.push.before")
        outcome = await pushing.push(
            self._git,
            self._branch.store,
            target.remote,
            target.credentials,
            branch=self._branch.name,
            commit=built.tip,
            expected=self._branch.expected,
        )
        failpoint.reach("reverser.push.after")
        match outcome:
            case pushing.Pushed():
                self._acknowledge(built, batches, started)
                if built.files > _MANY_FILES:
                    await asyncio.to_thread(memory.trim)
                return True
            case pushing.Rejected(message=text):
                raise Stalled("PushRejected", f"{target.remote.display} refused the push: {text}")
            case pushing.Transient(message=text):
                raise Retryable("GitUnavailable", f"{target.remote.display}: {text}")
            case _:
                return False

    def _acknowledge(self, built: Built, batches: list[Batch], started: float) -> None:
        ended = self._clock.monotonic()
        self._last_push_end = ended
        self._push_average = cadence.push_average(self._push_average, ended - started)
        self._around.took(ended - started)
        creates = self._branch.expected is None
        self._branch.advanced(built.tip)
        time = self._clock.now()
        for written in built.written:
            folder = written.folder
            for verdict in written.verdicts:
                self._around.judged(verdict)
            folder.acknowledge(written.edits)
            claims = written.claims
            telling.pushed(self._around, folder, built.tip, creates=creates, claims=claims)
            folder.claimed = folder.claimed or claims
            if written.edits:
                folder.last_push = LastPush(built.tip, time, len(written.edits))
            lag = lag_seconds(batches, folder, time)
            self._around.pushed(Delivery(built, written, lag, ended - started))
