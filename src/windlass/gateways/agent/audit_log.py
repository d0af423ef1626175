"""The audit log: one line for every finished sync and rollback.

Records are built here and written when the gateway has read the files, or when it is known why it
has not. A sync that was resumed at a start gets its line from the journal. Foreign text (the
author's name) is redacted and cut here already, because a record is stored before it is logged.
"""

from __future__ import annotations

import contextlib
from typing import Any

import structlog
from msgspec import structs

from windlass import __version__
from windlass.base.clock import Clock
from windlass.base.redaction import process
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent.decisions import SyncCause
from windlass.gateways.agent.inputs import SyncRequest
from windlass.gateways.agent.state import AppliedTree, AuditRecord
from windlass.gateways.agent.sync import SyncResult
from windlass.gateways.volume.journal import TransactionRecord
from windlass.gateways.volume.transaction import ApplyResult
from windlass.git.commit_store import CommitStore
from windlass.git.errors import GitError

NOT_SCANNED = "not scanned"
NO_SCAN_NEEDED = "no scan needed"

_LOG_MESSAGES = {"sync": "files synced", "rollback": "rolled back"}
_MAX_AUTHOR_LENGTH = 128
_MAX_LISTED = 20

_log: Any = structlog.get_logger(__name__)


class AuditLog:
    """Builds and writes the records of one gateway; `pod_uid` is empty outside a pod."""

    def __init__(self, store: CommitStore, clock: Clock, pod_uid: str) -> None:
        self._store = store
        self._clock = clock
        self._pod_uid = pod_uid

    async def sync_record(
        self,
        request: SyncRequest,
        result: SyncResult,
        applied_tree: AppliedTree | None,
        seconds: float,
        cause: SyncCause,
    ) -> AuditRecord:
        """The record of a sync; `applied_tree` is the tree on the disk after it."""
        plan, applied = result.planned.plan, result.applied
        warnings = (*plan.warnings, *result.planned.warnings, *applied.warnings)
        record = AuditRecord(
            action="sync",
            time=self._clock.now(),
            trigger=cause,
            gateway=plan.gateway,
            ref=request.ref,
            previous_commit=plan.from_commit,
            added=result.planned.added,
            modified=applied.put - result.planned.added,
            deleted=applied.deleted,
            plan_digest=plan.digest,
            tx=applied.tx,
            duration_ms=round(seconds * 1000),
            warnings=warnings[:_MAX_LISTED],
        )
        return structs.replace(record, **await self._applied_fields(applied_tree))

    async def rollback_record(
        self, applied: ApplyResult | None, applied_tree: AppliedTree | None, undone_commit: str
    ) -> AuditRecord:
        """The record of a rollback of `undone_commit`.

        `applied` is None if the rollback was applied before a crash.
        """
        record = AuditRecord(
            action="rollback",
            time=self._clock.now(),
            trigger="manual",
            previous_commit=undone_commit,
            modified=applied.put if applied is not None else 0,
            deleted=applied.deleted if applied is not None else 0,
            tx=applied.tx if applied is not None else "",
        )
        return structs.replace(record, **await self._applied_fields(applied_tree))

    async def resumed_sync_record(
        self, transaction: TransactionRecord, applied_tree: AppliedTree | None, *, question: str
    ) -> AuditRecord:
        """The record of a sync that was interrupted past its commit point and then resumed.

        `question` is about files that it kept; empty if there are none.
        """
        warnings = applied_tree.warnings if applied_tree is not None else ()
        puts = [step for step in transaction.steps if step.op == "put"]
        added = sum(step.was != "file" for step in puts)
        record = AuditRecord(
            action="sync",
            time=self._clock.now(),
            trigger="start",
            previous_commit=transaction.from_commit,
            added=added,
            modified=len(puts) - added,
            deleted=sum(step.op == "delete" for step in transaction.steps),
            tx=transaction.tx,
            warnings=((question, *warnings) if question else warnings)[:_MAX_LISTED],
        )
        return structs.replace(record, **await self._applied_fields(applied_tree))

    def write(self, record: AuditRecord | None, scan_result: str, reason: str = "") -> None:
        """Log a record, if there is one; `reason` is set if the gateway has not read the files."""
        if record is None:
            return
        fields = structs.asdict(record)
        action = fields.pop("action")
        fields["time"] = record.time.isoformat()
        _log.info(
            _LOG_MESSAGES[action],
            action=action,
            scan_result=scan_result,
            result=reason or "Synced",
            pod_uid=self._pod_uid,
            agent_version=__version__,
            **fields,
        )

    async def _applied_fields(self, applied_tree: AppliedTree | None) -> dict[str, Any]:
        """The fields that describe the tree on the disk and the author of its commit."""
        if applied_tree is None:
            return {}
        return {
            "commit": applied_tree.version.commit,
            "commit_author": await self._author(applied_tree.version.commit),
            "profile_hash": applied_tree.version.profile_hash,
            "tree_digest": applied_tree.tree_digest,
            "projects": applied_tree.projects[:_MAX_LISTED],
        }

    async def _author(self, commit: str) -> str:
        """The author of a commit; empty if the store has lost it, because only the files matter."""
        with contextlib.suppress(GitError):
            name = await run_in_thread(self._store.author_of, commit)
            return process.clean(name, limit=_MAX_AUTHOR_LENGTH)
        return ""
