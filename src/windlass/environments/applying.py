"""Applies a bundle, stage by stage, as an account that may do nothing else.

    widen the ledger ─▶ apply stage 0 … 5 ─▶ delete what is stale ─▶ narrow the ledger

Every write is made as the namespace's own `windlass-applier`, whose role covers exactly the
kinds a project may bring, in this one namespace. A failed object ends the pass after its
stage, and then nothing is deleted. An object that is as wanted is not written, so a
converged pass writes nothing.
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
from windlass.environments.decide import owned_objects, scaling
from windlass.environments.decide.bundle import RECREATE, Bundle, Member
from windlass.environments.decide.inventory import Entry, Identity, Inventory
from windlass.environments.decide.ledger import Ledger
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.step import Finding
from windlass.environments.holdings import CONFIG_MAPS, SECRETS, Holdings
from windlass.environments.refusals import Refusal
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, Conflict, Invalid, NotFound
from windlass.objects.json import Object
from windlass.runtime.owned import Owned

FIELD_MANAGER = "windlass-bundle"

_AT_ONCE = 8
_BELIEVED_SECONDS = 600.0
_MADE_ANEW = frozenset({"Deployment", "Job", "Pod"})


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying; `written` counts real writes."""

    finding: Finding | None
    written: int = 0
    pruned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A Secret as the server answered when we wrote it."""

    object: Object
    at: float


class Applying:
    """Bundles of all Environments on their way into the cluster."""

    def __init__(
        self, connection: Connection, holdings: Holdings, owned: Owned, clock: Clock
    ) -> None:
        self._connection = connection
        self._holdings = holdings
        self._owned = owned
        self._clock = clock
        self._hands: dict[str, _Hand] = {}
        self._secrets: dict[tuple[str, str], _Seen] = {}

    def ledger(self, place: str) -> Ledger:
        """What is remembered of the Environment in `place`."""
        return ledgers.decoded(self._holdings.get(CONFIG_MAPS, place, ledgers.CONFIG_MAP))

    async def apply(self, place: str, owner: Marks, bundle: Bundle) -> Applied:
        """Bring `place` to what the bundle says; a finding says why it did not get there."""
        begun = ledgers.begun(self.ledger(place), bundle, self._clock.now())
        await self._remember(place, owner, begun)
        hand = self._hands.setdefault(place, _Hand(self._connection, place))
        present, written, refused = await self._stages(hand, bundle, begun.inventory)
        if refused is not None:
            return Applied(refused, written)
        pruned = await self._prune(hand, owner, begun.inventory, bundle)
        await self._remember(place, owner, ledgers.applied(begun, present, pruned))
        return Applied(None, written, tuple(f"{entry.kind}/{entry.name}" for entry in pruned))

    async def begin_again(self, place: str, owner: Marks) -> None:
        """Give the wished revision all of its time again."""
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
        for key in [key for key in self._secrets if key[0] == place]:
            del self._secrets[key]

    async def _remember(self, place: str, owner: Marks, ledger: Ledger) -> None:
        live = self._holdings.get(CONFIG_MAPS, place, ledgers.CONFIG_MAP)
        if live is not None and ledgers.decoded(live) == ledger:
            return
        obj = owned_objects.config_map(place, owner, ledgers.CONFIG_MAP, ledgers.encoded(ledger))
        failpoint.reach("environments.ledger.before")
        ensure = self._owned.ensure(CONFIG_MAPS, obj, live)
        await self._holdings.written(CONFIG_MAPS, place, ledgers.CONFIG_MAP, ensure)
        failpoint.reach("environments.ledger.after")

    async def _stages(
        self, hand: _Hand, bundle: Bundle, known: Inventory
    ) -> tuple[list[Object], int, Finding | None]:
        driven = scaling.autoscaled(bundle)
        present: list[Object] = []
        written = 0
        for _, members in groupby(bundle.members, key=lambda member: member.stage):
            due = [member for member in members if not listed.is_finished(known, member)]
            results = await self._stage(hand, due, driven)
            present += [found for found, _ in results if isinstance(found, dict)]
            written += sum(wrote for _, wrote in results)
            refused = [found for found, _ in results if isinstance(found, Refusal)]
            if refused:
                return present, written, refusals.finding(refused)
        return present, written, None

    async def _stage(
        self, hand: _Hand, members: Sequence[Member], driven: frozenset[tuple[str, str]]
    ) -> list[tuple[Object | Refusal, bool]]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(member: Member) -> tuple[Object | Refusal, bool]:
            async with gate:
                return await self._one(hand, member, driven)

        return list(await asyncio.gather(*map(one, members)))

    async def _one(
        self, hand: _Hand, member: Member, driven: frozenset[tuple[str, str]]
    ) -> tuple[Object | Refusal, bool]:
        """One object on the server, and whether it had to be written."""
        live = self._live(hand.place, member)
        wanted = scaling.wanted(member, live, driven, FIELD_MANAGER)
        if live is not None and hand.owned.is_as_wanted(wanted, live):
            return live, False
        try:
            return await self._noted(hand, member, self._write(hand, member, wanted, live)), True
        except ApiError as error:
            return refusals.of(member, error), False

    async def _write(
        self, hand: _Hand, member: Member, wanted: Object, live: Object | None
    ) -> Object:
        failpoint.reach("environments.apply.before")
        try:
            applied = await hand.owned.ensure(member.gvr, wanted, live)
        except Invalid as error:
            if live is None or not refusals.is_immutable(error) or not _may_be_made_anew(member):
                raise
            await hand.delete(member, live)
            applied = await hand.owned.ensure(member.gvr, wanted, None)
        failpoint.reach("environments.apply.after")
        return applied

    def _live(self, place: str, member: Member) -> Object | None:
        if member.gvr == SECRETS:
            return self._seen_secret(place, member.name)
        return self._holdings.get(member.gvr, place, member.name)

    async def _noted(self, hand: _Hand, member: Member, write: Awaitable[Object]) -> Object:
        if member.gvr != SECRETS:
            return await self._holdings.written(member.gvr, hand.place, member.name, write)
        applied = await write
        self._secrets[hand.place, member.name] = _Seen(applied, self._clock.monotonic())
        return applied

    def _seen_secret(self, place: str, name: str) -> Object | None:
        """Nobody watches Secrets; what we wrote is believed for a while, then written again."""
        seen = self._secrets.get((place, name))
        if seen is None or self._clock.monotonic() - seen.at > _BELIEVED_SECONDS:
            return None
        return seen.object

    async def _prune(
        self, hand: _Hand, owner: Marks, known: Inventory, bundle: Bundle
    ) -> tuple[Entry, ...]:
        """Delete what is stale; the entries that need no longer be listed."""
        gone: list[Entry] = []
        for entry in listed.stale(known, bundle):
            gvr = listed.gvr_of(entry)
            live = await hand.read(entry) if gvr is not None else None
            if live is None or not listed.may_delete(entry, live, owner.uid):
                gone.append(entry)
                continue
            failpoint.reach("environments.prune.before")
            await hand.remove(entry, live)
            failpoint.reach("environments.prune.after")
            gone.append(entry)
        return tuple(gone)


def _may_be_made_anew(member: Member) -> bool:
    """Whether deleting loses nothing that counts, or somebody said that it may be lost."""
    annotations = member.object["metadata"]["annotations"]
    return member.kind in _MADE_ANEW or annotations.get(RECREATE) == "true"


class _Hand:
    """One namespace's applier at work."""

    def __init__(self, connection: Connection, place: str) -> None:
        self.place = place
        self._api = Api(connection, acting_as=owned_objects.applier_user(place))
        self.owned = Owned(self._api, FIELD_MANAGER)

    async def read(self, entry: Entry) -> Object | None:
        gvr = listed.gvr_of(entry)
        assert gvr is not None, "only entries of allowed kinds are read"
        try:
            return await self._api.get(gvr, entry.name, self.place)
        except NotFound:
            return None

    async def remove(self, entry: Entry, live: Object) -> None:
        gvr = listed.gvr_of(entry)
        assert gvr is not None, "only entries of allowed kinds are removed"
        try:
            await self._api.delete(
                gvr,
                entry.name,
                self.place,
                uid=live["metadata"]["uid"],
                propagation="Background",
            )
        except (NotFound, Conflict):
            return

    async def delete(self, member: Member, live: Object) -> None:
        """Make room for an object that cannot be changed in place."""
        await self._api.delete(
            member.gvr,
            member.name,
            self.place,
            uid=live["metadata"]["uid"],
            propagation="Background",
        )
