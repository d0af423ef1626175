"""Applies a bundle, stage by stage, as an account that may do nothing else.

    widen the ledger ─▶ hooks ─▶ what workloads need ─▶ workloads and what scales them
                                                                      │
    hooks ◀─ once it is ready ◀─ narrow the ledger ◀─ delete what is stale ◀─┘

A failed object ends the pass after its stage, and then nothing is deleted. Hooks run one
after the other, and what comes later waits for them, so one that fails leaves everything of
the revision before as it was; one that is complete is noted before anything else happens,
and then it is done for good in its revision. An object that is as wanted is not written, so
a converged pass writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments import progress, refusals
from windlass.environments.corrections import Correction
from windlass.environments.decide import hooks, marks, owned_objects, phase, scaling, step
from windlass.environments.decide import inventory as listed
from windlass.environments.decide import ledger as ledgers
from windlass.environments.decide.bundle import APPLIED_HASH, Bundle, Member
from windlass.environments.decide.hooks import When
from windlass.environments.decide.inventory import FIELD_MANAGER, Entry, Identity
from windlass.environments.decide.ledger import Ledger
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.step import Finding
from windlass.environments.hand import Hand, Leaving, Unchangeable
from windlass.environments.holdings import CONFIG_MAPS, SECRETS, Holdings
from windlass.environments.hook_runs import HookRuns
from windlass.environments.progress import Applied, Done, Reached, Work
from windlass.environments.refusals import Refusal
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError
from windlass.objects.names import Object
from windlass.runtime.owned import OwnedObjects

_AT_ONCE = 8
_BELIEVED_SECONDS = 600.0
_RIGHTS_TAKE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A Secret as the server answered when we wrote it, for one revision."""

    object: Object
    at: float
    digest: str


