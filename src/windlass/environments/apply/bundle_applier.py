"""Applies a bundle stage by stage, as an account that may only write bundles.

    add to the inventory ─▶ preDeploy hooks ─▶ what workloads need ─▶ workloads and autoscalers
                                                                               │
    postDeploy hooks ◀─ once ready ◀─ remove from the inventory ◀─ delete stale ◀─┘

A refused object ends the run after its stage, and then nothing is deleted. Hooks run one after
the other and later stages wait for them, so a hook that fails leaves everything of the previous
revision as it was. A hook that completes is recorded before anything else happens, and does not
run again in its revision. An object that is as desired is not written, so a converged reconcile
writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from windlass.api.install.environment_objects import INVENTORY_NAME
from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments import inventory, owned_objects, ownership, phase, step
from windlass.environments.apply import apply_progress, autoscaling, refusals
from windlass.environments.apply.apply_progress import (
    ApplyMemory,
    ApplyResult,
    ApplyRun,
    MemberResult,
    StageResult,
    WrittenSecret,
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
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError
from windlass.objects.names import Object
from windlass.objects.resources import CONFIG_MAPS, SECRETS
from windlass.runtime.owned import OwnedObjects

_MAX_WRITES = 8
"""Objects of one stage that are written at the same time."""

_SECRET_TTL_SECONDS = 600.0
"""How long a Secret is assumed to be as we wrote it; then it is applied again."""

_RIGHTS_GRACE_SECONDS = 10.0
"""How long a 403 may be the RoleBinding that has not taken effect yet."""


class _PruneError(Exception):
    """A stale object could not be deleted; the message names it."""


class BundleApplier:
    """Applies the bundles of all Environments, and keeps their release states."""

    def __init__(
        self,
        connection: Connection,
        cache: OwnedCache,
        owned: OwnedObjects,
        hook_runs: HookRuns,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._cache = cache
        self._owned = owned
        self._hook_runs = hook_runs
        self._clock = clock

    def release_state(self, namespace: str) -> ReleaseState:
        """The release state that is stored in `namespace`; empty before the first revision."""
        return inventory.decode_state(self._cache.get(CONFIG_MAPS, namespace, INVENTORY_NAME))

    async def apply(
        self,
        namespace: str,
        owner: Ownership,
        bundle: Bundle,
        memory: ApplyMemory,
        *,
        is_retried: bool = False,
        at_least: int = 0,
        was_serving: bool = False,
    ) -> ApplyResult:
        """Apply `bundle` to `namespace` and delete what it no longer contains.

        Its result is None if everything is applied. `is_retried` lets failed hooks run once more.
        `at_least` is the revision in the status: the namespace, and the state in it, may have been
        recreated since. `was_serving` says that the status names a serving revision.
        """
        previous = inventory.recover_state(
            self.release_state(namespace), self._cache.bundle_objects(namespace), owner.uid
        )
        state = inventory.begin_revision(
            previous, bundle, self._clock.now(), at_least=at_least, was_serving=was_serving
        )
        await self._write_state(namespace, owner, state)
        run = self._make_run(
            namespace, owner, bundle, previous, state, memory, is_retried=is_retried
        )
        stages = await self._apply_stages(run)
        applied = self._result(memory, stages)
        if applied.result is not None:
            return replace(applied, step=apply_progress.stopped_step(stages))
        try:
            gone, pruned = await self._prune(run, owner)
        except _PruneError as error:
            failure = step.retrying(phase.DEPLOYMENT, "PruneFailed", str(error))
            return replace(applied, result=failure)
        live_objects = [result.live for result in stages.results if result.live is not None]
        await self._write_state(
            namespace, owner, inventory.record_applied(stages.state, live_objects, gone)
        )
        return replace(applied, pruned=pruned)

    async def run_post_deploy_hooks(
        self,
        namespace: str,
        owner: Ownership,
        bundle: Bundle,
        memory: ApplyMemory,
        *,
        is_retried: bool = False,
    ) -> ApplyResult:
        """Run the hooks that come after the rollout; the result is None once all are complete."""
        state = self.release_state(namespace)
        run = self._make_run(namespace, owner, bundle, state, state, memory, is_retried=is_retried)
        applied = self._result(memory, await self._run_hooks(run, "postDeploy"))
        return replace(applied, step="postDeploy")

    async def restart_revision(self, namespace: str, owner: Ownership, memory: ApplyMemory) -> None:
        """Give the desired revision its full deadline again."""
        memory.denied_since = None
        await self._write_state(
            namespace,
            owner,
            inventory.restart_revision(self.release_state(namespace), self._clock.now()),
        )

    async def record_rollout(
        self,
        namespace: str,
        owner: Ownership,
        finished: Mapping[ObjectIdentity, str],
        *,
        is_ready: bool,
    ) -> ReleaseState:
        """Store completed Jobs and the first readiness; the new state."""
        now = self._clock.now()
        state = inventory.record_rollout(
            self.release_state(namespace), finished, is_ready=is_ready, now=now
        )
        await self._write_state(namespace, owner, state)
        return state

    async def _write_state(self, namespace: str, owner: Ownership, state: ReleaseState) -> None:
        """Write the ConfigMap with the release state, unless it has that state already."""
        live = self._cache.get(CONFIG_MAPS, namespace, INVENTORY_NAME)
        if live is not None and inventory.decode_state(live) == state and _has_labels(live, owner):
            return
        obj = owned_objects.config_map(
            namespace, owner, INVENTORY_NAME, inventory.encode_state(state)
        )
        failpoint.reach("environments.ledger.before")
        ensure = self._owned.ensure(CONFIG_MAPS, obj, live)
        await self._cache.await_write(CONFIG_MAPS, namespace, INVENTORY_NAME, ensure)
        failpoint.reach("environments.ledger.after")

    def _make_run(
        self,
        namespace: str,
        owner: Ownership,
        bundle: Bundle,
        previous: ReleaseState,
        state: ReleaseState,
        memory: ApplyMemory,
        *,
        is_retried: bool,
    ) -> ApplyRun:
        memory.client = memory.client or NamespaceClient(self._connection, namespace)
        return ApplyRun(
            memory.client,
            owner,
            bundle,
            state.revision.digest,
            previous,
            state,
            autoscaling.autoscaled_workloads(bundle),
            is_retried,
            memory,
        )

    def _result(self, memory: ApplyMemory, stages: StageResult) -> ApplyResult:
        """The result of the run for its stages; refusals come before a hook that blocks."""
        refused = [
            result.refusal for result in stages.refused_members if result.refusal is not None
        ]
        return ApplyResult(
            self._stage_failure(memory, refused) or stages.blocked_by,
            tuple(result.member.kind for result in stages.results if result.is_written),
            tuple(
                Correction(result.member.kind, result.member.name)
                for result in stages.results
                if result.is_drift
            ),
        )

    async def _apply_stages(self, run: ApplyRun) -> StageResult:
        """The preDeploy hooks, then all members, as far as nothing blocks or is refused."""
        hook_stage = await self._run_hooks(run, "preDeploy")
        if hook_stage.ends_run:
            return hook_stage
        member_stages = await self._apply_members(run, run.bundle.members)
        return StageResult(hook_stage.state, (*hook_stage.results, *member_stages.results))

    async def _apply_members(self, run: ApplyRun, members: Iterable[Member]) -> StageResult:
        """Apply members stage by stage, up to the first stage with a refusal."""
        results: list[MemberResult] = []
        for _, stage in groupby(members, key=lambda member: member.stage):
            due = [
                member for member in stage if not inventory.is_finished(run.state.inventory, member)
            ]
            stage_results = await self._apply_stage(run, due)
            results += stage_results
            if any(result.refusal is not None for result in stage_results):
                break
        return StageResult(run.state, tuple(results))

    async def _run_hooks(self, run: ApplyRun, when: HookPhase) -> StageResult:
        """Run the hooks of one phase in order, up to the first that is not complete."""
        state, namespace = run.state, run.client.namespace
        results: list[MemberResult] = []
        for hook in run.bundle.hooks_at(when, is_upgrade=state.revision.is_upgrade):
            if inventory.is_finished(state.inventory, hook):
                continue
            result = await self._run_hook(run, hook)
            results.append(result)
            if result.live is None:
                break
            blocking = self._blocking_result(run, hook, result.live)
            if blocking is not None:
                return StageResult(state, tuple(results), blocking)
            finished = {(hook.gvr.group, hook.kind, hook.name): hook.applied_hash}
            state = inventory.record_hook_end(state, result.live, finished)
            if hooks.runs_to_completion(hook.object):
                if when == "preDeploy":
                    # The time that hooks take does not count against the rollout deadline.
                    state = inventory.restart_revision(state, self._clock.now())
                await self._write_state(namespace, run.owner, state)
        # Hooks that do not run to completion may be applied again, so one write records them all.
        await self._write_state(namespace, run.owner, state)
        return StageResult(state, tuple(results))

    async def _run_hook(self, run: ApplyRun, hook: Member) -> MemberResult:
        """Apply one hook; a Job or Pod that ran for an earlier revision is recreated."""
        live = self._live(run, hook)
        if (
            live is not None
            and hooks.runs_to_completion(hook.object)
            and self._is_obsolete(run, hook, live)
        ):
            removal = run.client.remove(hook.gvr, live)
            await self._cache.await_deletion(hook.gvr, run.client.namespace, hook.name, removal)
            remaining = await run.client.read(hook.gvr, hook.name)
            if remaining is not None and remaining["metadata"]["uid"] == live["metadata"]["uid"]:
                # Still terminating: applying now would change the old Pod, which then ends.
                return MemberResult(hook, refusal=refusals.terminating_refusal(hook, remaining))
        (result,) = await self._apply_stage(run, [hook])
        return result

    def _is_obsolete(self, run: ApplyRun, hook: Member, live: Object) -> bool:
        """Whether a live hook is of an earlier revision, or failed and a retry is requested."""
        if not _has_applied_hash(live, hook) or inventory.ran_for_earlier_revision(
            run.state.inventory, live
        ):
            return True
        blocking = self._blocking_result(run, hook, live) if run.is_retried else None
        return blocking is not None and blocking.failed

    def _blocking_result(self, run: ApplyRun, hook: Member, live: Object) -> StepResult | None:
        return self._hook_runs.blocking_result(
            run.client.namespace, hook, live, trusted=run.bundle.trusted
        )

    async def _apply_stage(self, run: ApplyRun, members: Sequence[Member]) -> list[MemberResult]:
        """Write those members of a stage that are not as desired, some at the same time."""
        semaphore = asyncio.Semaphore(_MAX_WRITES)

        async def apply_bounded(
            member: Member, live: Object | None, desired: Object
        ) -> MemberResult:
            async with semaphore:
                return await self._apply_member(run, member, live, desired)

        unchanged: list[MemberResult] = []
        due = []
        for member in members:
            live = self._live(run, member)
            desired = autoscaling.desired_object(member, live, run.autoscaled, FIELD_MANAGER)
            if live is not None and run.client.owned.is_up_to_date(desired, live):
                unchanged.append(MemberResult(member, live))
            else:
                due.append((member, live, desired))
        return [*unchanged, *await asyncio.gather(*(apply_bounded(*task) for task in due))]

    async def _apply_member(
        self, run: ApplyRun, member: Member, live: Object | None, desired: Object
    ) -> MemberResult:
        """Write one object that is not as desired; refusals become part of the result."""
        try:
            applied = await self._remember_write(
                run, member, run.client.write(member, desired, live)
            )
        except ObjectTerminating as error:
            return MemberResult(member, refusal=refusals.terminating_refusal(member, error.live))
        except ImmutableObject as error:
            return MemberResult(member, refusal=refusals.immutable_refusal(member, error.fields))
        except ApiError as error:
            refusal = refusals.classify_error(member, error, trusted=run.bundle.trusted)
            return MemberResult(member, refusal=refusal)
        # A write without effect does not change the version and does not count.
        is_written = live is None or _version(live) != _version(applied)
        is_drift = is_written and _is_drift(member, live, run)
        # The autoscaler taking over the number of replicas is no drift.
        if is_drift and live is not None and (member.kind, member.name) in run.autoscaled:
            before = autoscaling.with_live_replicas(desired, live)
            is_drift = not run.client.owned.is_up_to_date(before, live)
        return MemberResult(member, applied, is_written=is_written, is_drift=is_drift)

    def _live(self, run: ApplyRun, member: Member) -> Object | None:
        if member.gvr == SECRETS:
            return self._known_secret(run, member.name)
        return self._cache.get(member.gvr, run.client.namespace, member.name)

    async def _remember_write(
        self, run: ApplyRun, member: Member, write: Awaitable[Object]
    ) -> Object:
        if member.gvr != SECRETS:
            return await self._cache.await_write(
                member.gvr, run.client.namespace, member.name, write
            )
        applied = await write
        run.memory.secrets[member.name] = WrittenSecret(
            applied, self._clock.monotonic(), run.digest
        )
        return applied

    def _known_secret(self, run: ApplyRun, name: str) -> Object | None:
        """Our last write of a Secret, while it is fresh and of this revision; else None."""
        written = run.memory.secrets.get(name)
        if written is None or written.digest != run.digest:
            return None
        return (
            None if self._clock.monotonic() - written.at > _SECRET_TTL_SECONDS else written.object
        )

    def _stage_failure(
        self, memory: ApplyMemory, refused: Sequence[ApplyRefusal]
    ) -> StepResult | None:
        """The refusals of a stage as one result; None without any."""
        if not any(refusal.reason == refusals.DENIED for refusal in refused):
            memory.denied_since = None
        if not refused:
            return None
        now = self._clock.monotonic()
        since = memory.denied_since = memory.denied_since or now
        return refusals.stage_failure(refused, is_new=now - since < _RIGHTS_GRACE_SECONDS)

    async def _prune(
        self, run: ApplyRun, owner: Ownership
    ) -> tuple[tuple[InventoryEntry, ...], tuple[str, ...]]:
        """Delete stale objects; the entries to drop, and the names of what was deleted.

        Entries whose object is gone or not ours are dropped as well.
        """
        stale = inventory.stale_entries(run.state.inventory, run.bundle)
        pruned: list[str] = []
        for entry in stale:
            name = f"{entry.kind}/{entry.name}"
            try:
                if await self._prune_entry(run, owner, entry):
                    pruned.append(name)
            except ApiError as error:
                text = f"{name} is no longer in the source and cannot be deleted: {error.reason}"
                raise _PruneError(text) from error
        return stale, tuple(pruned)

    async def _prune_entry(self, run: ApplyRun, owner: Ownership, entry: InventoryEntry) -> bool:
        """Delete the object of a stale entry; whether there was one of ours."""
        gvr = inventory.entry_gvr(entry)
        live = await run.client.read(gvr, entry.name) if gvr is not None else None
        if gvr is None or live is None or not inventory.may_delete(entry, live, owner.uid):
            return False
        await run.client.remove(gvr, live)
        run.memory.secrets.pop(entry.name, None)
        return True


def _is_drift(member: Member, live: Object | None, run: ApplyRun) -> bool:
    """Whether an object that had been as desired was changed or deleted by others."""
    # Secrets are not watched: written again after their TTL, which is no drift.
    if member.gvr == SECRETS:
        return False
    if live is None:
        return run.was_applied(member)
    live_metadata, desired_metadata = live["metadata"], member.object["metadata"]
    if (live_metadata.get("labels") or {}).get(ownership.TEAM) != desired_metadata["labels"][
        ownership.TEAM
    ]:
        # The administrator may have changed the team, which the hash does not cover.
        return False
    return _has_applied_hash(live, member)


def _has_applied_hash(live: Object, member: Member) -> bool:
    """Whether a live object was applied from exactly this content."""
    annotations = live["metadata"].get("annotations") or {}
    return bool(annotations.get(APPLIED_HASH) == member.applied_hash)


def _has_labels(live: Object, owner: Ownership) -> bool:
    return owner.labels.items() <= (live["metadata"].get("labels") or {}).items()


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion"))
