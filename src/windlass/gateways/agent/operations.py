"""An agent's operations on its gateway: sync, scan, rollback, drift; they own durable state.

The loop calls them, one at a time; they call `sync` for the volume. Whatever is pending is stored
before it can be lost: scans are recorded before the commit point of a sync, and cleared after the
gateway has read the files. So an agent that dies in between scans once too often, never once too
little.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import structlog
from msgspec import structs

from windlass.base import memory as memories
from windlass.base.clock import Clock
from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent import state
from windlass.gateways.agent.audit_log import NO_SCAN_NEEDED, NOT_SCANNED, AuditLog
from windlass.gateways.agent.decisions import SyncCause, SyncVersion
from windlass.gateways.agent.gateway_answers import GatewayState
from windlass.gateways.agent.inputs import SyncRequest
from windlass.gateways.agent.interrupt import Interrupt, SyncInterrupted
from windlass.gateways.agent.scanner import GatewayScanner
from windlass.gateways.agent.state import (
    AgentState,
    AgentStateFile,
    AppliedTree,
    AuditRecord,
    LastSync,
    PendingRollback,
    VersionMark,
)
from windlass.gateways.agent.sync import PhaseTimer, PlannedSync, SyncEngine, SyncResult
from windlass.gateways.tree import scan_rules
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.tree.scan_rules import ScanKind, ScanMode, ScanOrder, ScanPolicy, ScanResult
from windlass.gateways.volume.completion import TransactionEnd
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import VolumeLocked
from windlass.gateways.volume.state_directory import JOURNAL_PATH
from windlass.gateways.wire.agent_report import SyncHistoryEntry
from windlass.gateways.wire.metadata import GatewayEndpoint, SyncPolicy
from windlass.git import store_limits
from windlass.git.commit_store import CommitStore
from windlass.git.errors import GitError
from windlass.telemetry.gateways import AgentMetrics

_MAX_HISTORY = 3
_GATEWAY_START_RETRY_SECONDS = 5.0
_READ_AT_BOOT = "at boot"

_log: Any = structlog.get_logger(__name__)

ScannerFactory = Callable[[GatewayEndpoint], GatewayScanner]


class ScanPending(Retryable):
    """The files are in place, and the gateway has not read them yet."""


class GatewayOperations:
    """One gateway's disk, memory and scan API."""

    def __init__(
        self,
        applier: DataVolume,
        store: CommitStore,
        scanner_of: ScannerFactory,
        clock: Clock,
        metrics: AgentMetrics,
        *,
        pod_uid: str = "",
    ) -> None:
        self._applier = applier
        self._phases = PhaseTimer(lambda phase, s: metrics.sync_seconds.observe(s, phase), clock)
        self._engine = SyncEngine(applier, store, self._phases)
        self._file = AgentStateFile(applier.tree)
        self._store = store
        self._scanner_of = scanner_of
        self._scanners: dict[GatewayEndpoint, GatewayScanner] = {}
        self._clock = clock
        self._metrics = metrics
        self._recording = AuditLog(store, clock, pod_uid)
        self.memory = AgentState()
        self.holding: AppliedTree | None = None
        self.is_whole = False
        self.is_sound = False
        """Whether a gateway may start on the tree: nothing of it is half done."""

    @property
    def is_read(self) -> bool:
        """Whether it is noted that the gateway has read all that is on the disk."""
        known, holding = self.memory, self.holding
        if known.pending or holding is None:
            return not known.pending
        read = known.read
        return read is not None and SyncVersion(read.commit, read.profile_hash) == holding.version

    async def recall(self) -> None:
        """Read what is remembered, before the volume is ours."""
        self.holding = state.summarize_manifest(await run_in_thread(self._applier.manifest))
        self.memory = await run_in_thread(self._file.read)

    async def start(self) -> TransactionEnd | None:
        """Take the volume and finish what a crash left, which is returned.

        Raises while another one has the volume.
        """
        try:
            resumed = await run_in_thread(self._applier.start)
        except VolumeLocked:
            raise
        except WindlassError:
            # We may not write; a gateway on a tree that nobody is changing may still start.
            self.is_sound = await run_in_thread(self._is_settled)
            raise
        if resumed is not None:
            self._metrics.journal_resumes.inc()
            _log.info("interrupted sync ended", tx=resumed.record.tx, tree=resumed.tree)
        await self.recall()
        if resumed is not None and resumed.tree == "new" and self.memory.undoing is None:
            record = await self._recording.resumed(resumed.record, self.holding)
            await self.remember(audit=self._succeeding(record))
        self._metrics.lock_held.set(1)
        self.is_whole = self.is_sound = True
        return resumed

    async def remember(self, **changes: Any) -> None:
        """Change the memory, durably."""
        memory = structs.replace(self.memory, **changes)
        await run_in_thread(self._file.write, memory)
        self.memory = memory

    def scanner(self, access: GatewayEndpoint) -> GatewayScanner:
        """The way to the gateway; always the same one for the same address."""
        if access not in self._scanners:
            self._scanners = {access: self._scanner_of(access)}
        return self._scanners[access]

    def allow(self, fetch_seconds: float) -> None:
        """How long one call to Git may take."""
        self._store.allow(fetch_seconds)

    async def plan(self, order: SyncRequest, interrupt: Interrupt) -> PlannedSync:
        """What a sync would do."""
        return await self._engine.plan(order, interrupt)

    async def sync(
        self,
        order: SyncRequest,
        interrupt: Interrupt,
        *,
        trigger: str,
        occasion: SyncCause = "manual",
    ) -> SyncResult:
        """Bring the order onto the disk; the scans that it needs are owed afterwards.

        `trigger` is the request that counts as heeded then, `occasion` is for the record.
        """
        began, before = self._clock.monotonic(), self.memory
        held = await run_in_thread(store_limits.directory_bytes, self._store.directory)
        try:
            done = await self._engine.sync(order, interrupt, before_commit=self._owe)
        except SyncInterrupted:
            await run_in_thread(self._file.write, before)
            self.memory = before
            raise
        except WindlassError as error:
            self._metrics.syncs.inc(error.reason)
            await self._failed(order, error, began)
            raise
        finally:
            await run_in_thread(self._weigh, held)
        await self._succeeded(order, done, began, trigger, occasion)
        return done

    async def rollback(self, value: str, trigger: str) -> bool:
        """Undo the last apply once for `value`; its commit does not come again by itself.

        What was begun is noted first: a fault or a crash delays it and never loses or doubles
        it. What cannot be undone for good counts as heeded, or nothing would ever come after.
        False where there is no apply to undo: a request outlives the volume it was made for.
        """
        if not await run_in_thread(self._applier.newest):
            await self.remember(rollback=value, undoing=None)
            _log.info("nothing to roll back", request=value)
            return False
        owed, applied = frozenset(ScanKind), None
        try:
            begun = await self._begun(value)
            if begun.tx == await run_in_thread(self._applier.newest):
                back = await self._engine.rollback()
                owed, applied = back.scans, back.applied
        except Stalled:
            await self.remember(rollback=value, undoing=None)
            raise
        self.holding = state.summarize_manifest(await run_in_thread(self._applier.manifest))
        undone = begun.of.commit if begun.of is not None else ""
        record = await self._recording.rollback(applied, self.holding, undone)
        self._recording.say(self.memory.audit, NOT_SCANNED)
        await self.remember(
            rollback=value,
            undoing=None,
            rolled_back=begun.of,
            pending=tuple(sorted(owed)),
            trigger=trigger,
            kept_back="",
            read=None,
            audit=record,
        )
        self._metrics.rollbacks.inc("request")
        return True

    async def _begun(self, value: str) -> PendingRollback:
        """The rollback for `value`, noted together with the scans that it will need."""
        if "@" in value:
            text = f"there is no snapshot {value.partition('@')[2][:63]!r} to go back to"
            raise Stalled("SnapshotFailed", f"{text}; without a name the last apply is undone")
        known, here = self.memory.undoing, self.holding
        if known is None or known.value != value:
            mark = VersionMark(here.version.commit, here.version.profile_hash) if here else None
            known = PendingRollback(value, await run_in_thread(self._applier.newest), mark)
            if await run_in_thread(self._applier.can_undo):
                await self.remember(undoing=known, pending=tuple(sorted(ScanKind)))
        return known

    async def scan(
        self, access: GatewayEndpoint, policy: SyncPolicy, *, is_booting: bool
    ) -> ScanResult:
        """Have the gateway read what is owed; ScanOwed where it could not.

        A gateway that has not been started yet reads everything when it is (SCN-6).
        """
        scanner, chosen = self.scanner(access), scan_policy(policy)
        if self.memory.pending and chosen.mode is not ScanMode.OFF:
            state = await scanner.state()
            if state is GatewayState.DOWN and is_booting:
                await self._read(scan_rules.ScanResult(text=_READ_AT_BOOT))
                return ScanResult(text=_READ_AT_BOOT)
            if state in (GatewayState.STARTING, GatewayState.COMMISSIONING):
                raise ScanPending(
                    "Scanning",
                    f"the gateway is {state.lower()}; it is scanned when it runs",
                    after=_GATEWAY_START_RETRY_SECONDS,
                )
        with self._phases.of("scan"):
            result = await scanner.scan(map(ScanKind, self.memory.pending), chosen)
        self._measure(result)
        if result.warning:
            _log.warning("scan failed, and is not required", warning=result.warning)
        await self._read(result)
        if result.reason:
            raise ScanPending(result.reason, result.message, after=result.after)
        return result

    async def drift(self, excludes: GlobSet, *, everything: bool) -> FileDrift:
        """How the disk differs from what was synced."""
        found = await self._engine.drift(excludes, everything=everything)
        for name in ("modified", "missing", "extra", "noise"):
            self._metrics.drift_files.set(len(getattr(found, name)), name)
        if everything:
            await self.remember(hashed=self._clock.now())
        return found

    def _owe(self, planned: PlannedSync) -> None:
        """Note the scans of a plan, in the thread that is about to commit it."""
        pending = tuple(sorted({*self.memory.pending, *planned.plan.scans}))
        boots = self.memory.boots or self.holding is None
        memory = structs.replace(self.memory, pending=pending, boots=boots)
        self._file.write(memory)
        self.memory = memory

    def _is_settled(self) -> bool:
        """Whether no transaction is past its commit point."""
        try:
            return self._applier.tree.stat(JOURNAL_PATH) is None
        except OSError:
            return False

    async def _read(self, result: ScanResult) -> None:
        """What a scan left owed; without a reason the gateway has read what is on the disk."""
        read = self.memory.read
        if not result.reason and self.holding is not None:
            version = self.holding.version
            read = VersionMark(version.commit, version.profile_hash)
            self._metrics.last_success.set(self._clock.now().timestamp())
        text = result.text or self.memory.scan_result
        self._recording.say(self.memory.audit, result.text or NO_SCAN_NEEDED, result.reason)
        await self.remember(
            pending=tuple(sorted(result.pending)), read=read, scan_result=text, audit=None
        )

    async def _failed(self, order: SyncRequest, error: WindlassError, began: float) -> None:
        """Note a failure once; the same one again is no news and no write."""
        latest = self.memory.history[:1]
        if latest and (latest[0].commit, latest[0].result) == (order.commit, error.reason):
            return
        if self.is_whole:
            past = self._past(order, error.reason, began)
            await self.remember(history=(past, *self.memory.history)[:_MAX_HISTORY])

    async def _succeeded(
        self, order: SyncRequest, done: SyncResult, began: float, trigger: str, occasion: SyncCause
    ) -> None:
        seconds = self._clock.monotonic() - began
        self.holding = state.summarize_manifest(done.planned.manifest)
        self._metrics.plan_files.set(len(done.planned.manifest.files))
        history = self.memory.history
        last = self.memory.last_sync or LastSync(time=self._clock.now(), seconds=seconds)
        if done.planned.plan.ops:
            self._count(done)
            last = self._last(done, seconds)
            history = (self._past(order, "Synced", began), *history)[:_MAX_HISTORY]
        record = await self._recording.sync(order, done, self.holding, seconds, occasion)
        await self.remember(
            ref=order.ref,
            trigger=trigger,
            undoing=None,
            rolled_back=None,
            last_sync=last,
            history=history,
            hashed=self.memory.hashed or self._clock.now(),
            allowed=order.safety.allowed.commit if order.safety.allowed is not None else "",
            kept_back=done.planned.kept_back,
            audit=self._succeeding(record),
        )

    def _last(self, done: SyncResult, seconds: float) -> LastSync:
        return LastSync(
            time=self._clock.now(),
            seconds=seconds,
            plan_digest=done.planned.plan.digest,
            added=done.planned.added,
            modified=done.applied.put - done.planned.added,
            deleted=done.applied.deleted,
        )

    def _succeeding(self, record: AuditRecord) -> AuditRecord | None:
        """What waits to be said from now on: `record`, unless there is nothing to wait for."""
        self._recording.say(self.memory.audit, NOT_SCANNED)
        if self.is_read:
            self._recording.say(record, NO_SCAN_NEEDED)
            return None
        return record

    def _past(self, order: SyncRequest, result: str, began: float) -> SyncHistoryEntry:
        seconds = self._clock.monotonic() - began
        return SyncHistoryEntry(self._clock.now(), order.commit, result, f"{seconds:.1f}s")

    def skipped(self, why: str) -> None:
        """A look that found nothing to sync, or a reason not to."""
        self._metrics.sync_skipped.inc(why)

    def _weigh(self, held: int) -> None:
        """What a sync took: `held` is the size of the store before it."""
        with contextlib.suppress(GitError):
            grown = store_limits.directory_bytes(self._store.directory) - held
            self._metrics.fetch_bytes.inc(amount=max(0, grown))
        self._metrics.peak_rss.set(memories.peak_bytes())

    def _count(self, done: SyncResult) -> None:
        self._metrics.syncs.inc("ok")
        for op, number in done.planned.plan.counts().items():
            self._metrics.files.inc(op, amount=number)
        self._metrics.bytes_written.inc(amount=done.applied.bytes_written)

    def _measure(self, result: ScanResult) -> None:
        for kind in result.kinds:
            self._metrics.scans.inc(kind.kind, kind.reason or kind.state)
            self._metrics.scan_seconds.observe(kind.seconds, kind.kind)


def scan_policy(policy: SyncPolicy) -> ScanPolicy:
    """`spec.ignition.scan` as the scanner takes it."""
    return ScanPolicy(
        mode=ScanMode(policy.scan_mode),
        order=ScanOrder(policy.scan_order),
        request_timeout=policy.scan_request_seconds,
        completion_timeout=policy.scan_completion_seconds,
    )
