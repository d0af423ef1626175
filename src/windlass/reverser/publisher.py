"""Turns closed windows into commits on the tip, and the commits into one push.

Nothing persistent moves before the server acknowledged: after any failure the windows
are put back and planned again on whatever the remote has then. A commit that became a
no-op on a new tip disappears; authors and dates stay.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.git import commit, edit
from windlass.git.format.person import Person
from windlass.git.store import Store
from windlass.objects import canonical
from windlass.objects.identity import Identity
from windlass.reverser import authorship
from windlass.reverser.arrival import Arrival
from windlass.reverser.authorship import Judge, Verdicts
from windlass.reverser.branch import Branch
from windlass.reverser.decide import author, claim, commit_dates, message, publication
from windlass.reverser.decide.attribution import Tier, Verdict
from windlass.reverser.decide.author import Author
from windlass.reverser.decide.publication import Publication, Wanted
from windlass.reverser.decide.window import PlannedCommit
from windlass.reverser.folder import Folder, Gathered
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class Signature:
    """Who we are in every commit we make."""

    cluster_uid: str
    controller_namespace: str
    controller_name: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class Batch:
    """One folder's closed window, ready to be planned."""

    folder: Folder
    waiting: Gathered
    removals: tuple[Arrival, ...]
    refused: frozenset[str]


@dataclass(frozen=True, slots=True)
class Written:
    """What one folder gets by the push: commits in order, and the paths they touch."""

    folder: Folder
    commits: tuple[PlannedCommit, ...]
    edits: dict[str, str | None]
    skipped: tuple[tuple[Identity, SkipReason], ...]
    claims: bool
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Built:
    """Commits that stand in the store, not yet anywhere else; none if `tip` is the base."""

    tip: str
    written: tuple[Written, ...]
    base: str = ""

    @property
    def changes_nothing(self) -> bool:
        return self.tip == self.base

    @property
    def commits(self) -> int:
        return sum(len(item.commits) for item in self.written)

    @property
    def files(self) -> int:
        return sum(len(item.edits) for item in self.written)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One folder's part of an acknowledged push."""

    built: Built
    written: Written
    lag_seconds: float
    """Since the oldest change of it was received."""
    push_seconds: float


