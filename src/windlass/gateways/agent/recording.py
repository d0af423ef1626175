"""Puts audit records together, and says them when their time has come.

What others wrote in them (the author's name) is redacted and cut here already, because a
record is kept on the disk for a while.
"""

from __future__ import annotations

import contextlib
from typing import Any

from msgspec import structs

from windlass.base.clock import Clock
from windlass.base.redaction import process
from windlass.base.tasks import run_in_thread
from windlass.gateways.agent import audit
from windlass.gateways.agent.audit import Audit
from windlass.gateways.agent.engine import Synced
from windlass.gateways.agent.holding import Holding
from windlass.gateways.agent.journal import Record
from windlass.gateways.agent.order import Order
from windlass.gateways.agent.transaction import Applied
from windlass.gateways.decide.occasion import Occasion
from windlass.git.commit_store import CommitStore
from windlass.git.errors import GitError

NOT_SCANNED = "not scanned"
NO_SCAN = "none needed"

_LONGEST_AUTHOR = 128
_MOST_LISTED = 20


class Recording:
    """The records of one gateway; `pod_uid` is empty where no pod works on it."""

    def __init__(self, store: CommitStore, clock: Clock, pod_uid: str) -> None:
        self._store = store
        self._clock = clock
        self._pod_uid = pod_uid

    async def sync(
        self, order: Order, done: Synced, held: Holding | None, seconds: float, occasion: Occasion
    ) -> Audit:
        """The record of a sync; `held` is what is on the disk now."""
        plan, applied = done.planned.plan, done.applied
        warnings = (*plan.warnings, *done.planned.warnings, *applied.warnings)
        record = Audit(
            action="sync",
            time=self._clock.now(),
            trigger=occasion,
            gateway=plan.gateway,
            ref=order.ref,
            previous_commit=plan.from_commit,
            added=done.planned.added,
            modified=applied.put - done.planned.added,
            deleted=applied.deleted,
            plan_digest=plan.digest,
            tx=applied.tx,
            duration_ms=round(seconds * 1000),
            warnings=warnings[:_MOST_LISTED],
        )
        return structs.replace(record, **await self._left(held))

    async def rollback(self, applied: Applied | None, held: Holding | None, undone: str) -> Audit:
        """The record of a rollback of commit `undone`.

        Without `applied` a run that was killed had done it already.
        """
        record = Audit(
            action="rollback",
            time=self._clock.now(),
            trigger="manual",
            previous_commit=undone,
            modified=applied.put if applied is not None else 0,
            deleted=applied.deleted if applied is not None else 0,
            tx=applied.tx if applied is not None else "",
        )
        return structs.replace(record, **await self._left(held))

    async def resumed(self, ended: Record, held: Holding | None) -> Audit:
        """The record of a sync that was cut off past its commit point, and ended by a start."""
        puts = [step for step in ended.steps if step.op == "put"]
        added = sum(step.was != "file" for step in puts)
        record = Audit(
            action="sync",
            time=self._clock.now(),
            trigger="start",
            previous_commit=ended.from_commit,
            added=added,
            modified=len(puts) - added,
            deleted=sum(step.op == "delete" for step in ended.steps),
            tx=ended.tx,
        )
        return structs.replace(record, **await self._left(held))

    def say(self, record: Audit | None, scan_result: str, reason: str = "") -> None:
        """Say a record, if there is one; `reason` is why the gateway has not read the files."""
        if record is not None:
            audit.say(record, scan_result, pod_uid=self._pod_uid, result=reason or "Synced")

    async def _left(self, held: Holding | None) -> dict[str, Any]:
        """What is on the disk now, and whose it is."""
        if held is None:
            return {}
        return {
            "commit": held.version.commit,
            "commit_author": await self._author(held.version.commit),
            "profile_hash": held.version.profile_hash,
            "tree_digest": held.tree_digest,
            "projects": held.projects[:_MOST_LISTED],
        }

    async def _author(self, commit: str) -> str:
        """Who wrote a commit; the files count, so a store that has lost it is no fault."""
        with contextlib.suppress(GitError):
            name = await run_in_thread(self._store.author_of, commit)
            return process.clean(name, limit=_LONGEST_AUTHOR)
        return ""
