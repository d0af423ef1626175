"""Applies a bundle, stage by stage, as an account that may do nothing else.

    widen the ledger ─▶ apply stage 0 … 5 ─▶ delete what is stale ─▶ narrow the ledger

A failed object ends the pass after its stage, and then nothing is deleted. An object that
is as wanted is not written, so a converged pass writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments import refusals
from windlass.environments.decide import inventory as listed
from windlass.environments.decide import ledger as ledgers
from windlass.environments.decide import marks, owned_objects, phase, scaling, step
from windlass.environments.decide.bundle import APPLIED_HASH, Bundle, Member
from windlass.environments.decide.inventory import FIELD_MANAGER, Entry, Identity
from windlass.environments.decide.kinds import Stage
from windlass.environments.decide.ledger import Ledger
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.step import Finding
from windlass.environments.hand import Hand, Leaving, Unchangeable
from windlass.environments.holdings import CONFIG_MAPS, SECRETS, Holdings
from windlass.environments.refusals import Refusal
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError
from windlass.objects.json import Object
from windlass.runtime.owned import Owned

_AT_ONCE = 8
_BELIEVED_SECONDS = 600.0
_RIGHTS_TAKE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying: the kinds that were written, who was put right, who went.

    `is_prepared` says that everything workloads need is there.
    """

    finding: Finding | None
    written: tuple[str, ...] = ()
    corrected: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    is_prepared: bool = True


@dataclass(frozen=True, slots=True)
class _Seen:
    """A Secret as the server answered when we wrote it, for one revision."""

    object: Object
    at: float
    digest: str


@dataclass(frozen=True, slots=True)
class _Done:
    """One object of a stage: there, or refused."""

    member: Member
    live: Object | None = None
    refusal: Refusal | None = None
    is_written: bool = False
    is_drift: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """One bundle on its way into one namespace; `known` is the ledger before it."""

    hand: Hand
    bundle: Bundle
    digest: str
    known: Ledger
    begun: Ledger
    driven: frozenset[tuple[str, str]]

    def was_there(self, member: Member) -> bool:
        """Whether this very wish had been applied in this revision before."""
        identity = (member.gvr.group, member.kind, member.name)
        is_listed = any(row.uid and row.identity == identity for row in self.known.inventory)
        return is_listed and self.known.revision.digest == self.digest


