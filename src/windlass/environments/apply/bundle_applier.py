"""Applies a bundle, stage by stage, as an account that may do nothing else.

    widen the inventory ─▶ hooks ─▶ what workloads need ─▶ workloads and what scales them
                                                                      │
    hooks ◀─ once it is ready ◀─ narrow the inventory ◀─ delete what is stale ◀─┘

A failed object ends the run after its stage, and then nothing is deleted. Hooks run one
after the other, and what comes later waits for them, so one that fails leaves everything of
the revision before as it was; one that is complete is recorded before anything else happens,
and then it is done for good in its revision. An object that is as desired is not written, so
a converged reconcile writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments import inventory, owned_objects, ownership, phase, step
from windlass.environments.apply import apply_progress, autoscaling, refusals
from windlass.environments.apply.apply_progress import (
    ApplyResult,
    ApplyRun,
    MemberResult,
    StageResult,
)
from windlass.environments.apply.hook_runs import HookRuns
from windlass.environments.apply.namespace_client import (
    ImmutableObject,
    NamespaceClient,
    ObjectTerminating,
)
from windlass.environments.apply.refusals import ApplyRefusal
from windlass.environments.audit_log import Correction
from windlass.environments.bundle import hooks
from windlass.environments.bundle.bundle import APPLIED_HASH, Bundle, Member
from windlass.environments.bundle.hooks import HookPhase
from windlass.environments.inventory import (
    FIELD_MANAGER,
    InventoryEntry,
    ObjectIdentity,
    ReleaseState,
)
from windlass.environments.owned_cache import CONFIG_MAPS, SECRETS, OwnedCache
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError
from windlass.objects.names import Object
from windlass.runtime.owned import OwnedObjects

_MAX_WRITES = 8
_SECRET_TTL_SECONDS = 600.0
_RIGHTS_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _WrittenSecret:
    """A Secret as the server answered when we wrote it, for one revision."""

    object: Object
    at: float
    digest: str


class BundleApplier:
    """Bundles of all Environments on their way into the cluster."""

    def __init__(
        self,
        connection: Connection,
        holdings: OwnedCache,
        owned: OwnedObjects,
        hook_runs: HookRuns,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._cache = holdings
        self._owned = owned
        self._hook_runs = hook_runs
        self._clock = clock
        self._clients: dict[str, NamespaceClient] = {}
        self._secrets: dict[tuple[str, str], _WrittenSecret] = {}
        self._denied_since: dict[str, float] = {}

    def release_state(self, place: str) -> ReleaseState:
        """What is remembered of the Environment in `place`."""
        return inventory.decode_state(
            self._cache.get(CONFIG_MAPS, place, inventory.CONFIG_MAP_NAME)
        )

    async def apply(
        self,
        place: str,
        owner: Ownership,
        bundle: Bundle,
        *,
        is_retried: bool = False,
        at_least: int = 0,
    ) -> ApplyResult:
        """Bring `place` to what the bundle says; a finding says why it did not get there.

        `is_retried` lets hooks that failed run once more. `at_least` is the newest revision
        that was reported: the namespace, and what it remembers, may have been made anew since.
        """
        known = inventory.recover_state(
            self.release_state(place), self._cache.bundle_objects(place), owner.uid
        )
        begun = inventory.begin_revision(known, bundle, self._clock.now(), at_least=at_least)
        await self._write_state(place, owner, begun)
        work = self._make_run(place, owner, bundle, known, begun, is_retried=is_retried)
        reached = await self._apply_stages(work)
        applied = self._result(place, reached)
        if applied.result is not None:
            return replace(applied, step=apply_progress.step(reached))
        try:
            gone, pruned = await self._prune(work, owner)
        except ApiError as error:
            text = f"what the source no longer has could not be deleted: {error.reason}"
            return replace(applied, result=step.retrying(phase.DEPLOYMENT, "PruneFailed", text))
        present = [one.live for one in reached.results if one.live is not None]
        await self._write_state(
            place, owner, inventory.record_applied(reached.state, present, gone)
        )
        return replace(applied, pruned=pruned)

    async def run_post_deploy_hooks(
        self, place: str, owner: Ownership, bundle: Bundle, *, is_retried: bool = False
    ) -> ApplyResult:
        """Run the hooks that come after the rollout; without a finding all are complete."""
        known = self.release_state(place)
        work = self._make_run(place, owner, bundle, known, known, is_retried=is_retried)
        applied = self._result(place, await self._run_hooks(work, "postDeploy"))
        return replace(applied, step="postDeploy")

    async def restart_revision(self, place: str, owner: Ownership) -> None:
        """Give the wished revision all of its time again."""
        self._denied_since.pop(place, None)
        await self._write_state(
            place, owner, inventory.restart_revision(self.release_state(place), self._clock.now())
        )

    async def record_rollout(
        self, place: str, owner: Ownership, ended: Mapping[ObjectIdentity, str], *, is_ready: bool
    ) -> ReleaseState:
        """Remember what a look at the rollout found."""
        now = self._clock.now()
        looked = inventory.record_rollout(
            self.release_state(place), ended, is_ready=is_ready, now=now
        )
        await self._write_state(place, owner, looked)
        return looked

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._clients.pop(place, None)
        self._denied_since.pop(place, None)
        for key in [key for key in self._secrets if key[0] == place]:
            del self._secrets[key]

    def _client(self, place: str) -> NamespaceClient:
        if place not in self._clients:
            self._clients[place] = NamespaceClient(self._connection, place)
        return self._clients[place]

    async def _write_state(self, place: str, owner: Ownership, ledger: ReleaseState) -> None:
        live = self._cache.get(CONFIG_MAPS, place, inventory.CONFIG_MAP_NAME)
        if live is not None and inventory.decode_state(live) == ledger and _has_labels(live, owner):
            return
        obj = owned_objects.config_map(
            place, owner, inventory.CONFIG_MAP_NAME, inventory.encode_state(ledger)
        )
        failpoint.reach("environments.ledger.before")
        ensure = self._owned.ensure(CONFIG_MAPS, obj, live)
        await self._cache.await_write(CONFIG_MAPS, place, inventory.CONFIG_MAP_NAME, ensure)
        failpoint.reach("environments.ledger.after")

    def _make_run(
        self,
        place: str,
        owner: Ownership,
        bundle: Bundle,
        known: ReleaseState,
        begun: ReleaseState,
        *,
        is_retried: bool,
    ) -> ApplyRun:
        return ApplyRun(
            self._client(place),
            owner,
            bundle,
            begun.revision.digest,
            known,
            begun,
            autoscaling.autoscaled_workloads(bundle),
            is_retried,
        )

    def _result(self, place: str, reached: StageResult) -> ApplyResult:
        refusals_of = [one.refusal for one in reached.refused_members if one.refusal is not None]
        return ApplyResult(
            self._stage_failure(place, refusals_of) or reached.blocked_by,
            tuple(one.member.kind for one in reached.results if one.is_written),
            tuple(
                Correction(one.member.kind, one.member.name)
                for one in reached.results
                if one.is_drift
            ),
        )

    async def _apply_stages(self, work: ApplyRun) -> StageResult:
        hooked = await self._run_hooks(work, "preDeploy")
        if hooked.ends_run:
            return hooked
        brought = await self._apply_members(work, work.bundle.members)
        return StageResult(hooked.state, (*hooked.results, *brought.results))

    async def _apply_members(self, work: ApplyRun, members: Iterable[Member]) -> StageResult:
        done: list[MemberResult] = []
        for _, stage in groupby(members, key=lambda member: member.stage):
            due = [one for one in stage if not inventory.is_finished(work.state.inventory, one)]
            results = await self._apply_stage(work, due)
            done += results
            if any(one.refusal is not None for one in results):
                break
        return StageResult(work.state, tuple(done))

    async def _run_hooks(self, work: ApplyRun, when: HookPhase) -> StageResult:
        """Run the hooks of a moment one after the other, as far as they are complete."""
        ledger, place = work.state, work.client.namespace
        done: list[MemberResult] = []
        for hook in work.bundle.hooks_at(when, is_upgrade=ledger.revision.is_upgrade):
            if inventory.is_finished(ledger.inventory, hook):
                continue
            run = await self._run_hook(work, hook)
            done.append(run)
            if run.live is None:
                break
            held = self._hook_runs.blocking_result(place, hook, run.live)
            if held is not None:
                return StageResult(ledger, tuple(done), held)
            ended = {(hook.gvr.group, hook.kind, hook.name): hook.applied_hash}
            ledger = inventory.record_hook_end(ledger, run.live, ended)
            if hooks.runs_to_completion(hook.object):
                if when == "preDeploy":
                    # What they took is not taken from the rollout's time.
                    ledger = inventory.restart_revision(ledger, self._clock.now())
                await self._write_state(place, work.owner, ledger)
        # Applying the others once more would do no harm, so one write notes all of them.
        await self._write_state(place, work.owner, ledger)
        return StageResult(ledger, tuple(done))

    async def _run_hook(self, work: ApplyRun, hook: Member) -> MemberResult:
        """A hook on the server; one that runs to an end does so for this revision alone."""
        live = self._live(work.client.namespace, hook, work.digest)
        if (
            live is not None
            and hooks.runs_to_completion(hook.object)
            and self._is_obsolete(work, hook, live)
        ):
            removal = work.client.remove(hook.gvr, live)
            await self._cache.await_deletion(hook.gvr, work.client.namespace, hook.name, removal)
            left = await work.client.read(hook.gvr, hook.name)
            if left is not None and left["metadata"]["uid"] == live["metadata"]["uid"]:
                # A Pod takes its time to end; applied now, the new one would end with it.
                return MemberResult(hook, refusal=refusals.terminating_refusal(hook))
        (done,) = await self._apply_stage(work, [hook])
        return done

    def _is_obsolete(self, work: ApplyRun, hook: Member, live: Object) -> bool:
        """Whether it is an earlier revision's, or failed and somebody asks for it again."""
        if not _has_applied_hash(live, hook) or inventory.ran_for_earlier_revision(
            work.state.inventory, live
        ):
            return True
        held = (
            self._hook_runs.blocking_result(work.client.namespace, hook, live)
            if work.is_retried
            else None
        )
        return held is not None and held.failed

    async def _apply_stage(self, work: ApplyRun, members: Sequence[Member]) -> list[MemberResult]:
        gate = asyncio.Semaphore(_MAX_WRITES)

        async def one(member: Member, live: Object | None, wanted: Object) -> MemberResult:
            async with gate:
                return await self._apply_member(work, member, live, wanted)

        done: list[MemberResult] = []
        due = []
        for member in members:
            live = self._live(work.client.namespace, member, work.digest)
            wanted = autoscaling.desired_object(member, live, work.autoscaled, FIELD_MANAGER)
            if live is not None and work.client.owned.is_as_wanted(wanted, live):
                done.append(MemberResult(member, live))
            else:
                due.append((member, live, wanted))
        return [*done, *await asyncio.gather(*(one(*task) for task in due))]

    async def _apply_member(
        self, work: ApplyRun, member: Member, live: Object | None, wanted: Object
    ) -> MemberResult:
        """One object on the server, and whether it had to be written."""
        place = work.client.namespace
        try:
            write = work.client.write(member, wanted, live)
            applied = await self._remember_write(place, member, work.digest, write)
        except ObjectTerminating:
            return MemberResult(member, refusal=refusals.terminating_refusal(member))
        except ImmutableObject as error:
            return MemberResult(member, refusal=refusals.immutable_refusal(member, error.fields))
        except ApiError as error:
            return MemberResult(member, refusal=refusals.classify_error(member, error))
        is_written = live is None or _version(live) != _version(applied)
        is_drift = is_written and _is_drift(member, live, work)
        if is_drift and live is not None and (member.kind, member.name) in work.autoscaled:
            before = autoscaling.with_live_replicas(wanted, live)
            is_drift = not work.client.owned.is_as_wanted(before, live)
        return MemberResult(member, applied, is_written=is_written, is_drift=is_drift)

    def _live(self, place: str, member: Member, digest: str) -> Object | None:
        if member.gvr == SECRETS:
            return self._known_secret(place, member.name, digest)
        return self._cache.get(member.gvr, place, member.name)

    async def _remember_write(
        self, place: str, member: Member, digest: str, write: Awaitable[Object]
    ) -> Object:
        if member.gvr != SECRETS:
            return await self._cache.await_write(member.gvr, place, member.name, write)
        applied = await write
        self._secrets[place, member.name] = _WrittenSecret(applied, self._clock.monotonic(), digest)
        return applied

    def _known_secret(self, place: str, name: str, digest: str) -> Object | None:
        """Nobody watches Secrets; what we wrote is believed for a while, in one revision."""
        seen = self._secrets.get((place, name))
        if seen is None or seen.digest != digest:
            return None
        return None if self._clock.monotonic() - seen.at > _SECRET_TTL_SECONDS else seen.object

    def _stage_failure(self, place: str, refused: Sequence[ApplyRefusal]) -> StepResult | None:
        """What keeps a stage from being done; a new binding takes a moment to count."""
        if not any(one.reason == refusals.DENIED for one in refused):
            self._denied_since.pop(place, None)
        if not refused:
            return None
        now = self._clock.monotonic()
        since = self._denied_since.setdefault(place, now)
        return refusals.stage_failure(refused, is_new=now - since < _RIGHTS_GRACE_SECONDS)

    async def _prune(
        self, work: ApplyRun, owner: Ownership
    ) -> tuple[tuple[InventoryEntry, ...], tuple[str, ...]]:
        """Delete what is stale; the entries to list no longer, and what really went."""
        stale = inventory.stale_entries(work.state.inventory, work.bundle)
        pruned: list[str] = []
        for entry in stale:
            gvr = inventory.entry_gvr(entry)
            live = await work.client.read(gvr, entry.name) if gvr is not None else None
            if gvr is None or live is None or not inventory.may_delete(entry, live, owner.uid):
                continue
            await work.client.remove(gvr, live)
            self._secrets.pop((work.client.namespace, entry.name), None)
            pruned.append(f"{entry.kind}/{entry.name}")
        return stale, tuple(pruned)


def _is_drift(member: Member, live: Object | None, work: ApplyRun) -> bool:
    """Whether somebody changed or deleted what had been as wished."""
    if member.gvr == SECRETS:
        return False
    if live is None:
        return work.was_applied(member)
    found, wished = live["metadata"], member.object["metadata"]
    if (found.get("labels") or {}).get(ownership.TEAM) != wished["labels"][ownership.TEAM]:
        # The administrator may have named another team; the hash does not tell.
        return False
    return _has_applied_hash(live, member)


def _has_applied_hash(live: Object, member: Member) -> bool:
    """Whether a live object is that of this very wish."""
    said = live["metadata"].get("annotations") or {}
    return bool(said.get(APPLIED_HASH) == member.applied_hash)


def _has_labels(live: Object, owner: Ownership) -> bool:
    return owner.labels.items() <= (live["metadata"].get("labels") or {}).items()


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion"))
