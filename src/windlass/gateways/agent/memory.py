"""What an agent has to know after a restart, kept on the data volume (SIG-4).

The manifest says what is on the disk; this says the rest: what was told last, which scans
are still owed, what was heeded and what must not come again. A memory that cannot be read
is begun anew: everything in it is told again by somebody, or costs one scan too many.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

import msgspec

from windlass.base import failpoint
from windlass.gateways.agent import state_directory, volume
from windlass.gateways.agent.audit import Audit
from windlass.gateways.agent.state_directory import MEMORY
from windlass.gateways.agent.tree import Tree
from windlass.gateways.decide.status_report import PastSync


class Mark(msgspec.Struct, frozen=True, rename="camel"):
    """A commit under a routing."""

    commit: str
    profile_hash: str


class Undoing(msgspec.Struct, frozen=True, rename="camel"):
    """A rollback that was begun: for which word, of which transaction and version."""

    value: str
    tx: str
    of: Mark | None


class LastSync(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last sync that came to its end."""

    time: datetime
    seconds: float
    plan_digest: str = ""
    added: int = 0
    modified: int = 0
    deleted: int = 0


class Memory(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """All of it; `read` is what the gateway has read, as far as it must be told to.

    `pending` are kinds of scans. `hashed` is when all files were last compared by content,
    or first synced: a restart must not put the next time off (DRF-1). `boots` says that the
    gateway's first boot, which may rewrite files, is still to come (STA-8). `audit` is the
    record of the last sync until it is said. `allowed` is the commit that the last sync was
    allowed to delete files for, empty where it was not; `kept_back` is what it says about
    files that it did not delete for want of that.
    """

    schema: int = state_directory.SCHEMA
    metadata: dict[str, str] = {}
    pending: tuple[str, ...] = ()
    read: Mark | None = None
    ref: str = ""
    scan_result: str = ""
    last_sync: LastSync | None = None
    history: tuple[PastSync, ...] = ()
    trigger: str = ""
    rollback: str = ""
    undoing: Undoing | None = None
    rolled_back: Mark | None = None
    boots: bool = False
    hashed: datetime | None = None
    audit: Audit | None = None
    allowed: str = ""
    kept_back: str = ""


class MemoryFile:
    """The memory on one volume; only the owner of the volume's lock may write it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._written: bytes | None = None

    def read(self) -> Memory:
        """What is remembered; an empty memory where there is none to be read."""
        with volume.faults("reading the agent's memory"):
            data = self._tree.read(MEMORY)
        self._written = data
        if data is None:
            return Memory()
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            state_directory.check_schema(MEMORY, data)
            return msgspec.json.decode(data, type=Memory)
        return Memory()

    def write(self, memory: Memory) -> None:
        """Remember, durably; what is remembered already is not written again."""
        content = msgspec.json.encode(memory, order="sorted")
        if content == self._written:
            return
        failpoint.reach("gateways.memory.before")
        with volume.faults("writing the agent's memory"):
            state_directory.replace(self._tree, MEMORY, content)
        self._written = content
        failpoint.reach("gateways.memory.after")
