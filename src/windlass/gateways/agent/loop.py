"""The agent's loop: read the inputs, decide, run at most one step, report the gateway's status.

    loop (decides)  ->  operations (durable state and scans)  ->  sync (a commit onto the volume)

One turn, from top to bottom:

1. `inputs`: metadata, pod and mounts are read again, so nothing is queued and nothing is replayed:
   the newest input counts (APP-11);
2. the first time, the volume is locked and an interrupted transaction completed;
3. `decisions.next_step` chooses one step, or none;
4. none: the status is published, and drift is checked if that is due;
5. a step that failed with these inputs waits for its delay (`step_retries`);
6. the step runs, then the next turn begins at once.

An input that changes what a running sync is for interrupts it, if its commit point is still ahead.
Faults delay the next try and never end the loop. Everything here runs on the event loop; whatever
blocks is called through `run_in_thread`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import structlog

from windlass.base import memory
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError, error_id
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent import approvals, decisions, inputs, startup_gate, status
from windlass.gateways.agent.approvals import DeleteRequest
from windlass.gateways.agent.decisions import NextStep, StartFacts, StepFacts, SyncVersion
from windlass.gateways.agent.drift_watch import DriftWatch
from windlass.gateways.agent.inputs import (
    AgentIdentity,
    AgentInputs,
    AgentPaths,
    NewestMetadata,
    SyncRequest,
)
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted
from windlass.gateways.agent.operations import GatewayOperations
from windlass.gateways.agent.startup_gate import StartupGate
from windlass.gateways.agent.status import GatewayCondition, StatusFacts, StatusWriter
from windlass.gateways.agent.step_retries import CHECK_SECONDS, StepRetries
from windlass.gateways.tree import plan as plans
from windlass.gateways.tree.deletes import DeletesRefused
from windlass.gateways.wire.metadata import AgentMetadata

_log: Any = structlog.get_logger(__name__)


class AgentLoop:
    """The control loop of the agent of one gateway.

    `run` is the loop; `on_metadata`, `stop` and `watch_pod` wake it; `start_facts` and
    `wait_for_turn` serve the startup gate. There is one step at a time, so no lock is needed.
    """

    def __init__(
        self,
        identity: AgentIdentity,
        paths: AgentPaths,
        operations: GatewayOperations,
        status_writer: StatusWriter,
        gate: StartupGate,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._identity = identity
        self._paths = paths
        self._operations = operations
        self._status_writer = status_writer
        self._gate = gate
        self._rng = rng or random.Random()
        self._retries = StepRetries(clock, self._rng)
        self._drift = DriftWatch(operations, clock)
        # Set when an input changed: the next turn begins without waiting.
        self._wake = asyncio.Event()
        # Set after every turn; the startup gate evaluates its rules again then.
        self._turn_ended = asyncio.Event()
        # Set once by `stop`; no turn begins after it.
        self._stopping = asyncio.Event()
        # Received from the watch, or loaded from the durable state.
        self._metadata = NewestMetadata()
        # The watch has delivered since the start; until then an annotation may be newer.
        self._has_watched_metadata = False
        # Inputs of the current or the last turn; None before the first.
        self._inputs: AgentInputs | None = None
        # Interrupt of the running step; None between two steps.
        self._interrupt: Interrupt | None = None
        # Metadata that the running step is for, as `sync_relevant`; None between two steps.
        self._step_metadata: AgentMetadata | None = None
        # Version of the last dry run; None before one. In memory only: a restart plans again.
        self._planned_version: SyncVersion | None = None
        # What the current turn is doing, for the log.
        self._activity = "start"
        # A step ended in this process, with or without success; a fact for the startup gate.
        self._has_tried = False
        # The last sync repaired drift; shown as reason DriftRemediated.
        self._has_repaired = False
        # Result of the last dry run, as it is published.
        self._dry_run = GatewayCondition("DryRun")
        # The newest plan as JSON, empty before one; the `Plan` is not kept, it may be large.
        self.latest_plan = b""

    # inputs and requests from outside the loop

    def on_metadata(self, keys: dict[str, str] | None) -> None:
        """Take the newest keys of the metadata ConfigMap; None when it does not exist."""
        self._has_watched_metadata = True
        self._update_metadata(keys)

    def _update_metadata(self, keys: dict[str, str] | None) -> None:
        if not self._metadata.update(keys):
            return
        metadata = self._metadata.current
        if metadata is not None:
            self._status_writer.set_target(metadata.status_objects.get(self._identity.pod_name))
        self._wake.set()
        # A change that no sync depends on, such as a new status object, does not disturb the step.
        if self._step_metadata != inputs.sync_relevant(metadata):
            self._interrupt_step()

    def stop(self) -> None:
        """End the loop after the running step; interrupt a step before its commit point."""
        self._stopping.set()
        self._wake.set()
        self._interrupt_step()

    async def watch_pod(self) -> None:
        """Poll the labels and annotations of the pod; wake the loop when they change."""
        pod = await run_in_thread(inputs.read_pod, self._identity, self._paths)
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            current = await run_in_thread(inputs.read_pod, self._identity, self._paths)
            if current != pod:
                pod = current
                self._wake.set()
                self._interrupt_step()

    def _interrupt_step(self) -> None:
        if self._interrupt is not None:
            self._interrupt.set()

    # the loop

    async def run(self) -> None:
        """Run turns until `stop`."""
        # Best effort, so that status and startup gate know the last state before the volume is
        # locked; `_turn` loads it again, with errors, once the volume belongs to this agent.
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
        """Load the durable state; its metadata counts until the watch delivers newer metadata."""
        await self._operations.load_state()
        if self._metadata.keys is None and self._operations.state.metadata:
            self._update_metadata(dict(self._operations.state.metadata))

    async def _safe_turn(self) -> float:
        """Run a turn and record its failure; return the seconds until the next one."""
        try:
            return await self._turn()
        except SyncInterrupted:
            # Newer inputs are the reason: they are read at once, and nothing has failed.
            return 0.0
        except WindlassError as error:
            return self._record_failure(error)
        except Exception as error:
            name = error_id(error)
            _log.exception("unexpected error in the agent loop", error_id=name)
            text = f"unexpected {type(error).__name__}, error id {name}; see the agent's log"
            return self._record_failure(WindlassError("Internal", text))

    async def _turn(self) -> float:
        """Read the inputs and run at most one step; return the seconds until the next turn."""
        self._activity = "start"
        self._inputs = turn_inputs = await run_in_thread(
            inputs.read_inputs, self._metadata.current, self._identity, self._paths
        )
        if not self._operations.is_started:
            await self._operations.start()
            await self._load_state()
        await self._save_metadata(turn_inputs)
        step = decisions.next_step(self._facts(turn_inputs))
        if step.kind in ("rest", "hold"):
            self._operations.count_skipped(step.reason or step.status)
            self._retries.record_success()
            self._publish_status(self._idle_condition(step, turn_inputs))
            if step.reason == "Synced":
                await self._record_question(turn_inputs)
            return await self._check_drift(turn_inputs)
        waiting = self._retries.wait_seconds(turn_inputs.retry_key)
        if waiting and not await self._has_new_credential(turn_inputs):
            return min(waiting, await self._check_drift(turn_inputs))
        await self._run_interruptible(step, turn_inputs)
        return 0.0

    async def _save_metadata(self, turn_inputs: AgentInputs) -> None:
        """Store the metadata, so that a restart works while the API server is unreachable.

        A handled rollback request that the metadata no longer has is forgotten, or the same value
        could never request another one; so is an approval of deletions that was withdrawn.
        """
        metadata = turn_inputs.metadata
        keys, state = self._metadata.keys, self._operations.state
        if keys is not None and keys != state.metadata:
            await self._operations.update_state(metadata=keys)
        if metadata is not None and decisions.is_rollback_withdrawn(metadata, state.rollback):
            await self._operations.update_state(rollback="")
        if metadata is not None and metadata.source is not None:
            approval = approvals.approval_in_force(
                state.approval,
                turn_inputs.approved_commits,
                metadata.source.commit,
                metadata.routing_hash,
            )
            if approval != state.approval:
                await self._operations.update_state(approval=approval)

    async def _has_new_credential(self, turn_inputs: AgentInputs) -> bool:
        """Whether the step failed for its API token and the token file was replaced since."""
        failure = self._retries.failure
        if failure is None or not failure.is_for_credential:
            return False
        return await self._operations.scanner(turn_inputs.access).has_new_token()

    async def _run_interruptible(self, step: NextStep, turn_inputs: AgentInputs) -> None:
        """Run a step that newer metadata, a changed pod or `stop` may interrupt."""
        self._activity = step.kind
        interrupt = self._interrupt = Interrupt()
        self._step_metadata = inputs.sync_relevant(turn_inputs.metadata)
        try:
            # What arrived while the inputs were read found no interrupt to set.
            newest = inputs.sync_relevant(self._metadata.current)
            if self._stopping.is_set() or self._step_metadata != newest:
                raise SyncInterrupted
            await self._run_step(step, turn_inputs, interrupt)
        except SyncInterrupted:
            # Not a try: the startup gate waits for the step that follows.
            raise
        except BaseException:
            self._has_tried = True
            raise
        finally:
            self._interrupt = self._step_metadata = None
        self._has_tried = True
        self._retries.record_success()
        # A step may have used much memory; an idle agent returns it to the system.
        await asyncio.to_thread(memory.trim)

    async def _run_step(
        self, step: NextStep, turn_inputs: AgentInputs, interrupt: Interrupt
    ) -> None:
        metadata = turn_inputs.metadata
        assert metadata is not None
        if step.kind == "rollback":
            if await self._operations.rollback(metadata.overrides.rollback, metadata.trigger):
                self._drift.mark_synced()
        elif step.kind == "plan":
            await self._plan(turn_inputs, metadata, interrupt)
        elif step.kind == "sync":
            await self._sync(turn_inputs, metadata, interrupt)
        else:
            self._publish_progress("Scanning", turn_inputs)
            booting = not self._gate.is_open
            scanning = self._operations.scan(metadata.access, metadata.policy, is_booting=booting)
            await interrupt.run(scanning)

    async def _plan(
        self, turn_inputs: AgentInputs, metadata: AgentMetadata, interrupt: Interrupt
    ) -> None:
        """Run a dry run (APP-12): plan, publish what a sync would do, change nothing."""
        request = await self._build_request(turn_inputs, metadata)
        planned = await self._operations.plan(request, interrupt)
        self._dry_run = status.dry_run_condition(planned)
        self.latest_plan = plans.to_json(planned.plan)
        self._planned_version = SyncVersion(request.commit, request.profile_hash)
        await self._operations.update_state(trigger=metadata.trigger)

    async def _sync(
        self, turn_inputs: AgentInputs, metadata: AgentMetadata, interrupt: Interrupt
    ) -> None:
        """Bring the desired commit onto the volume."""
        # Gateways of one CR learn of a commit at the same moment; jitter spreads their fetches.
        await interrupt.sleep(self._rng.uniform(0.0, metadata.jitter_ms / 1000.0))
        self._publish_progress("Planning", turn_inputs)
        request = await self._build_request(turn_inputs, metadata)
        cause = decisions.sync_cause(
            self._facts(turn_inputs),
            ref=self._operations.state.ref,
            is_starting=not self._gate.is_open,
        )
        try:
            result = await self._operations.sync(
                request, interrupt, trigger=metadata.trigger, cause=cause
            )
        except DeletesRefused:
            # The refusal is published next, and it is a question.
            await self._record_question(turn_inputs)
            raise
        self.latest_plan = plans.to_json(result.planned.plan)
        self._has_repaired = self._drift.repair_needed
        self._drift.mark_synced()

    async def _record_question(self, turn_inputs: AgentInputs) -> None:
        """Record that a person is asked about deletions, unless the answer is older than that."""
        newest = inputs.sync_relevant(self._metadata.current)
        if self._has_watched_metadata and newest == inputs.sync_relevant(turn_inputs.metadata):
            await self._operations.publish_delete_request()

    async def _build_request(
        self, turn_inputs: AgentInputs, metadata: AgentMetadata
    ) -> SyncRequest:
        self._operations.set_fetch_timeout(metadata.policy.fetch_seconds)
        state = self._operations.state
        allowed = approvals.allowance(state.approval, state.delete_request)
        return await run_in_thread(
            inputs.build_request, turn_inputs, self._identity, self._paths, allowed
        )

    async def _check_drift(self, turn_inputs: AgentInputs) -> float:
        """Check for drift if that is due; return the seconds until the next turn."""
        self._activity = "drift check"
        seconds = await self._drift.run_due_checks(
            turn_inputs, is_gateway_started=self._gate.is_open
        )
        if self._retries.failure is not None:
            seconds = min(seconds, CHECK_SECONDS)
        return min(seconds, turn_inputs.period_seconds)

    # facts and status

    def _facts(self, turn_inputs: AgentInputs) -> StepFacts:
        state, applied = self._operations.state, self._operations.applied_tree
        request = self._delete_request(turn_inputs)
        return StepFacts(
            metadata=turn_inputs.metadata,
            gateway=turn_inputs.gateway,
            profile_hash=turn_inputs.profile_hash,
            profile_paused=turn_inputs.is_profile_paused,
            dry_run=turn_inputs.is_dry_run,
            on_disk=applied.version if applied is not None else None,
            scan_pending=not self._operations.is_scanned,
            trigger=state.trigger,
            rollback=state.rollback,
            rolled_back_version=state.rolled_back,
            planned_version=self._planned_version,
            repair_needed=self._drift.repair_needed,
            deletes_allowed=approvals.is_granted(state.approval, request),
            request_missing=applied is not None and applied.adopted > 0 and request is None,
        )

    def _delete_request(self, turn_inputs: AgentInputs) -> DeleteRequest | None:
        """The delete request for the desired commit and routing; None if there is none."""
        metadata, request = turn_inputs.metadata, self._operations.state.delete_request
        if metadata is None or metadata.source is None or request is None:
            return None
        is_current = request.is_for(metadata.source.commit, metadata.routing_hash)
        return request if is_current else None

    def _idle_condition(self, step: NextStep, turn_inputs: AgentInputs) -> GatewayCondition:
        """The condition to publish when there is nothing to do."""
        if step.status == "DryRun":
            return self._dry_run
        is_repaired = step.reason == "Synced" and self._has_repaired
        reason = "DriftRemediated" if is_repaired else step.reason
        message = self._warning_text(turn_inputs) if step.reason == "Synced" else step.message
        return GatewayCondition(step.status, reason, message)

    def _warning_text(self, turn_inputs: AgentInputs) -> str:
        """The question about files that are kept, then the warnings about the tree on the disk."""
        applied, approval = self._operations.applied_tree, self._operations.state.approval
        question = approvals.message(approval, self._delete_request(turn_inputs))
        warnings, count = (applied.warnings, applied.warning_count) if applied else ((), 0)
        if question:
            warnings, count = (question, *warnings), count + 1
        return status.warning_text(warnings, count)

    def _record_failure(self, error: WindlassError) -> float:
        """Publish a failed turn; return the seconds until the next one."""
        key = self._inputs.retry_key if self._inputs is not None else ()
        has_data = self._operations.applied_tree is not None
        condition, seconds = self._retries.record_failure(
            self._activity, key, error, has_data=has_data
        )
        self._publish_status(condition)
        return seconds

    def _publish_progress(self, reason: str, turn_inputs: AgentInputs) -> None:
        """Publish what a step does; a retry leaves its failure published until it has ended."""
        if not self._retries.is_retry(turn_inputs.retry_key):
            self._publish_status(GatewayCondition("Syncing", reason))

    def _publish_status(self, condition: GatewayCondition) -> None:
        turn_inputs = self._inputs
        metadata = turn_inputs.metadata if turn_inputs is not None else None
        facts = StatusFacts(
            gateway=turn_inputs.gateway if turn_inputs is not None else self._identity.pod_name,
            state=self._operations.state,
            applied_tree=self._operations.applied_tree,
            drift=self._drift.drift,
            routing_hash=metadata.routing_hash if metadata is not None else "",
            system_name=turn_inputs.system_name if turn_inputs is not None else "",
        )
        self._status_writer.publish(
            status.encode_report(self._identity, condition, facts),
            is_progress=condition.status == "Syncing",
        )

    # for the startup gate

    async def start_facts(self) -> StartFacts:
        """The facts for the startup gate, as of the last turn."""
        turn_inputs = self._inputs
        return await startup_gate.read_start_facts(
            self._operations,
            turn_inputs,
            self._facts(turn_inputs) if turn_inputs is not None else StepFacts(None),
            self._paths.data,
            has_tried=self._has_tried,
            waited_seconds=self._gate.waited_seconds,
        )

    async def wait_for_turn(self, seconds: float) -> None:
        """Wait until a turn has ended, at most `seconds`."""
        self._turn_ended.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._turn_ended.wait()