class Applying:
    """Bundles of all Environments on their way into the cluster."""

    def __init__(
        self, connection: Connection, holdings: Holdings, owned: Owned, clock: Clock
    ) -> None:
        self._connection = connection
        self._holdings = holdings
        self._owned = owned
        self._clock = clock
        self._hands: dict[str, Hand] = {}
        self._secrets: dict[tuple[str, str], _Seen] = {}
        self._denied_since: dict[str, float] = {}

    def ledger(self, place: str) -> Ledger:
        """What is remembered of the Environment in `place`."""
        return ledgers.decoded(self._holdings.get(CONFIG_MAPS, place, ledgers.CONFIG_MAP))

    async def apply(self, place: str, owner: Marks, bundle: Bundle) -> Applied:
        """Bring `place` to what the bundle says; a finding says why it did not get there."""
        known = ledgers.recovered(self.ledger(place), self._holdings.brought(place), owner.uid)
        begun = ledgers.begun(known, bundle, self._clock.now())
        await self._remember(place, owner, begun)
        work = _Work(
            self._hand(place),
            bundle,
            begun.revision.digest,
            known,
            begun,
            scaling.autoscaled(bundle),
        )
        done = await self._stages(work)
        written = tuple(one.member.kind for one in done if one.is_written)
        corrected = tuple(str(one.member) for one in done if one.is_drift)
        refused = [one for one in done if one.refusal is not None]
        finding = self._finding(place, [one.refusal for one in refused if one.refusal])
        if finding is not None:
            is_prepared = all(one.member.stage >= Stage.WORKLOADS for one in refused)
            return Applied(finding, written, corrected, is_prepared=is_prepared)
        try:
            gone, pruned = await self._prune(work, owner)
        except ApiError as error:
            text = f"what the source no longer has could not be deleted: {error.reason}"
            finding = step.retrying(phase.DEPLOYMENT, "PruneFailed", text)
            return Applied(finding, written, corrected)
        present = [one.live for one in done if one.live is not None]
        await self._remember(place, owner, ledgers.applied(begun, present, gone))
        return Applied(None, written, corrected, pruned)

    async def begin_again(self, place: str, owner: Marks) -> None:
        """Give the wished revision all of its time again."""
        self._denied_since.pop(place, None)
        await self._remember(
            place, owner, ledgers.begun_again(self.ledger(place), self._clock.now())
        )

    async def note(
        self, place: str, owner: Marks, ended: Mapping[Identity, str], *, is_ready: bool
    ) -> Ledger:
        """Remember what a look at the rollout found."""
        now = self._clock.now()
        looked = ledgers.looked_at(self.ledger(place), ended, is_ready=is_ready, now=now)
        await self._remember(place, owner, looked)
        return looked

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._hands.pop(place, None)
        self._denied_since.pop(place, None)
        for key in [key for key in self._secrets if key[0] == place]:
            del self._secrets[key]

    def _hand(self, place: str) -> Hand:
        if place not in self._hands:
            self._hands[place] = Hand(self._connection, place)
        return self._hands[place]

    async def _remember(self, place: str, owner: Marks, ledger: Ledger) -> None:
        live = self._holdings.get(CONFIG_MAPS, place, ledgers.CONFIG_MAP)
        if live is not None and ledgers.decoded(live) == ledger and _is_marked(live, owner):
            return
        obj = owned_objects.config_map(place, owner, ledgers.CONFIG_MAP, ledgers.encoded(ledger))
        failpoint.reach("environments.ledger.before")
        ensure = self._owned.ensure(CONFIG_MAPS, obj, live)
        await self._holdings.written(CONFIG_MAPS, place, ledgers.CONFIG_MAP, ensure)
        failpoint.reach("environments.ledger.after")

    async def _stages(self, work: _Work) -> list[_Done]:
        done: list[_Done] = []
        for _, members in groupby(work.bundle.members, key=lambda member: member.stage):
            due = [one for one in members if not listed.is_finished(work.begun.inventory, one)]
            results = await self._stage(work, due)
            done += results
            if any(one.refusal is not None for one in results):
                break
        return done

    async def _stage(self, work: _Work, members: Sequence[Member]) -> list[_Done]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(member: Member, live: Object | None, wanted: Object) -> _Done:
            async with gate:
                return await self._one(work, member, live, wanted)

        done: list[_Done] = []
        due = []
        for member in members:
            live = self._live(work.hand.place, member, work.digest)
            wanted = scaling.wanted(member, live, work.driven, FIELD_MANAGER)
            if live is not None and work.hand.owned.is_as_wanted(wanted, live):
                done.append(_Done(member, live))
            else:
                due.append((member, live, wanted))
        return [*done, *await asyncio.gather(*(one(*task) for task in due))]

    async def _one(self, work: _Work, member: Member, live: Object | None, wanted: Object) -> _Done:
        """One object on the server, and whether it had to be written."""
        place = work.hand.place
        try:
            write = work.hand.write(member, wanted, live)
            applied = await self._noted(place, member, work.digest, write)
        except Leaving:
            return _Done(member, refusal=refusals.leaving(member))
        except Unchangeable as error:
            return _Done(member, refusal=refusals.unchangeable(member, error.fields))
        except ApiError as error:
            return _Done(member, refusal=refusals.of(member, error))
        is_written = live is None or _version(live) != _version(applied)
        is_drift = is_written and _is_drift(member, live, work)
        return _Done(member, applied, is_written=is_written, is_drift=is_drift)

    def _live(self, place: str, member: Member, digest: str) -> Object | None:
        if member.gvr == SECRETS:
            return self._seen_secret(place, member.name, digest)
        return self._holdings.get(member.gvr, place, member.name)

    async def _noted(
        self, place: str, member: Member, digest: str, write: Awaitable[Object]
    ) -> Object:
        if member.gvr != SECRETS:
            return await self._holdings.written(member.gvr, place, member.name, write)
        applied = await write
        self._secrets[place, member.name] = _Seen(applied, self._clock.monotonic(), digest)
        return applied

    def _seen_secret(self, place: str, name: str, digest: str) -> Object | None:
        """Nobody watches Secrets; what we wrote is believed for a while, in one revision."""
        seen = self._secrets.get((place, name))
        if seen is None or seen.digest != digest:
            return None
        return None if self._clock.monotonic() - seen.at > _BELIEVED_SECONDS else seen.object

    def _finding(self, place: str, refused: Sequence[Refusal]) -> Finding | None:
        """What keeps a stage from being done; a new binding takes a moment to count."""
        if not any(one.reason == refusals.DENIED for one in refused):
            self._denied_since.pop(place, None)
        if not refused:
            return None
        now = self._clock.monotonic()
        since = self._denied_since.setdefault(place, now)
        return refusals.finding(refused, is_new=now - since < _RIGHTS_TAKE_SECONDS)

    async def _prune(self, work: _Work, owner: Marks) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """Delete what is stale; the entries to list no longer, and what really went."""
        stale = listed.stale(work.begun.inventory, work.bundle)
        pruned: list[str] = []
        for entry in stale:
            gvr = listed.gvr_of(entry)
            live = await work.hand.read(gvr, entry.name) if gvr is not None else None
            if gvr is None or live is None or not listed.may_delete(entry, live, owner.uid):
                continue
            await work.hand.remove(gvr, live)
            self._secrets.pop((work.hand.place, entry.name), None)
            pruned.append(f"{entry.kind}/{entry.name}")
        return stale, tuple(pruned)


def _is_drift(member: Member, live: Object | None, work: _Work) -> bool:
    """Whether somebody changed or deleted what had been as wished."""
    if member.gvr == SECRETS:
        return False
    if live is None:
        return work.was_there(member)
    found, wished = live["metadata"], member.object["metadata"]
    if (found.get("labels") or {}).get(marks.TEAM) != wished["labels"][marks.TEAM]:
        # The administrator may have named another team; the hash does not tell.
        return False
    return bool((found.get("annotations") or {}).get(APPLIED_HASH) == member.applied_hash)


def _is_marked(live: Object, owner: Marks) -> bool:
    return owner.labels.items() <= (live["metadata"].get("labels") or {}).items()


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion"))
