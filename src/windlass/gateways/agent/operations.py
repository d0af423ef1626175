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
from windlass.gateways.agent import approvals, state
from windlass.gateways.agent.approvals import DeleteRequest
from windlass.gateways.agent.audit_log import NO_SCAN_NEEDED, NOT_SCANNED, AuditLog
from windlass.gateways.agent.decisions import SyncCause
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
)
from windlass.gateways.agent.sync import PhaseTimer, PlannedSync, SyncEngine, SyncResult
from windlass.gateways.tree import scan_rules
from windlass.gateways.tree.deletes import DeletesRefused
from windlass.gateways.tree.globs import GlobSet
from windlass.gateways.tree.live_tree import FileDrift
from windlass.gateways.tree.scan_rules import ScanKind, ScanMode, ScanResult
from windlass.gateways.volume.completion import TransactionEnd
from windlass.gateways.volume.data_volume import DataVolume
from windlass.gateways.volume.lock import VolumeLocked
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
    """The files are in place, but the gateway has not scanned them yet."""


class GatewayOperations:
    """Sync, scan, rollback and drift check of one gateway, and the durable state they share."""

    def __init__(
        self,
        volume: DataVolume,
        store: CommitStore,
        scanner_factory: ScannerFactory,
        clock: Clock,
        metrics: AgentMetrics,
        *,
        pod_uid: str = "",
    ) -> None:
        self._volume = volume
        self._phases = PhaseTimer(lambda phase, s: metrics.sync_seconds.observe(s, phase), clock)
        self._sync_engine = SyncEngine(volume, store, self._phases)
        self._state_file = AgentStateFile(volume.directory)
        self._store = store
        self._scanner_factory = scanner_factory
        # The scanner of the last endpoint only; another endpoint replaces it.
        self._scanners: dict[GatewayEndpoint, GatewayScanner] = {}
        self._clock = clock
        self._metrics = metrics
        self._audit_log = AuditLog(store, clock, pod_uid)
        # Equal to the state file on the volume, once it was loaded.
        self.state = AgentState()
        # Summary of the manifest on the volume; None before the first sync.
        self.applied_tree: AppliedTree | None = None
        # The volume is locked by this agent and recovered: it may write.
        self.is_started = False
        # No transaction is half applied, so a gateway may start on the tree. Also true for a
        # volume that this agent may not write and that has no journal.
        self.is_tree_consistent = False

    @property
    def is_scanned(self) -> bool:
        """Whether the state records that the gateway has read everything on the disk."""
        applied = self.applied_tree
        return not self.state.pending and (applied is None or self.state.read == applied.version)

    async def load_state(self) -> None:
        """Read manifest and durable state; needs no lock on the volume."""
        self.applied_tree = state.summarize_manifest(await run_in_thread(self._volume.manifest))
        self.state = await run_in_thread(self._state_file.read)

    async def start(self) -> TransactionEnd | None:
        """Lock the volume, finish an interrupted transaction and return its end.

        Raises `VolumeLocked` while another agent has the lock.
        """
        try:
            resumed = await run_in_thread(self._volume.start)
        except VolumeLocked:
            raise
        except WindlassError:
            # Not writable for us; a gateway on a tree that no transaction changes may still start.
            self.is_tree_consistent = await run_in_thread(self._volume.has_no_journal)
            raise
        if resumed is not None:
            self._metrics.journal_resumes.inc()
            _log.info("resumed interrupted sync", tx=resumed.record.tx, tree=resumed.tree)
        await self.load_state()
        # The crash hit before the audit record was stored. A rollback writes its own when resumed.
        if resumed is not None and resumed.tree == "new" and self.state.undoing is None:
            record = await self._audit_log.resumed_sync_record(
                resumed.record,
                self.applied_tree,
                question=approvals.message(self.state.approval, self.state.delete_request),
            )
            await self.update_state(audit=self._replace_audit_record(record))
        self._metrics.lock_held.set(1)
        self.is_started = self.is_tree_consistent = True
        return resumed

    async def update_state(self, **changes: Any) -> None:
        """Change fields of `AgentState`, on the disk before in memory."""
        updated = structs.replace(self.state, **changes)
        await run_in_thread(self._state_file.write, updated)
        self.state = updated

    def scanner(self, access: GatewayEndpoint) -> GatewayScanner:
        """The scanner for an endpoint; the same instance as long as the endpoint stays."""
        if access not in self._scanners:
            self._scanners = {access: self._scanner_factory(access)}
        return self._scanners[access]

    def set_fetch_timeout(self, fetch_seconds: float) -> None:
        """Limit the seconds of one fetch."""
        self._store.allow(fetch_seconds)

    async def plan(self, request: SyncRequest, interrupt: Interrupt) -> PlannedSync:
        """Plan a sync without writing anything."""
        return await self._sync_engine.plan(request, interrupt)

    async def sync(
        self,
        request: SyncRequest,
        interrupt: Interrupt,
        *,
        trigger: str,
        cause: SyncCause = "manual",
    ) -> SyncResult:
        """Bring the requested commit onto the disk; the scans it needs are pending afterwards.

        `trigger` is the sync request that counts as handled then; `cause` goes to the audit record.
        """
        started, state_before = self._clock.monotonic(), self.state
        store_bytes = await run_in_thread(store_limits.directory_bytes, self._store.directory)
        try:
            result = await self._sync_engine.sync(
                request, interrupt, before_commit=self._record_pending_scans
            )
        except SyncInterrupted:
            # `_record_pending_scans` may have run already, but nothing reached the volume.
            await run_in_thread(self._state_file.write, state_before)
            self.state = state_before
            raise
        except WindlassError as error:
            self._metrics.syncs.inc(error.reason)
            await self._record_failure(request, error, started)
            raise
        finally:
            await run_in_thread(self._measure_usage, store_bytes)
        await self._record_success(request, result, started, trigger, cause)
        return result

    async def rollback(self, value: str, trigger: str) -> bool:
        """Undo the last apply once per request `value`; its commit is not synced again by itself.

        The rollback is recorded before it begins: a fault or a crash delays it, and never loses or
        doubles it. One that can never succeed counts as handled, or it would block every later
        step. Returns False without an apply to undo: a request may outlive its volume.
        """
        if not await run_in_thread(self._volume.newest_transaction):
            await self.update_state(rollback=value, undoing=None)
            _log.info("nothing to roll back", request=value)
            return False
        scans, applied = frozenset(ScanKind), None
        try:
            pending = await self._begin_rollback(value)
            # Another newest transaction: the undo was applied before a crash, only records miss.
            if pending.tx == await run_in_thread(self._volume.newest_transaction):
                result = await self._sync_engine.rollback()
                scans, applied = result.scans, result.applied
        except Stalled:
            await self.update_state(rollback=value, undoing=None)
            raise
        self.applied_tree = state.summarize_manifest(await run_in_thread(self._volume.manifest))
        undone_commit = pending.of.commit if pending.of is not None else ""
        record = await self._audit_log.rollback_record(applied, self.applied_tree, undone_commit)
        self._audit_log.write(self.state.audit, NOT_SCANNED)
        await self.update_state(
            rollback=value,
            undoing=None,
            rolled_back=pending.of,
            pending=tuple(sorted(scans)),
            trigger=trigger,
            delete_request=None,
            read=None,
            audit=record,
        )
        self._metrics.rollbacks.inc("request")
        return True

    async def _begin_rollback(self, value: str) -> PendingRollback:
        """The rollback for `value`, recorded together with the scans that it needs.

        A rollback for the same value that was begun before a crash is returned as recorded.
        """
        if "@" in value:
            text = f"snapshot {value.partition('@')[2][:63]!r} not found"
            raise Stalled("SnapshotFailed", f"{text}; omit the name to undo the last apply")
        pending, applied = self.state.undoing, self.applied_tree
        if pending is None or pending.value != value:
            newest = await run_in_thread(self._volume.newest_transaction)
            pending = PendingRollback(value, newest, applied.version if applied else None)
            # An undo that is impossible fails below; then no scan must stay pending for it.
            if await run_in_thread(self._volume.can_undo):
                await self.update_state(undoing=pending, pending=tuple(sorted(ScanKind)))
        return pending

    async def scan(
        self, access: GatewayEndpoint, policy: SyncPolicy, *, is_booting: bool
    ) -> ScanResult:
        """Run the pending scans; raises `ScanPending` if some are not done.

        A gateway that has not been started yet reads everything at its start (SCN-6).
        """
        scanner, options = self.scanner(access), scan_rules.scan_policy(policy)
        if self.state.pending and options.mode is not ScanMode.OFF:
            gateway_state = await scanner.state()
            if gateway_state is GatewayState.DOWN and is_booting:
                result = ScanResult(text=_READ_AT_BOOT)
                await self._finish_scan(result)
                return result
            # One that does not answer may run already, and would not read its files by itself.
            # Once it may have been started it is scanned, so that its failure is reported.
            is_unknown = gateway_state is GatewayState.UNRESPONSIVE and is_booting
            if is_unknown or gateway_state in (GatewayState.STARTING, GatewayState.COMMISSIONING):
                raise ScanPending(
                    "Scanning",
                    f"the gateway is {gateway_state.lower()}; it is scanned once it is running",
                    after=_GATEWAY_START_RETRY_SECONDS,
                )
        with self._phases.measure("scan"):
            result = await scanner.scan(map(ScanKind, self.state.pending), options)
        self._count_scans(result)
        if result.warning:
            _log.warning("scan failed, but is not required", warning=result.warning)
        await self._finish_scan(result)
        if result.reason:
            raise ScanPending(result.reason, result.message, after=result.retry_seconds)
        return result

    async def find_drift(
        self, excludes: GlobSet, *, everything: bool, api_token: str = ""
    ) -> FileDrift:
        """How the disk differs from the last sync; `everything` compares all files by content."""
        drift = await self._sync_engine.find_drift(
            excludes, everything=everything, api_token=api_token
        )
        for category in ("modified", "missing", "extra", "noise"):
            self._metrics.drift_files.set(len(getattr(drift, category)), category)
        if everything:
            await self.update_state(hashed=self._clock.now())
        return drift

    def _record_pending_scans(self, planned: PlannedSync) -> None:
        """Record the scans of a plan; called in the thread that is about to commit it."""
        pending = tuple(sorted({*self.state.pending, *planned.plan.scans}))
        # A volume without a tree: the gateway's first boot is still to come (STA-8).
        boots = self.state.boots or self.applied_tree is None
        updated = structs.replace(
            self.state, pending=pending, boots=boots, delete_request=_delete_request(planned)
        )
        self._state_file.write(updated)
        self.state = updated

    async def _finish_scan(self, result: ScanResult) -> None:
        """Record the result of a scan; without a failure reason the gateway has read the disk."""
        read = self.state.read
        if not result.reason and self.applied_tree is not None:
            read = self.applied_tree.version
            self._metrics.last_success.set(self._clock.now().timestamp())
        text = result.text or self.state.scan_result
        self._audit_log.write(self.state.audit, result.text or NO_SCAN_NEEDED, result.reason)
        await self.update_state(
            pending=tuple(sorted(result.pending)), read=read, scan_result=text, audit=None
        )

    async def _record_failure(
        self, request: SyncRequest, error: WindlassError, started: float
    ) -> None:
        """Add a failure to the history; the same one again is not written."""
        if isinstance(error, DeletesRefused):
            await self._record_refused_deletes(request, error)
        latest = self.state.history[:1]
        if latest and (latest[0].commit, latest[0].result) == (request.commit, error.reason):
            return
        if self.is_started:
            entry = self._history_entry(request, error.reason, started)
            await self.update_state(history=(entry, *self.state.history)[:_MAX_HISTORY])

    async def _record_refused_deletes(self, request: SyncRequest, error: DeletesRefused) -> None:
        """Record what the approval would delete besides; a request that was published stays so."""
        refused = DeleteRequest(request.commit, request.routing_hash, error.adopted)
        known = self.state.delete_request
        if known is None or approvals.published(known) != approvals.published(refused):
            await self.update_state(delete_request=refused)

    async def publish_delete_request(self) -> None:
        """Record that a person is being asked about the files of the delete request."""
        request, approval = self.state.delete_request, self.state.approval
        if request is not None and approvals.needs_publication(approval, request):
            await self.update_state(delete_request=approvals.published(request))

    async def _record_success(
        self,
        request: SyncRequest,
        result: SyncResult,
        started: float,
        trigger: str,
        cause: SyncCause,
    ) -> None:
        """Record a finished sync in metrics, durable state and audit log."""
        seconds = self._clock.monotonic() - started
        self.applied_tree = state.summarize_manifest(result.planned.manifest)
        self._metrics.plan_files.set(len(result.planned.manifest.files))
        history = self.state.history
        last_sync = self.state.last_sync or LastSync(time=self._clock.now(), seconds=seconds)
        # A sync that changed nothing is no entry: the history keeps the last real ones.
        if result.planned.plan.ops:
            self._count_sync(result)
            last_sync = self._last_sync(result, seconds)
            history = (self._history_entry(request, "Synced", started), *history)[:_MAX_HISTORY]
        record = await self._audit_log.sync_record(
            request, result, self.applied_tree, seconds, cause
        )
        await self.update_state(
            ref=request.ref,
            trigger=trigger,
            undoing=None,
            rolled_back=None,
            last_sync=last_sync,
            history=history,
            hashed=self.state.hashed or self._clock.now(),
            delete_request=_delete_request(result.planned),
            audit=self._replace_audit_record(record),
        )

    def _last_sync(self, result: SyncResult, seconds: float) -> LastSync:
        return LastSync(
            time=self._clock.now(),
            seconds=seconds,
            plan_digest=result.planned.plan.digest,
            added=result.planned.added,
            modified=result.applied.put - result.planned.added,
            deleted=result.applied.deleted,
        )

    def _replace_audit_record(self, record: AuditRecord) -> AuditRecord | None:
        """Write the waiting record and return the one that waits now; None if it was written too.

        A record waits for the scan result; without pending scans there is none to wait for.
        """
        self._audit_log.write(self.state.audit, NOT_SCANNED)
        if self.is_scanned:
            self._audit_log.write(record, NO_SCAN_NEEDED)
            return None
        return record

    def _history_entry(self, request: SyncRequest, result: str, started: float) -> SyncHistoryEntry:
        seconds = self._clock.monotonic() - started
        return SyncHistoryEntry(self._clock.now(), request.commit, result, f"{seconds:.1f}s")

    def count_skipped(self, reason: str) -> None:
        """Count a turn without a sync by its reason."""
        self._metrics.sync_skipped.inc(reason)

    def _measure_usage(self, bytes_before: int) -> None:
        """Count the bytes fetched and the peak memory; `bytes_before` is the store's old size."""
        with contextlib.suppress(GitError):
            grown = store_limits.directory_bytes(self._store.directory) - bytes_before
            self._metrics.fetch_bytes.inc(amount=max(0, grown))
        self._metrics.peak_rss.set(memories.peak_bytes())

    def _count_sync(self, result: SyncResult) -> None:
        self._metrics.syncs.inc("ok")
        for op, number in result.planned.plan.counts().items():
            self._metrics.files.inc(op, amount=number)
        self._metrics.bytes_written.inc(amount=result.applied.bytes_written)

    def _count_scans(self, result: ScanResult) -> None:
        for kind in result.kinds:
            self._metrics.scans.inc(kind.kind, kind.reason or kind.state)
            self._metrics.scan_seconds.observe(kind.seconds, kind.kind)


def _delete_request(planned: PlannedSync) -> DeleteRequest:
    manifest = planned.manifest
    return DeleteRequest(manifest.commit, manifest.routing_hash, planned.unconfirmed)
