"""The agent's durable state on the data volume (SIG-4), and a summary of the applied tree.

The manifest records what is on the disk; `AgentState` records the rest: the last metadata, pending
scans, handled requests, and the version that must not be synced again. A state file that cannot be
read is replaced by an empty one: its content is received again, or costs one scan too many.

`AppliedTree` is the summary of a manifest. A manifest may name tens of thousands of files; it is
read when it changed, and only the summary stays in memory.

`AuditRecord` is the audit log's line for one sync or rollback. It is complete when the gateway has
read the files, or when it is known why it has not; until then it waits in the state: a crash in
between writes a line twice rather than never.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from windlass.base import failpoint
from windlass.gateways.agent.approvals import DeleteApproval, DeleteRequest
from windlass.gateways.agent.decisions import SyncVersion
from windlass.gateways.tree.manifest import Manifest
from windlass.gateways.volume import data_directory, state_directory
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.state_directory import AGENT_STATE_PATH
from windlass.gateways.wire.agent_report import SyncHistoryEntry


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was done to a gateway's files, why, and who wrote the commit; empty is unknown."""

    action: Literal["sync", "rollback"]  # selects the log message
    time: datetime  # wall clock, end of the action
    trigger: str  # a `decisions.SyncCause`
    gateway: str = ""  # name of the gateway
    ref: str = ""  # branch or tag that led to the commit
    commit: str = ""  # on the disk after the action
    commit_author: str = ""  # redacted and cut
    previous_commit: str = ""  # on the disk before the action
    profile_hash: str = ""  # routing of the gateway
    added: int = 0  # files
    modified: int = 0  # files
    deleted: int = 0  # files
    projects: tuple[str, ...] = ()  # first projects in the tree
    plan_digest: str = ""  # equal for equal plans
    tree_digest: str = ""  # equal for equal trees
    tx: str = ""  # id of the transaction in the journal
    duration_ms: int = 0  # of the sync; 0 for what a start resumed
    warnings: tuple[str, ...] = ()  # first warnings of plan and apply


class PendingRollback(msgspec.Struct, frozen=True, rename="camel"):
    """A rollback that was begun and not finished."""

    # The request: value of the rollback annotation.
    value: str
    # The transaction to undo.
    tx: str
    # The version that is undone; None without a manifest.
    of: SyncVersion | None


class LastSync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last sync that changed files; the first one even if it changed none."""

    time: datetime  # wall clock, end of the sync
    seconds: float  # duration
    plan_digest: str = ""  # of the applied plan
    added: int = 0  # files
    modified: int = 0  # files
    deleted: int = 0  # files


class AgentState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The agent's durable state; written by `GatewayOperations` only."""

    # Schema of the state file; a newer one is refused.
    schema: int = state_directory.STATE_SCHEMA
    # Keys of the newest metadata ConfigMap; used until the API server is reachable.
    metadata: dict[str, str] = {}
    # Kinds of scans that the gateway still has to run.
    pending: tuple[str, ...] = ()
    # Version that the gateway has read; None if unknown.
    read: SyncVersion | None = None
    # Branch or tag of the last sync.
    ref: str = ""
    # Result of the last scan, as it is published.
    scan_result: str = ""
    # None before the first sync.
    last_sync: LastSync | None = None
    # Last syncs and failures, newest first.
    history: tuple[SyncHistoryEntry, ...] = ()
    # Last sync request that was handled.
    trigger: str = ""
    # Rollback request that was handled; empty again once it is withdrawn.
    rollback: str = ""
    # Rollback in progress; None otherwise.
    undoing: PendingRollback | None = None
    # Version that was rolled back and must not be synced again without a request.
    rolled_back: SyncVersion | None = None
    # The gateway's first boot, which may rewrite files, is still to come (STA-8).
    boots: bool = False
    # Wall clock when all files were last compared by content, or first synced: a restart must
    # not postpone the next comparison (DRF-1). None before the first sync.
    hashed: datetime | None = None
    # Audit record of the last sync or rollback, until it is written with its scan result.
    audit: AuditRecord | None = None
    # The annotation that approves deletions; None while there is none.
    approval: DeleteApproval | None = None
    # Files that the last sync, or one that was refused, keeps until their deletion is approved;
    # None if unknown: nobody was asked then.
    delete_request: DeleteRequest | None = None


class AgentStateFile:
    """The state file on one volume; only the owner of the volume's lock may write it."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        # Content of the file as last read or written; None without a file.
        self._last_written: bytes | None = None

    def read(self) -> AgentState:
        """The stored state; an empty one if there is no file or it cannot be decoded."""
        with data_directory.map_os_errors("reading the agent state"):
            data = self._directory.read(AGENT_STATE_PATH)
        self._last_written = data
        if data is None:
            return AgentState()
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            state_directory.check_schema(AGENT_STATE_PATH, data)
            return msgspec.json.decode(data, type=AgentState)
        return AgentState()

    def write(self, state: AgentState) -> None:
        """Replace the file durably; an equal state is not written again."""
        content = msgspec.json.encode(state, order="sorted")
        if content == self._last_written:
            return
        failpoint.reach("gateways.memory.before")
        with data_directory.map_os_errors("writing the agent state"):
            state_directory.replace_document(self._directory, AGENT_STATE_PATH, content)
        self._last_written = content
        failpoint.reach("gateways.memory.after")


@dataclass(frozen=True, slots=True)
class AppliedTree:
    """A summary of the tree on the disk; `tree_digest` is equal for equal trees.

    `adopted` counts the files that existed before their directory was first synced. `warnings` are
    the first ones of the plan that led to the tree, `warning_count` counts all of them.
    """

    version: SyncVersion
    projects: tuple[str, ...]
    tree_digest: str
    adopted: int = 0
    warnings: tuple[str, ...] = ()
    warning_count: int = 0


def summarize_manifest(manifest: Manifest | None) -> AppliedTree | None:
    """The summary of a manifest; None before the first sync."""
    if manifest is None:
        return None
    return AppliedTree(
        version=SyncVersion(manifest.commit, manifest.profile_hash),
        projects=_project_names(manifest),
        tree_digest=tree_digest(manifest),
        adopted=len(manifest.adopted or ()),
        warnings=manifest.warnings,
        warning_count=manifest.warning_count,
    )


def tree_digest(manifest: Manifest) -> str:
    """The SHA-256 over all paths and content hashes of a manifest."""
    digest = hashlib.sha256()
    for path in sorted(manifest.files):
        digest.update(f"{path}\0{manifest.files[path].sha256}\n".encode())
    return digest.hexdigest()


def _project_names(manifest: Manifest) -> tuple[str, ...]:
    parts = (path.split("/", 2) for path in manifest.files if path.startswith("projects/"))
    return tuple(sorted({part[1] for part in parts if len(part) > 2}))
