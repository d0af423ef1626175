"""The agent's loop: read the inputs, decide, run at most one step, report the gateway's status.

    loop (decides)  ->  operations (durable state and scans)  ->  sync (a commit onto the volume)

Metadata, pod and disk are read again in every turn, so nothing is queued and nothing is replayed:
the newest input counts (APP-11). An input that changes what a running sync is for ends it, if its
commit point is still ahead. Faults delay the next try and never end the loop. Which step follows
from what is in `decisions`. A failed step is not retried until its time has come or something
changed that it may depend on (`StepRetries`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import Any

import structlog

from windlass.base import memory
from windlass.base.clock import Backoff, Clock
from windlass.base.errors import WindlassError, error_id
from windlass.base.redaction import process as redactor
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent import decisions, failure_reasons, inputs, startup_gate, status
from windlass.gateways.agent.decisions import (
    NextStep,
    StartFacts,
    StepFacts,
    SyncVersion,
    VolumeContents,
)
from windlass.gateways.agent.drift_watch import DriftWatch
from windlass.gateways.agent.gateway_answers import GatewayState
from windlass.gateways.agent.inputs import AgentIdentity, AgentInputs, AgentPaths
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.agent.startup_gate import StartupGate
from windlass.gateways.agent.status import GatewayCondition, StatusFacts, StatusWriter
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.plan import Plan
from windlass.gateways.wire import metadata as metadatas
from windlass.gateways.wire.metadata import AgentMetadata, GatewayEndpoint, InvalidMetadata

FIRST_RETRY_SECONDS = 5.0
MAX_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class StepFailure:
    """What did not work, for which view, and until when it is left alone."""

    key: tuple[object, ...]
    until: float
    condition: GatewayCondition


class StepRetries:
    """The last failure, if there is one."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._backoff = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, rng)
        self.failure: StepFailure | None = None

    def record_failure(
        self, key: tuple[object, ...], condition: GatewayCondition, after: float | None
    ) -> float:
        """Note a failure; how long it is left alone."""
        if self.failure is not None and self.failure.key != key:
            self._backoff.healthy()
        seconds = after if after is not None else self._backoff.next_seconds()
        self.failure = StepFailure(key, self._clock.monotonic() + seconds, condition)
        return seconds

    def record_success(self) -> None:
        self._backoff.healthy()
        self.failure = None

    def wait_seconds(self, key: tuple[object, ...]) -> float:
        """How long a try for `key` has to wait."""
        if self.failure is None or self.failure.key != key:
            return 0.0
        return max(0.0, self.failure.until - self._clock.monotonic())

    def retry_now(self) -> None:
        """Let the next try come at once."""
        if self.failure is not None:
            self.failure = StepFailure(self.failure.key, 0.0, self.failure.condition)


_CHECK_SECONDS = 5.0
_CREDENTIAL_REASONS = frozenset(("ScanUnauthorized", "WaitingForCredential"))

_log: Any = structlog.get_logger(__name__)


