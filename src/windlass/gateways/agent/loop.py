"""The agent's loop: read the inputs, decide, run at most one step, report the gateway's status.

    loop (decides)  ->  operations (durable state and scans)  ->  sync (a commit onto the volume)

Metadata, pod and disk are read again in every turn, so nothing is queued and nothing is replayed:
the newest input counts (APP-11). An input that changes what a running sync is for ends it, if its
commit point is still ahead. Faults delay the next try and never end the loop. The rules for the
next step are in `decisions`. A failed step is retried after its delay, or at once when an input
changes that it may depend on (`StepRetries`).

Reading order: `run` -> `_turn` -> `decisions.next_step` -> `_run_step`. Everything here runs on the
event loop; whatever blocks is called through `run_in_thread`.
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
from windlass.objects.names import format_count

FIRST_RETRY_SECONDS = 5.0
MAX_RETRY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class StepFailure:
    """The last failed step: its inputs, its retry time, and the condition that was published."""

    # `AgentInputs.retry_key` of the failed turn.
    key: tuple[object, ...]
    # Monotonic time before which the same inputs are not tried again.
    until: float
    condition: GatewayCondition


class StepRetries:
    """The retry state of the loop: the last failure and the backoff of its inputs."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        # Grows with every failure of the same inputs; reset by a success and by other inputs.
        self._backoff = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, rng)
        # None once a step succeeded or there was nothing to do.
        self.failure: StepFailure | None = None

    def record_failure(
        self, key: tuple[object, ...], condition: GatewayCondition, after: float | None
    ) -> float:
        """Record a failure; return the delay in seconds: `after`, or backoff where it is None."""
        if self.failure is not None and self.failure.key != key:
            self._backoff.healthy()
        seconds = after if after is not None else self._backoff.next_seconds()
        self.failure = StepFailure(key, self._clock.monotonic() + seconds, condition)
        return seconds

    def record_success(self) -> None:
        """Forget the failure and reset the backoff."""
        self._backoff.healthy()
        self.failure = None

    def wait_seconds(self, key: tuple[object, ...]) -> float:
        """Seconds until a step for `key` may run; 0 for inputs that have not failed."""
        if self.failure is None or self.failure.key != key:
            return 0.0
        return max(0.0, self.failure.until - self._clock.monotonic())