class Publisher:
    """Builds the commits of one branch."""

    def __init__(self, branch: Branch, signature: Signature, judge: Judge, clock: Clock) -> None:
        self._branch = branch
        self._signature = signature
        self.judge = judge
        self._clock = clock

    async def build(self, batches: list[Batch]) -> Built:
        """Commits for `batches` on the present base."""
        judged = [(one, authorship.judged(one.waiting, self.judge)) for one in batches]
        failpoint.reach("reverser.commit.before")
        built = await asyncio.to_thread(self._write, judged)
        failpoint.reach("reverser.commit.after")
        return built

    async def stow(self, folder: Folder) -> None:
        """Put content that waits into the store ahead of its commit."""
        content = {
            arrival.blob: ("blob", arrival.content)
            for arrival in folder.waiting.arrivals
            if arrival.blob is not None and arrival.content is not None
        }
        await asyncio.to_thread(self._branch.store.write_objects, content)
        folder.stowed(content.keys())

    def _write(self, judged: list[tuple[Batch, Verdicts]]) -> Built:
        """Put blobs, trees and commits into the store; runs in a thread."""
        store = self._branch.store
        tip = self._branch.base
        tree = store.tree_of(tip) if tip is not None else None
        floor = store.committed_at(tip) if tip is not None else 0
        written = []
        for batch, verdicts in judged:
            plan = _plan(batch, verdicts)
            content = {a.blob: a.content for a in batch.waiting.arrivals if a.content is not None}
            claims = bool(plan.commits) and not batch.folder.claimed
            edits: dict[str, str | None] = {}
            for number, item in enumerate(plan.commits):
                extra = self._claim(batch.folder) if claims and number == 0 else {}
                tree = self._edited(store, tree, item, content, extra)
                tip, floor = self._committed(store, batch.folder, item, tree, tip, floor)
                edits.update({change.path: change.blob for change in item.changes})
            known = tuple(verdicts.values())
            written.append(Written(batch.folder, plan.commits, edits, plan.skipped, claims, known))
        return Built(tip or "", tuple(written), self._branch.base or "")

    def _claim(self, folder: Folder) -> dict[str, bytes]:
        return {folder.claim_path: claim.render(self.claim_of(folder))}

    def claim_of(self, folder: Folder) -> claim.Claim:
        return claim.Claim(
            cluster=self._signature.cluster_uid,
            destination=str(folder.target.key),
            emitter=canonical.EMITTER,
        )

    def _edited(
        self,
        store: Store,
        tree: str | None,
        item: PlannedCommit,
        content: dict[str | None, bytes],
        extra: dict[str, bytes],
    ) -> str:
        edits: dict[str, bytes | str | None] = dict(extra)
        for change in item.changes:
            body = content.get(change.blob)
            edits[change.path] = body if body is not None else change.blob
        return edit.edit_tree(store, tree, edits).tree

    def _committed(
        self,
        store: Store,
        folder: Folder,
        item: PlannedCommit,
        tree: str,
        parent: str | None,
        floor: int,
    ) -> tuple[str, int]:
        dates = commit_dates.commit_dates(
            item.received.timestamp(), self._clock.now().timestamp(), parent=floor
        )
        written = commit.write_commit(
            store,
            tree=tree,
            parents=[parent] if parent is not None else [],
            author=Person(item.author.name, item.author.email),
            author_time=datetime.fromtimestamp(dates.authored, UTC),
            committer=folder.target.committer,
            commit_time=datetime.fromtimestamp(dates.committed, UTC),
            message=self._message(folder, item),
        )
        return written, dates.committed

    def _message(self, folder: Folder, item: PlannedCommit) -> str:
        trailers = message.Trailers(
            cluster_uid=self._signature.cluster_uid,
            controller_namespace=self._signature.controller_namespace,
            controller_name=self._signature.controller_name,
            instance_id=self._signature.instance_id,
            destination=str(folder.target.key),
            user=item.user,
            attribution=item.tier,
        )
        return message.commit_message(
            item.changes,
            trailers,
            kind="sync" if item.tier == "sync" else "changes",
            base_folder=folder.target.base_folder,
        )


def lag_seconds(batches: list[Batch], folder: Folder, now: datetime) -> float:
    """Seconds since the oldest change of this push was received."""
    times = [
        arrival.received
        for batch in batches
        if batch.folder is folder
        for arrival in batch.waiting.arrivals
    ]
    return max(0.0, (now - min(times)).total_seconds()) if times else 0.0


def stored(waiting: Gathered, built: Built) -> Gathered:
    """The same window without the content that `built` put into the store.

    What changed nothing on this tip was not written; it may change something on the next.
    """
    commits = (commit for written in built.written for commit in written.commits)
    there = {change.blob for commit in commits for change in commit.changes if change.blob}
    return waiting.without(there)


def _plan(batch: Batch, verdicts: Verdicts) -> Publication:
    """The commits of a batch; a change without an observation comes from a snapshot."""
    committer = batch.folder.target.committer
    own = Author(committer.name, committer.email)
    wanted = [
        _wanted(arrival, *_credit(arrival, verdicts, own))
        for arrival in (*batch.waiting.arrivals, *batch.removals)
        if arrival.path not in batch.refused
    ]
    apart = batch.folder.target.window_seconds == 0
    return publication.publication(wanted, batch.folder.index, apart=apart)


def _credit(arrival: Arrival, verdicts: Verdicts, own: Author) -> tuple[Author, Tier, str]:
    """Author, tier and user of one change; a snapshot's are the committer's own."""
    if arrival.observation is None:
        return own, "sync", ""
    verdict = verdicts[arrival.observation]
    return author.author_of(verdict.actor), verdict.tier, author.user_text(verdict.actor)


def _wanted(arrival: Arrival, who: Author, tier: Tier, user: str) -> Wanted:
    return Wanted(
        path=arrival.path,
        identity=arrival.identity,
        blob=arrival.blob,
        size=arrival.size,
        mask=arrival.mask,
        author=who,
        tier=tier,
        user=user,
        received=arrival.received,
        reason=arrival.reason,
    )