class AgentLoop:
    """One gateway's agent."""

    def __init__(
        self,
        identity: AgentIdentity,
        places: AgentPaths,
        work: GatewayOperations,
        reporter: StatusWriter,
        gate: StartupGate,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._identity = identity
        self._paths = places
        self._operations = work
        self._status_writer = reporter
        self._gate = gate
        self._rng = rng or random.Random()
        self._retries = StepRetries(clock, self._rng)
        self._drift = DriftWatch(work, clock)
        self._wake = asyncio.Event()
        self._turn_ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self._keys: dict[str, str] | None = None
        self._metadata: AgentMetadata | None = None
        self._is_metadata_missing = False
        self._inputs: AgentInputs | None = None
        self._interrupt: Interrupt | None = None
        self._step_metadata: AgentMetadata | None = None
        self._planned_version: SyncVersion | None = None
        self._has_tried = False
        self._has_repaired = False
        self._dry_run = GatewayCondition("DryRun")
        self.latest_plan = b""
        """The newest plan as JSON; the rest of it is not kept, it may be large."""

    # what others tell

    def on_metadata(self, keys: dict[str, str] | None) -> None:
        """The newest word of the controller; None when its ConfigMap is not there."""
        if keys is None:
            if not self._is_metadata_missing:
                _log.info("no metadata; the gateway stays as it is")
            self._is_metadata_missing = True
        else:
            try:
                self._metadata = metadatas.decode(keys)
            except InvalidMetadata as error:
                _log.warning("metadata is not understood", error=redactor.clean(str(error)))
                return
            self._keys, self._is_metadata_missing = keys, False
            self._status_writer.set_target(
                self._metadata.status_objects.get(self._identity.pod_name)
            )
        self._wake.set()
        if self._step_metadata != inputs.sync_relevant(self._current_metadata()):
            self._interrupt_step()

    def stop(self) -> None:
        """Take no more work; end what is before its commit point."""
        self._stopping.set()
        self._wake.set()
        self._interrupt_step()

    async def watch_pod(self) -> None:
        """Notice changed labels and annotations."""
        seen = await run_in_thread(inputs.read_pod, self._identity, self._paths)
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            found = await run_in_thread(inputs.read_pod, self._identity, self._paths)
            if found != seen:
                seen = found
                self._wake.set()
                self._interrupt_step()

    def _interrupt_step(self) -> None:
        if self._interrupt is not None:
            self._interrupt.set()

    def _current_metadata(self) -> AgentMetadata | None:
        return None if self._is_metadata_missing else self._metadata

    # the loop

    async def run(self) -> None:
        """Until `stop`."""
        with contextlib.suppress(WindlassError):
            await self._load_state()
        while not self._stopping.is_set():
            self._wake.clear()
            seconds = await self._safe_turn()
            self._turn_ended.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()

    async def _load_state(self) -> None:
        """Know what was told last time, until somebody tells something newer."""
        await self._operations.load_state()
        if self._keys is None and self._operations.state.metadata:
            self.on_metadata(dict(self._operations.state.metadata))

    async def _safe_turn(self) -> float:
        try:
            return await self._turn()
        except SyncInterrupted:
            return 0.0
        except WindlassError as error:
            return self._record_failure(error)
        except Exception as error:
            name = error_id(error)
            _log.exception("turn broke", error_id=name)
            text = f"unexpected {type(error).__name__}, error id {name}; see the agent's log"
            return self._record_failure(WindlassError("Internal", text))

    async def _turn(self) -> float:
        """One look and at most one step; how long until the next turn."""
        self._inputs = view = await run_in_thread(
            inputs.read_inputs, self._current_metadata(), self._identity, self._paths
        )
        if not self._operations.is_started:
            await self._operations.start()
            await self._load_state()
        await self._save_metadata()
        step = decisions.next_step(self._facts(view))
        if step.kind in ("rest", "hold"):
            self._operations.count_skipped(step.reason or step.status)
            self._retries.record_success()
            self._publish_status(self._idle_condition(step))
            return await self._check_drift(view)
        waiting = self._retries.wait_seconds(view.retry_key)
        if waiting and not await self._has_new_credential(view):
            return min(waiting, await self._check_drift(view))
        await self._run_interruptible(step, view)
        return 0.0

    async def _save_metadata(self) -> None:
        if self._keys is not None and self._keys != self._operations.state.metadata:
            await self._operations.update_state(metadata=self._keys)

    async def _has_new_credential(self, view: AgentInputs) -> bool:
        failure = self._retries.failure
        if failure is None or failure.condition.reason not in _CREDENTIAL_REASONS:
            return False
        return await self._operations.scanner(_gateway_access(view)).has_new_token()

    async def _run_interruptible(self, step: NextStep, view: AgentInputs) -> None:
        interrupt = self._interrupt = Interrupt()
        self._step_metadata = inputs.sync_relevant(view.metadata)
        try:
            if self._stopping.is_set() or self._step_metadata != inputs.sync_relevant(
                self._current_metadata()
            ):
                raise SyncInterrupted
            await self._run_step(step, view, interrupt)
        except SyncInterrupted:
            raise
        except BaseException:
            self._has_tried = True
            raise
        finally:
            self._interrupt = self._step_metadata = None
        self._has_tried = True
        self._retries.record_success()
        await asyncio.to_thread(memory.trim)

    async def _run_step(self, step: NextStep, view: AgentInputs, interrupt: Interrupt) -> None:
        metadata = view.metadata
        assert metadata is not None
        if step.kind == "sync":
            await self._sync(view, metadata, interrupt)
        elif step.kind == "scan":
            self._publish_status(GatewayCondition("Syncing", "Scanning"))
            booting = not self._gate.is_open
            scanning = self._operations.scan(metadata.access, metadata.policy, is_booting=booting)
            await interrupt.run(scanning)
        elif step.kind == "plan":
            await self._plan(view, metadata, interrupt)
        else:
            if await self._operations.rollback(metadata.overrides.rollback, metadata.trigger):
                self._drift.mark_synced()

    async def _sync(self, view: AgentInputs, metadata: AgentMetadata, interrupt: Interrupt) -> None:
        await interrupt.sleep(self._rng.uniform(0.0, metadata.jitter_ms / 1000.0))
        self._publish_status(GatewayCondition("Syncing", "Planning"))
        self._operations.set_fetch_timeout(metadata.policy.fetch_seconds)
        order = await run_in_thread(inputs.build_request, view, self._identity, self._paths)
        occasion = decisions.sync_cause(
            self._facts(view), ref=self._operations.state.ref, is_starting=not self._gate.is_open
        )
        done = await self._operations.sync(
            order, interrupt, trigger=metadata.trigger, occasion=occasion
        )
        self.latest_plan = plans.to_json(done.planned.plan)
        self._has_repaired = self._drift.repair_needed
        self._drift.mark_synced()

    async def _plan(self, view: AgentInputs, metadata: AgentMetadata, interrupt: Interrupt) -> None:
        """A dry run (APP-12): look, say what would happen, change nothing."""
        self._operations.set_fetch_timeout(metadata.policy.fetch_seconds)
        order = await run_in_thread(inputs.build_request, view, self._identity, self._paths)
        planned = await self._operations.plan(order, interrupt)
        self._dry_run, self.latest_plan = (
            _dry_run_condition(planned.plan),
            plans.to_json(planned.plan),
        )
        self._planned_version = SyncVersion(order.commit, order.profile_hash)
        await self._operations.update_state(trigger=metadata.trigger)

    # beside the steps

    async def _check_drift(self, view: AgentInputs) -> float:
        """Drift and first boot, where it is time; how long until it is again."""
        metadata = view.metadata
        waits = [view.period_seconds]
        if self._retries.failure is not None:
            waits.append(_CHECK_SECONDS)
        if metadata is None or view.selection is None or self._is_paused(view):
            return min(waits)
        if self._operations.state.boots:
            waits.append(_CHECK_SECONDS)
            await self._check_after_boot(view, metadata)
        due = self._drift.due_seconds(metadata.policy)
        if due == 0.0:
            await self._drift.check(metadata.policy, view.excludes)
            due = 0.0 if self._drift.repair_needed else self._drift.due_seconds(metadata.policy)
            self._wake.set()
        return min([*waits, *([due] if due is not None else [])])

    async def _check_after_boot(self, view: AgentInputs, metadata: AgentMetadata) -> None:
        if not self._gate.is_open:
            return
        state = await self._operations.scanner(metadata.access).state()
        if state is GatewayState.RUNNING:
            await self._drift.check_after_boot(view.excludes)
            await self._operations.update_state(boots=False)
            self._wake.set()

    # what is said

    def _facts(self, view: AgentInputs) -> StepFacts:
        known, holding = self._operations.state, self._operations.applied_tree
        chosen, back = view.selection, known.rolled_back
        return StepFacts(
            metadata=view.metadata,
            gateway=view.gateway,
            profile_hash=view.profile_hash,
            profile_paused=chosen is not None and chosen.paused,
            dry_run=chosen is not None and chosen.dry_run,
            on_disk=holding.version if holding is not None else None,
            scan_pending=not self._operations.is_scanned,
            trigger=known.trigger,
            rollback=known.rollback,
            rolled_back_version=SyncVersion(back.commit, back.profile_hash)
            if back is not None
            else None,
            planned_version=self._planned_version,
            repair_needed=self._drift.repair_needed,
            deletes_allowed=self._may_delete(view),
        )

    def _may_delete(self, view: AgentInputs) -> bool:
        """Whether a person has allowed to delete files that the last sync kept."""
        metadata, held = view.metadata, self._operations.applied_tree
        if metadata is None or metadata.source is None or held is None or not held.adopted:
            return False
        allowed = inputs.delete_safety(metadata, view.pod, "").allowed
        # Excluded files stay even then: once for each commit is enough.
        return allowed is not None and allowed.commit != self._operations.state.allowed

    def _is_paused(self, view: AgentInputs) -> bool:
        metadata, chosen = view.metadata, view.selection
        by_profile = chosen is not None and chosen.paused
        return metadata is not None and (metadata.paused or metadata.terminating or by_profile)

    def _idle_condition(self, step: NextStep) -> GatewayCondition:
        if step.status == "DryRun":
            return self._dry_run
        is_repaired = step.reason == "Synced" and self._has_repaired
        reason = "DriftRemediated" if is_repaired else step.reason
        message = self._operations.state.kept_back if step.reason == "Synced" else step.message
        return GatewayCondition(step.status, reason, message)

    def _record_failure(self, error: WindlassError) -> float:
        has_data = self._operations.applied_tree is not None
        found = failure_reasons.failure_reason(error, has_data=has_data)
        condition = GatewayCondition(
            found.status, found.reason, found.message, degraded=found.is_source_failure and has_data
        )
        key = self._inputs.retry_key if self._inputs is not None else ()
        before = self._retries.failure
        seconds = self._retries.record_failure(key, condition, found.retry_seconds)
        if before is None or before.condition != condition:
            _log.warning(
                "step failed", reason=found.reason, error=found.message, again_seconds=seconds
            )
        self._publish_status(condition)
        return min(seconds, _CHECK_SECONDS) if found.reason in _CREDENTIAL_REASONS else seconds

    def _publish_status(self, condition: GatewayCondition) -> None:
        view = self._inputs
        metadata = view.metadata if view is not None else None
        known = StatusFacts(
            gateway=view.gateway if view is not None else self._identity.pod_name,
            state=self._operations.state,
            applied_tree=self._operations.applied_tree,
            drift=self._drift.drift,
            routing_hash=metadata.routing_hash if metadata is not None else "",
            system_name=view.system_name if view is not None else "",
        )
        self._status_writer.publish(
            status.encode_report(self._identity, condition, known),
            is_progress=condition.status == "Syncing",
        )

    # the start of the gateway

    async def start_facts(self) -> StartFacts:
        """What the startup gate looks at."""
        view, work = self._inputs, self._operations
        metadata = view.metadata if view is not None else None
        access = metadata.access if metadata is not None else GatewayEndpoint()
        state = await work.scanner(access).state()
        facts = self._facts(view) if view is not None else StepFacts(None)
        goal = decisions.desired_version(facts)
        return StartFacts(
            gateway_answers=state is not GatewayState.DOWN,
            is_volume_ready=work.is_tree_consistent,
            volume_contents=await self._volume_contents(),
            at_target=goal is not None and facts.on_disk == goal and not facts.scan_pending,
            has_tried_sync=self._has_tried,
            is_paused=view is not None and self._is_paused(view),
            starts_anyway=metadata is not None and metadata.policy.initial_sync == "StartAnyway",
            waited_seconds=self._gate.waited_seconds,
        )

    async def wait_for_turn(self, seconds: float) -> None:
        """Wait until a turn has ended, at most so long."""
        self._turn_ended.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._turn_ended.wait()

    async def _volume_contents(self) -> VolumeContents:
        if self._operations.applied_tree is not None:
            return "tree"
        return "files" if await startup_gate.has_gateway_files(self._paths.data) else "nothing"


def _gateway_access(view: AgentInputs) -> GatewayEndpoint:
    return view.metadata.access if view.metadata is not None else GatewayEndpoint()


def _dry_run_condition(plan: Plan) -> GatewayCondition:
    """What a dry run came to, in one sentence."""
    counts = plan.counts()
    paths = [op.path for op in plan.ops if op.op in ("put", "delete")]
    shown = ", ".join(paths[:20])
    text = f"would put {counts.get('put', 0)} and delete {counts.get('delete', 0)} files: {shown}"
    guards = "; ".join(guard.message for guard in plan.guards)
    text = f"{guards}; {text}" if guards else text
    return GatewayCondition("DryRun", "", text, plan_digest=plan.digest)
