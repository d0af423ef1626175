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
        self._volume = applier
        self._phases = PhaseTimer(lambda phase, s: metrics.sync_seconds.observe(s, phase), clock)
        self._sync_engine = SyncEngine(applier, store, self._phases)
        self._state_file = AgentStateFile(applier.directory)
        self._store = store
        self._scanner_factory = scanner_of
        self._scanners: dict[GatewayEndpoint, GatewayScanner] = {}
        self._clock = clock
        self._metrics = metrics
        self._audit_log = AuditLog(store, clock, pod_uid)
        self.state = AgentState()
        self.applied_tree: AppliedTree | None = None
        self.is_started = False
        self.is_tree_consistent = False
        """Whether a gateway may start on the tree: nothing of it is half done."""

    @property
    def is_scanned(self) -> bool:
        """Whether it is noted that the gateway has read all that is on the disk."""
        known, holding = self.state, self.applied_tree
        if known.pending or holding is None:
            return not known.pending
        read = known.read
        return read is not None and SyncVersion(read.commit, read.profile_hash) == holding.version

    async def load_state(self) -> None:
        """Read what is remembered, before the volume is ours."""
        self.applied_tree = state.summarize_manifest(await run_in_thread(self._volume.manifest))
        self.state = await run_in_thread(self._state_file.read)

    async def start(self) -> TransactionEnd | None:
        """Take the volume and finish what a crash left, which is returned.

        Raises while another one has the volume.
        """
        try:
            resumed = await run_in_thread(self._volume.start)
        except VolumeLocked:
            raise
        except WindlassError:
            # We may not write; a gateway on a tree that nobody is changing may still start.
            self.is_tree_consistent = await run_in_thread(self._has_no_journal)
            raise
        if resumed is not None:
            self._metrics.journal_resumes.inc()
            _log.info("interrupted sync ended", tx=resumed.record.tx, tree=resumed.tree)
        await self.load_state()
        if resumed is not None and resumed.tree == "new" and self.state.undoing is None:
            record = await self._audit_log.resumed_sync_record(resumed.record, self.applied_tree)
            await self.update_state(audit=self._replace_audit_record(record))
        self._metrics.lock_held.set(1)
        self.is_started = self.is_tree_consistent = True
        return resumed

    async def update_state(self, **changes: Any) -> None:
        """Change the memory, durably."""
        memory = structs.replace(self.state, **changes)
        await run_in_thread(self._state_file.write, memory)
        self.state = memory

    def scanner(self, access: GatewayEndpoint) -> GatewayScanner:
        """The way to the gateway; always the same one for the same address."""
        if access not in self._scanners:
            self._scanners = {access: self._scanner_factory(access)}
        return self._scanners[access]

    def set_fetch_timeout(self, fetch_seconds: float) -> None:
        """How long one call to Git may take."""
        self._store.allow(fetch_seconds)

    async def plan(self, order: SyncRequest, interrupt: Interrupt) -> PlannedSync:
        """What a sync would do."""
        return await self._sync_engine.plan(order, interrupt)

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
        began, before = self._clock.monotonic(), self.state
        held = await run_in_thread(store_limits.directory_bytes, self._store.directory)
        try:
            done = await self._sync_engine.sync(
                order, interrupt, before_commit=self._record_pending_scans
            )
        except SyncInterrupted:
            await run_in_thread(self._state_file.write, before)
            self.state = before
            raise
        except WindlassError as error:
            self._metrics.syncs.inc(error.reason)
            await self._record_failure(order, error, began)
            raise
        finally:
            await run_in_thread(self._measure_usage, held)
        await self._record_success(order, done, began, trigger, occasion)
        return done

    async def rollback(self, value: str, trigger: str) -> bool:
        """Undo the last apply once for `value`; its commit does not come again by itself.

        What was begun is noted first: a fault or a crash delays it and never loses or doubles
        it. What cannot be undone for good counts as heeded, or nothing would ever come after.
        False where there is no apply to undo: a request outlives the volume it was made for.
        """
        if not await run_in_thread(self._volume.newest_transaction):
            await self.update_state(rollback=value, undoing=None)
            _log.info("nothing to roll back", request=value)
            return False
        owed, applied = frozenset(ScanKind), None
        try:
            begun = await self._begin_rollback(value)
            if begun.tx == await run_in_thread(self._volume.newest_transaction):
                back = await self._sync_engine.rollback()
                owed, applied = back.scans, back.applied
        except Stalled:
            await self.update_state(rollback=value, undoing=None)
            raise
        self.applied_tree = state.summarize_manifest(await run_in_thread(self._volume.manifest))
        undone = begun.of.commit if begun.of is not None else ""
        record = await self._audit_log.rollback_record(applied, self.applied_tree, undone)
        self._audit_log.write(self.state.audit, NOT_SCANNED)
        await self.update_state(
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

    async def _begin_rollback(self, value: str) -> PendingRollback:
        """The rollback for `value`, noted together with the scans that it will need."""
        if "@" in value:
            text = f"there is no snapshot {value.partition('@')[2][:63]!r} to go back to"
            raise Stalled("SnapshotFailed", f"{text}; without a name the last apply is undone")
        known, here = self.state.undoing, self.applied_tree
        if known is None or known.value != value:
            mark = VersionMark(here.version.commit, here.version.profile_hash) if here else None
            known = PendingRollback(
                value, await run_in_thread(self._volume.newest_transaction), mark
            )
            if await run_in_thread(self._volume.can_undo):
                await self.update_state(undoing=known, pending=tuple(sorted(ScanKind)))
        return known

    async def scan(
        self, access: GatewayEndpoint, policy: SyncPolicy, *, is_booting: bool
    ) -> ScanResult:
        """Have the gateway read what is owed; ScanOwed where it could not.

        A gateway that has not been started yet reads everything when it is (SCN-6).
        """
        scanner, chosen = self.scanner(access), scan_policy(policy)
        if self.state.pending and chosen.mode is not ScanMode.OFF:
            state = await scanner.state()
            if state is GatewayState.DOWN and is_booting:
                await self._finish_scan(scan_rules.ScanResult(text=_READ_AT_BOOT))
                return ScanResult(text=_READ_AT_BOOT)
            if state in (GatewayState.STARTING, GatewayState.COMMISSIONING):
                raise ScanPending(
                    "Scanning",
                    f"the gateway is {state.lower()}; it is scanned when it runs",
                    after=_GATEWAY_START_RETRY_SECONDS,
                )
        with self._phases.measure("scan"):
            result = await scanner.scan(map(ScanKind, self.state.pending), chosen)
        self._count_scans(result)
        if result.warning:
            _log.warning("scan failed, and is not required", warning=result.warning)
        await self._finish_scan(result)
        if result.reason:
            raise ScanPending(result.reason, result.message, after=result.retry_seconds)
        return result

    async def find_drift(self, excludes: GlobSet, *, everything: bool) -> FileDrift:
        """How the disk differs from what was synced."""
        found = await self._sync_engine.find_drift(excludes, everything=everything)
        for name in ("modified", "missing", "extra", "noise"):
            self._metrics.drift_files.set(len(getattr(found, name)), name)
        if everything:
            await self.update_state(hashed=self._clock.now())
        return found

    def _record_pending_scans(self, planned: PlannedSync) -> None:
        """Note the scans of a plan, in the thread that is about to commit it."""
        pending = tuple(sorted({*self.state.pending, *planned.plan.scans}))
        boots = self.state.boots or self.applied_tree is None
        memory = structs.replace(self.state, pending=pending, boots=boots)
        self._state_file.write(memory)
        self.state = memory

    def _has_no_journal(self) -> bool:
        """Whether no transaction is past its commit point."""
        try:
            return self._volume.directory.stat(JOURNAL_PATH) is None
        except OSError:
            return False

    async def _finish_scan(self, result: ScanResult) -> None:
        """What a scan left owed; without a reason the gateway has read what is on the disk."""
        read = self.state.read
        if not result.reason and self.applied_tree is not None:
            version = self.applied_tree.version
            read = VersionMark(version.commit, version.profile_hash)
            self._metrics.last_success.set(self._clock.now().timestamp())
        text = result.text or self.state.scan_result
        self._audit_log.write(self.state.audit, result.text or NO_SCAN_NEEDED, result.reason)
        await self.update_state(
            pending=tuple(sorted(result.pending)), read=read, scan_result=text, audit=None
        )

    async def _record_failure(self, order: SyncRequest, error: WindlassError, began: float) -> None:
        """Note a failure once; the same one again is no news and no write."""
        latest = self.state.history[:1]
        if latest and (latest[0].commit, latest[0].result) == (order.commit, error.reason):
            return
        if self.is_started:
            past = self._history_entry(order, error.reason, began)
            await self.update_state(history=(past, *self.state.history)[:_MAX_HISTORY])

    async def _record_success(
        self, order: SyncRequest, done: SyncResult, began: float, trigger: str, occasion: SyncCause
    ) -> None:
        seconds = self._clock.monotonic() - began
        self.applied_tree = state.summarize_manifest(done.planned.manifest)
        self._metrics.plan_files.set(len(done.planned.manifest.files))
        history = self.state.history
        last = self.state.last_sync or LastSync(time=self._clock.now(), seconds=seconds)
        if done.planned.plan.ops:
            self._count_sync(done)
            last = self._last_sync(done, seconds)
            history = (self._history_entry(order, "Synced", began), *history)[:_MAX_HISTORY]
        record = await self._audit_log.sync_record(
            order, done, self.applied_tree, seconds, occasion
        )
        await self.update_state(
            ref=order.ref,
            trigger=trigger,
            undoing=None,
            rolled_back=None,
            last_sync=last,
            history=history,
            hashed=self.state.hashed or self._clock.now(),
            allowed=order.safety.allowed.commit if order.safety.allowed is not None else "",
            kept_back=done.planned.confirmation_warning,
            audit=self._replace_audit_record(record),
        )

    def _last_sync(self, done: SyncResult, seconds: float) -> LastSync:
        return LastSync(
            time=self._clock.now(),
            seconds=seconds,
            plan_digest=done.planned.plan.digest,
            added=done.planned.added,
            modified=done.applied.put - done.planned.added,
            deleted=done.applied.deleted,
        )

    def _replace_audit_record(self, record: AuditRecord) -> AuditRecord | None:
        """What waits to be said from now on: `record`, unless there is nothing to wait for."""
        self._audit_log.write(self.state.audit, NOT_SCANNED)
        if self.is_scanned:
            self._audit_log.write(record, NO_SCAN_NEEDED)
            return None
        return record

    def _history_entry(self, order: SyncRequest, result: str, began: float) -> SyncHistoryEntry:
        seconds = self._clock.monotonic() - began
        return SyncHistoryEntry(self._clock.now(), order.commit, result, f"{seconds:.1f}s")

    def count_skipped(self, why: str) -> None:
        """A look that found nothing to sync, or a reason not to."""
        self._metrics.sync_skipped.inc(why)

    def _measure_usage(self, held: int) -> None:
        """What a sync took: `held` is the size of the store before it."""
        with contextlib.suppress(GitError):
            grown = store_limits.directory_bytes(self._store.directory) - held
            self._metrics.fetch_bytes.inc(amount=max(0, grown))
        self._metrics.peak_rss.set(memories.peak_bytes())

    def _count_sync(self, done: SyncResult) -> None:
        self._metrics.syncs.inc("ok")
        for op, number in done.planned.plan.counts().items():
            self._metrics.files.inc(op, amount=number)
        self._metrics.bytes_written.inc(amount=done.applied.bytes_written)

    def _count_scans(self, result: ScanResult) -> None:
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