class Applying:
    """Bundles of all Environments on their way into the cluster."""

    def __init__(
        self,
        connection: Connection,
        holdings: Holdings,
        owned: OwnedObjects,
        hook_runs: HookRuns,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._holdings = holdings
        self._owned = owned
        self._hook_runs = hook_runs
        self._clock = clock
        self._hands: dict[str, Hand] = {}
        self._secrets: dict[tuple[str, str], _Seen] = {}
        self._denied_since: dict[str, float] = {}

    def ledger(self, place: str) -> Ledger:
        """What is remembered of the Environment in `place`."""
        return ledgers.decoded(self._holdings.get(CONFIG_MAPS, place, ledgers.CONFIG_MAP))

    async def apply(
        self,
        place: str,
        owner: Marks,
        bundle: Bundle,
        *,
        is_retried: bool = False,
        at_least: int = 0,
    ) -> Applied:
        """Bring `place` to what the bundle says; a finding says why it did not get there.

        `is_retried` lets hooks that failed run once more. `at_least` is the newest revision
        that was reported: the namespace, and what it remembers, may have been made anew since.
        """
        known = ledgers.recovered(self.ledger(place), self._holdings.brought(place), owner.uid)
        begun = ledgers.begun(known, bundle, self._clock.now(), at_least=at_least)
        await self._remember(place, owner, begun)
        work = self._work(place, owner, bundle, known, begun, is_retried=is_retried)
        reached = await self._stages(work)
        applied = self._told(place, reached)
        if applied.finding is not None:
            return replace(applied, step=progress.step(reached))
        try:
            gone, pruned = await self._prune(work, owner)
        except ApiError as error:
            text = f"what the source no longer has could not be deleted: {error.reason}"
            return replace(applied, finding=step.retrying(phase.DEPLOYMENT, "PruneFailed", text))
        present = [one.live for one in reached.done if one.live is not None]
        await self._remember(place, owner, ledgers.applied(reached.ledger, present, gone))
        return replace(applied, pruned=pruned)

    async def conclude(
        self, place: str, owner: Marks, bundle: Bundle, *, is_retried: bool = False
    ) -> Applied:
        """Run the hooks that come after the rollout; without a finding all are complete."""
        known = self.ledger(place)
        work = self._work(place, owner, bundle, known, known, is_retried=is_retried)
        applied = self._told(place, await self._hooks(work, "postDeploy"))
        return replace(applied, step="postDeploy")

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

    def _work(
        self,
        place: str,
        owner: Marks,
        bundle: Bundle,
        known: Ledger,
        begun: Ledger,
        *,
        is_retried: bool,
    ) -> Work:
        return Work(
            self._hand(place),
            owner,
            bundle,
            begun.revision.digest,
            known,
            begun,
            scaling.autoscaled(bundle),
            is_retried,
        )

    def _told(self, place: str, reached: Reached) -> Applied:
        refusals_of = [one.refusal for one in reached.refused if one.refusal is not None]
        return Applied(
            self._finding(place, refusals_of) or reached.held,
            tuple(one.member.kind for one in reached.done if one.is_written),
            tuple(
                Correction(one.member.kind, one.member.name) for one in reached.done if one.is_drift
            ),
        )

    async def _stages(self, work: Work) -> Reached:
        hooked = await self._hooks(work, "preDeploy")
        if hooked.ends:
            return hooked
        brought = await self._members(work, work.bundle.members)
        return Reached(hooked.ledger, (*hooked.done, *brought.done))

    async def _members(self, work: Work, members: Iterable[Member]) -> Reached:
        done: list[Done] = []
        for _, stage in groupby(members, key=lambda member: member.stage):
            due = [one for one in stage if not listed.is_finished(work.begun.inventory, one)]
            results = await self._stage(work, due)
            done += results
            if any(one.refusal is not None for one in results):
                break
        return Reached(work.begun, tuple(done))

    async def _hooks(self, work: Work, when: When) -> Reached:
        """Run the hooks of a moment one after the other, as far as they are complete."""
        ledger, place = work.begun, work.hand.place
        done: list[Done] = []
        for hook in work.bundle.due(when, is_upgrade=ledger.revision.is_upgrade):
            if listed.is_finished(ledger.inventory, hook):
                continue
            run = await self._hook(work, hook)
            done.append(run)
            if run.live is None:
                break
            held = self._hook_runs.holding(place, hook, run.live)
            if held is not None:
                return Reached(ledger, tuple(done), held)
            ended = {(hook.gvr.group, hook.kind, hook.name): hook.applied_hash}
            ledger = ledgers.hook_ended(ledger, run.live, ended)
            if hooks.is_waited_for(hook.object):
                if when == "preDeploy":
                    # What they took is not taken from the rollout's time.
                    ledger = ledgers.begun_again(ledger, self._clock.now())
                await self._remember(place, work.owner, ledger)
        # Applying the others once more would do no harm, so one write notes all of them.
        await self._remember(place, work.owner, ledger)
        return Reached(ledger, tuple(done))

    async def _hook(self, work: Work, hook: Member) -> Done:
        """A hook on the server; one that runs to an end does so for this revision alone."""
        live = self._live(work.hand.place, hook, work.digest)
        if (
            live is not None
            and hooks.is_waited_for(hook.object)
            and self._is_over(work, hook, live)
        ):
            removal = work.hand.remove(hook.gvr, live)
            await self._holdings.deleted(hook.gvr, work.hand.place, hook.name, removal)
            left = await work.hand.read(hook.gvr, hook.name)
            if left is not None and left["metadata"]["uid"] == live["metadata"]["uid"]:
                # A Pod takes its time to end; applied now, the new one would end with it.
                return Done(hook, refusal=refusals.leaving(hook))
        (done,) = await self._stage(work, [hook])
        return done

    def _is_over(self, work: Work, hook: Member, live: Object) -> bool:
        """Whether it is an earlier revision's, or failed and somebody asks for it again."""
        if not _is_of(live, hook) or listed.ran_earlier(work.begun.inventory, live):
            return True
        held = self._hook_runs.holding(work.hand.place, hook, live) if work.is_retried else None
        return held is not None and held.failed

    async def _stage(self, work: Work, members: Sequence[Member]) -> list[Done]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(member: Member, live: Object | None, wanted: Object) -> Done:
            async with gate:
                return await self._one(work, member, live, wanted)

        done: list[Done] = []
        due = []
        for member in members:
            live = self._live(work.hand.place, member, work.digest)
            wanted = scaling.wanted(member, live, work.driven, FIELD_MANAGER)
            if live is not None and work.hand.owned.is_as_wanted(wanted, live):
                done.append(Done(member, live))
            else:
                due.append((member, live, wanted))
        return [*done, *await asyncio.gather(*(one(*task) for task in due))]

    async def _one(self, work: Work, member: Member, live: Object | None, wanted: Object) -> Done:
        """One object on the server, and whether it had to be written."""
        place = work.hand.place
        try:
            write = work.hand.write(member, wanted, live)
            applied = await self._noted(place, member, work.digest, write)
        except Leaving:
            return Done(member, refusal=refusals.leaving(member))
        except Unchangeable as error:
            return Done(member, refusal=refusals.unchangeable(member, error.fields))
        except ApiError as error:
            return Done(member, refusal=refusals.of(member, error))
        is_written = live is None or _version(live) != _version(applied)
        is_drift = is_written and _is_drift(member, live, work)
        if is_drift and live is not None and (member.kind, member.name) in work.driven:
            before = scaling.with_replicas_of(wanted, live)
            is_drift = not work.hand.owned.is_as_wanted(before, live)
        return Done(member, applied, is_written=is_written, is_drift=is_drift)

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

    async def _prune(self, work: Work, owner: Marks) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
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


def _is_drift(member: Member, live: Object | None, work: Work) -> bool:
    """Whether somebody changed or deleted what had been as wished."""
    if member.gvr == SECRETS:
        return False
    if live is None:
        return work.was_there(member)
    found, wished = live["metadata"], member.object["metadata"]
    if (found.get("labels") or {}).get(marks.TEAM) != wished["labels"][marks.TEAM]:
        # The administrator may have named another team; the hash does not tell.
        return False
    return _is_of(live, member)


def _is_of(live: Object, member: Member) -> bool:
    """Whether a live object is that of this very wish."""
    said = live["metadata"].get("annotations") or {}
    return bool(said.get(APPLIED_HASH) == member.applied_hash)


def _is_marked(live: Object, owner: Marks) -> bool:
    return owner.labels.items() <= (live["metadata"].get("labels") or {}).items()


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion"))