_CHECK_SECONDS = 5.0
_CREDENTIAL_REASONS = frozenset(("ScanUnauthorized", "WaitingForCredential"))

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
        # Keys of the newest metadata ConfigMap that could be decoded; stored in the durable state.
        self._keys: dict[str, str] | None = None
        # The same, decoded; None until any was received or loaded.
        self._metadata: AgentMetadata | None = None
        # The ConfigMap does not exist now; the decoded metadata is kept but not used.
        self._is_metadata_missing = False
        # Inputs of the current or the last turn; None before the first.
        self._inputs: AgentInputs | None = None
        # Interrupt of the running step; None between two steps.
        self._interrupt: Interrupt | None = None
        # Metadata that the running step is for, as `sync_relevant`; None between two steps.
        self._step_metadata: AgentMetadata | None = None
        # Version of the last dry run; None before one. In memory only: a restart plans again.
        self._planned_version: SyncVersion | None = None
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
        """Take the newest keys of the metadata ConfigMap; None when it does not exist.

        Metadata that cannot be decoded is logged and ignored: the last valid one stays in force.
        """
        if keys is None:
            if not self._is_metadata_missing:
                _log.info("metadata ConfigMap not found; keeping current files")
            self._is_metadata_missing = True
        else:
            try:
                self._metadata = metadatas.decode(keys)
            except InvalidMetadata as error:
                _log.warning("invalid metadata", error=redactor.clean(str(error)))
                return
            self._keys, self._is_metadata_missing = keys, False
            self._status_writer.set_target(
                self._metadata.status_objects.get(self._identity.pod_name)
            )
        self._wake.set()
        # A change that no sync depends on, such as a new status object, does not disturb the step.
        if self._step_metadata != inputs.sync_relevant(self._current_metadata()):
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
            await asyncio.sleep(_CHECK_SECONDS)
            current = await run_in_thread(inputs.read_pod, self._identity, self._paths)
            if current != pod:
                pod = current
                self._wake.set()
                self._interrupt_step()

    def _interrupt_step(self) -> None:
        if self._interrupt is not None:
            self._interrupt.set()

    def _current_metadata(self) -> AgentMetadata | None:
        return None if self._is_metadata_missing else self._metadata

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
        if self._keys is None and self._operations.state.metadata:
            self.on_metadata(dict(self._operations.state.metadata))

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
        self._inputs = turn_inputs = await run_in_thread(
            inputs.read_inputs, self._current_metadata(), self._identity, self._paths
        )
        if not self._operations.is_started:
            await self._operations.start()
            await self._load_state()
        await self._save_metadata()
        step = decisions.next_step(self._facts(turn_inputs))
        if step.kind in ("rest", "hold"):
            self._operations.count_skipped(step.reason or step.status)
            self._retries.record_success()
            self._publish_status(self._idle_condition(step))
            return await self._check_drift(turn_inputs)
        waiting = self._retries.wait_seconds(turn_inputs.retry_key)
        if waiting and not await self._has_new_credential(turn_inputs):
            return min(waiting, await self._check_drift(turn_inputs))
        await self._run_interruptible(step, turn_inputs)
        return 0.0

    async def _save_metadata(self) -> None:
        """Store the metadata, so that a restart works while the API server is unreachable."""
        if self._keys is not None and self._keys != self._operations.state.metadata:
            await self._operations.update_state(metadata=self._keys)

    async def _has_new_credential(self, turn_inputs: AgentInputs) -> bool:
        """Whether the step failed for its API token and the token file was replaced since."""
        failure = self._retries.failure
        if failure is None or failure.condition.reason not in _CREDENTIAL_REASONS:
            return False
        return await self._operations.scanner(_gateway_access(turn_inputs)).has_new_token()

    async def _run_interruptible(self, step: NextStep, turn_inputs: AgentInputs) -> None:
        """Run a step that newer metadata, a changed pod or `stop` may interrupt."""
        interrupt = self._interrupt = Interrupt()
        self._step_metadata = inputs.sync_relevant(turn_inputs.metadata)
        try:
            # What arrived while the inputs were read found no interrupt to set.
            if self._stopping.is_set() or self._step_metadata != inputs.sync_relevant(
                self._current_metadata()
            ):
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
        if step.kind == "sync":
            await self._sync(turn_inputs, metadata, interrupt)
        elif step.kind == "scan":
            self._publish_status(GatewayCondition("Syncing", "Scanning"))
            booting = not self._gate.is_open
            scanning = self._operations.scan(metadata.access, metadata.policy, is_booting=booting)
            await interrupt.run(scanning)
        elif step.kind == "plan":
            await self._plan(turn_inputs, metadata, interrupt)
        else:
            if await self._operations.rollback(metadata.overrides.rollback, metadata.trigger):
                self._drift.mark_synced()

    async def _sync(
        self, turn_inputs: AgentInputs, metadata: AgentMetadata, interrupt: Interrupt
    ) -> None:
        """Bring the desired commit onto the volume."""
        # Gateways of one CR learn of a commit at the same moment; jitter spreads their fetches.
        await interrupt.sleep(self._rng.uniform(0.0, metadata.jitter_ms / 1000.0))
        self._publish_status(GatewayCondition("Syncing", "Planning"))
        self._operations.set_fetch_timeout(metadata.policy.fetch_seconds)
        request = await run_in_thread(
            inputs.build_request, turn_inputs, self._identity, self._paths
        )
        cause = decisions.sync_cause(
            self._facts(turn_inputs),
            ref=self._operations.state.ref,
            is_starting=not self._gate.is_open,
        )
        result = await self._operations.sync(
            request, interrupt, trigger=metadata.trigger, cause=cause
        )
        self.latest_plan = plans.to_json(result.planned.plan)
        self._has_repaired = self._drift.repair_needed
        self._drift.mark_synced()

    async def _plan(
        self, turn_inputs: AgentInputs, metadata: AgentMetadata, interrupt: Interrupt
    ) -> None:
        """Run a dry run (APP-12): plan, publish what a sync would do, change nothing."""
        self._operations.set_fetch_timeout(metadata.policy.fetch_seconds)
        request = await run_in_thread(
            inputs.build_request, turn_inputs, self._identity, self._paths
        )
        planned = await self._operations.plan(request, interrupt)
        self._dry_run, self.latest_plan = (
            _dry_run_condition(planned.plan),
            plans.to_json(planned.plan),
        )
        self._planned_version = SyncVersion(request.commit, request.profile_hash)
        await self._operations.update_state(trigger=metadata.trigger)

    # drift, between the steps

    async def _check_drift(self, turn_inputs: AgentInputs) -> float:
        """Check for drift and for the first boot if due; return the seconds until the next turn."""
        metadata = turn_inputs.metadata
        waits = [turn_inputs.period_seconds]
        if self._retries.failure is not None:
            waits.append(_CHECK_SECONDS)
        if metadata is None or turn_inputs.selection is None or self._is_paused(turn_inputs):
            return min(waits)
        if self._operations.state.boots:
            waits.append(_CHECK_SECONDS)
            await self._check_after_boot(turn_inputs, metadata)
        due = self._drift.due_seconds(metadata.policy)
        if due == 0.0:
            await self._drift.check(metadata.policy, turn_inputs.excludes)
            due = 0.0 if self._drift.repair_needed else self._drift.due_seconds(metadata.policy)
            self._wake.set()
        return min([*waits, *([due] if due is not None else [])])

    async def _check_after_boot(self, turn_inputs: AgentInputs, metadata: AgentMetadata) -> None:
        """Check for files that the first boot rewrote, once the gateway runs (STA-8)."""
        if not self._gate.is_open:
            return
        state = await self._operations.scanner(metadata.access).state()
        if state is GatewayState.RUNNING:
            await self._drift.check_after_boot(turn_inputs.excludes)
            await self._operations.update_state(boots=False)
            self._wake.set()

    # facts and status

    def _facts(self, turn_inputs: AgentInputs) -> StepFacts:
        state, applied = self._operations.state, self._operations.applied_tree
        selection = turn_inputs.selection
        return StepFacts(
            metadata=turn_inputs.metadata,
            gateway=turn_inputs.gateway,
            profile_hash=turn_inputs.profile_hash,
            profile_paused=selection is not None and selection.paused,
            dry_run=selection is not None and selection.dry_run,
            on_disk=applied.version if applied is not None else None,
            scan_pending=not self._operations.is_scanned,
            trigger=state.trigger,
            rollback=state.rollback,
            rolled_back_version=state.rolled_back,
            planned_version=self._planned_version,
            repair_needed=self._drift.repair_needed,
            deletes_allowed=self._may_delete(turn_inputs),
        )

    def _may_delete(self, turn_inputs: AgentInputs) -> bool:
        """Whether an annotation newly allows to delete files that the last sync kept."""
        metadata, applied = turn_inputs.metadata, self._operations.applied_tree
        if metadata is None or metadata.source is None or applied is None or not applied.adopted:
            return False
        allowed = inputs.delete_safety(metadata, turn_inputs.pod, "").allowed
        # Excluded files stay even then, so `adopted` may never reach 0: one sync per commit.
        return allowed is not None and allowed.commit != self._operations.state.allowed

    def _is_paused(self, turn_inputs: AgentInputs) -> bool:
        metadata, selection = turn_inputs.metadata, turn_inputs.selection
        by_profile = selection is not None and selection.paused
        return metadata is not None and (metadata.paused or metadata.terminating or by_profile)

    def _idle_condition(self, step: NextStep) -> GatewayCondition:
        """The condition to publish when there is nothing to do."""
        if step.status == "DryRun":
            return self._dry_run
        is_repaired = step.reason == "Synced" and self._has_repaired
        reason = "DriftRemediated" if is_repaired else step.reason
        message = self._operations.state.kept_back if step.reason == "Synced" else step.message
        return GatewayCondition(step.status, reason, message)

    def _record_failure(self, error: WindlassError) -> float:
        """Publish and log a failed turn; return the seconds until the next one."""
        has_data = self._operations.applied_tree is not None
        failure = failure_reasons.failure_reason(error, has_data=has_data)
        condition = GatewayCondition(
            failure.status,
            failure.reason,
            failure.message,
            degraded=failure.is_source_failure and has_data,
        )
        key = self._inputs.retry_key if self._inputs is not None else ()
        previous = self._retries.failure
        seconds = self._retries.record_failure(key, condition, failure.retry_seconds)
        # The same failure again is logged once, however often it is retried.
        if previous is None or previous.condition != condition:
            _log.warning(
                "sync failed", reason=failure.reason, error=failure.message, again_seconds=seconds
            )
        self._publish_status(condition)
        return min(seconds, _CHECK_SECONDS) if failure.reason in _CREDENTIAL_REASONS else seconds

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

    # the start of the gateway

    async def start_facts(self) -> StartFacts:
        """The facts for `decisions.start_blocker`; asks the gateway whether it answers."""
        turn_inputs, operations = self._inputs, self._operations
        metadata = turn_inputs.metadata if turn_inputs is not None else None
        access = metadata.access if metadata is not None else GatewayEndpoint()
        state = await operations.scanner(access).state()
        facts = self._facts(turn_inputs) if turn_inputs is not None else StepFacts(None)
        desired = decisions.desired_version(facts)
        return StartFacts(
            gateway_answers=state is not GatewayState.DOWN,
            is_volume_ready=operations.is_tree_consistent,
            volume_contents=await self._volume_contents(),
            at_target=desired is not None and facts.on_disk == desired and not facts.scan_pending,
            has_tried_sync=self._has_tried,
            is_paused=turn_inputs is not None and self._is_paused(turn_inputs),
            starts_anyway=metadata is not None and metadata.policy.initial_sync == "StartAnyway",
            waited_seconds=self._gate.waited_seconds,
        )

    async def wait_for_turn(self, seconds: float) -> None:
        """Wait until a turn has ended, at most `seconds`."""
        self._turn_ended.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._turn_ended.wait()

    async def _volume_contents(self) -> VolumeContents:
        if self._operations.applied_tree is not None:
            return "tree"
        return "files" if await startup_gate.has_gateway_files(self._paths.data) else "nothing"


def _gateway_access(turn_inputs: AgentInputs) -> GatewayEndpoint:
    return turn_inputs.metadata.access if turn_inputs.metadata is not None else GatewayEndpoint()


def _dry_run_condition(plan: Plan) -> GatewayCondition:
    """The result of a dry run as a condition: guards, counts and the first paths."""
    counts = plan.counts()
    paths = [op.path for op in plan.ops if op.op in ("put", "delete")]
    shown = ", ".join(paths[:20])
    text = (
        f"dry run: {format_count(counts.get('put', 0), 'file')} to write, "
        f"{counts.get('delete', 0)} to delete: {shown}"
    )
    guards = "; ".join(guard.message for guard in plan.guards)
    text = f"{guards}; {text}" if guards else text
    return GatewayCondition("DryRun", "", text, plan_digest=plan.digest)
