"""The audit record: one line of the log for every sync and rollback that came to its end.

The end is when the gateway has read the files, or when it is known why it has not. Until
then the record waits in the agent's memory: a crash there says a line twice rather than
never. A sync that a start had to end gets its line from the journal.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
import structlog

from windlass import __version__

_SAID = {"sync": "files synced", "rollback": "rolled back"}

_log: Any = structlog.get_logger(__name__)


class Audit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
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


def say(record: Audit, scan_result: str, *, pod_uid: str, result: str = "Synced") -> None:
    """Write the line; `result` is the reason why the gateway has not read the files."""
    fields = msgspec.structs.asdict(record)
    action = fields.pop("action")
    fields["time"] = record.time.isoformat()
    _log.info(
        _SAID[action],
        action=action,
        scan_result=scan_result,
        result=result,
        pod_uid=pod_uid,
        agent_version=__version__,
        **fields,
    )
