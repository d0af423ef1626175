"""The agent's durable state on the data volume (SIG-4), and a summary of the applied tree.

The manifest says what is on the disk; `AgentState` says the rest: the last metadata, which scans
are pending, which requests were done and what must not come again. A state file that cannot be
read is replaced by an empty one: everything in it arrives again, or costs one scan too many.

`AppliedTree` is the summary of a manifest. A manifest may name tens of thousands of files; it is
read when it changed, and only this is kept of it.

`AuditRecord` is the audit log's line for one sync or rollback. It is complete when the gateway has
read the files, or when it is known why it has not; until then it waits in the state: a crash there
writes a line twice rather than never.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
import structlog

from windlass import __version__
from windlass.base import failpoint
from windlass.gateways.agent.decisions import SyncVersion
from windlass.gateways.tree.manifest import Manifest
from windlass.gateways.volume import data_directory, state_directory
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.state_directory import AGENT_STATE_PATH
from windlass.gateways.wire.agent_report import SyncHistoryEntry

_LOG_MESSAGES = {"sync": "files synced", "rollback": "rolled back"}

_log: Any = structlog.get_logger(__name__)


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What was done to a gateway's files, why, and whose commit it was."""

    action: Literal["sync", "rollback"]
    time: datetime
    trigger: str
    gateway: str = ""
    ref: str = ""
    commit: str = ""
    commit_author: str = ""
    previous_commit: str = ""
    profile_hash: str = ""
    added: int = 0
    modified: int = 0
    deleted: int = 0
    projects: tuple[str, ...] = ()
    plan_digest: str = ""
    tree_digest: str = ""
    tx: str = ""
    duration_ms: int = 0
    warnings: tuple[str, ...] = ()


def write_audit_record(
    record: AuditRecord, scan_result: str, *, pod_uid: str, result: str = "Synced"
) -> None:
    """Write the line; `result` is the reason why the gateway has not read the files."""
    fields = msgspec.structs.asdict(record)
    action = fields.pop("action")
    fields["time"] = record.time.isoformat()
    _log.info(
        _LOG_MESSAGES[action],
        action=action,
        scan_result=scan_result,
        result=result,
        pod_uid=pod_uid,
        agent_version=__version__,
        **fields,
    )


class VersionMark(msgspec.Struct, frozen=True, rename="camel"):
    """A commit under a routing."""

    commit: str
    profile_hash: str


class PendingRollback(msgspec.Struct, frozen=True, rename="camel"):
    """A rollback that was begun: for which word, of which transaction and version."""

    value: str
    tx: str
    of: VersionMark | None


class LastSync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last sync that came to its end."""

    time: datetime
    seconds: float
    plan_digest: str = ""
    added: int = 0
    modified: int = 0
    deleted: int = 0


class AgentState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All of it; `read` is what the gateway has read, as far as it must be told to.

    `pending` are kinds of scans. `hashed` is when all files were last compared by content,
    or first synced: a restart must not put the next time off (DRF-1). `boots` says that the
    gateway's first boot, which may rewrite files, is still to come (STA-8). `audit` is the
    record of the last sync until it is said. `allowed` is the commit that the last sync was
    allowed to delete files for, empty where it was not; `kept_back` is what it says about
    files that it did not delete for want of that.
    """

    schema: int = state_directory.STATE_SCHEMA
    metadata: dict[str, str] = {}
    pending: tuple[str, ...] = ()
    read: VersionMark | None = None
    ref: str = ""
    scan_result: str = ""
    last_sync: LastSync | None = None
    history: tuple[SyncHistoryEntry, ...] = ()
    trigger: str = ""
    rollback: str = ""
    undoing: PendingRollback | None = None
    rolled_back: VersionMark | None = None
    boots: bool = False
    hashed: datetime | None = None
    audit: AuditRecord | None = None
    allowed: str = ""
    kept_back: str = ""


class AgentStateFile:
    """The memory on one volume; only the owner of the volume's lock may write it."""

    def __init__(self, tree: DataDirectory) -> None:
        self._directory = tree
        self._last_written: bytes | None = None

    def read(self) -> AgentState:
        """What is remembered; an empty memory where there is none to be read."""
        with data_directory.map_os_errors("reading the agent's memory"):
            data = self._directory.read(AGENT_STATE_PATH)
        self._last_written = data
        if data is None:
            return AgentState()
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            state_directory.check_schema(AGENT_STATE_PATH, data)
            return msgspec.json.decode(data, type=AgentState)
        return AgentState()

    def write(self, memory: AgentState) -> None:
        """Remember, durably; what is remembered already is not written again."""
        content = msgspec.json.encode(memory, order="sorted")
        if content == self._last_written:
            return
        failpoint.reach("gateways.memory.before")
        with data_directory.map_os_errors("writing the agent's memory"):
            state_directory.replace_document(self._directory, AGENT_STATE_PATH, content)
        self._last_written = content
        failpoint.reach("gateways.memory.after")


@dataclass(frozen=True, slots=True)
class AppliedTree:
    """The tree on the disk; `tree_digest` is equal for equal trees.

    `adopted` counts the files that were there before their directory was synced.
    """

    version: SyncVersion
    files: int
    projects: tuple[str, ...]
    tree_digest: str
    adopted: int = 0


def summarize_manifest(manifest: Manifest | None) -> AppliedTree | None:
    """What is on the disk; None before the first sync."""
    if manifest is None:
        return None
    return AppliedTree(
        version=SyncVersion(manifest.commit, manifest.profile_hash),
        files=len(manifest.files),
        projects=_project_names(manifest),
        tree_digest=tree_digest(manifest),
        adopted=len(manifest.adopted or ()),
    )


def tree_digest(manifest: Manifest) -> str:
    """One digest over all paths and contents."""
    digest = hashlib.sha256()
    for path in sorted(manifest.files):
        digest.update(f"{path}\0{manifest.files[path].sha256}\n".encode())
    return digest.hexdigest()


def _project_names(manifest: Manifest) -> tuple[str, ...]:
    parts = (path.split("/", 2) for path in manifest.files if path.startswith("projects/"))
    return tuple(sorted({part[1] for part in parts if len(part) > 2}))
