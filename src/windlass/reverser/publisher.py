"""Turns closed windows into commits on the tip, in two steps.

| Step | Makes | Again when |
|---|---|---|
| plan | commits, their blobs, the tree of the folder after each | a folder differs on a new tip |
| build | the trees above the folders, and the commits | the tip moved |

So a tip that somebody else moved without a change of our folders costs neither a plan nor a
blob. A commit that became a no-op on a new tip disappears when it is planned again; authors
and author dates stay. Nothing persistent moves before the server acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.git import push, trees
from windlass.git.format.objects import Person
from windlass.git.trees import TreeEditor
from windlass.objects import yaml_emitter
from windlass.objects.names import Identity
from windlass.reverser import authorship
from windlass.reverser.arrival import Arrival
from windlass.reverser.authorship import Judge, Verdicts
from windlass.reverser.branch import Branch
from windlass.reverser.decide import author, claim, commit_dates, message, publication, window
from windlass.reverser.decide.attribution import Miss, Tier
from windlass.reverser.decide.author import Author
from windlass.reverser.decide.cadence import Limits
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
class Step:
    """One planned commit of one folder, and the tree that the folder has after it."""

    folder: Folder
    commit: PlannedCommit
    tree: str
    claims: bool
    """Whether the folder's claim goes in with it."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Commits in order; their blobs and folder trees are in the store, but on no tip yet."""

    steps: tuple[Step, ...]
    skipped: tuple[tuple[Identity, SkipReason], ...]
    retained: tuple[tuple[Folder, frozenset[str]], ...] = ()
    """Paths of each folder that should go, and that its prune mode keeps."""

    @property
    def blobs(self) -> frozenset[str]:
        """What the store holds because of this."""
        changes = (change for step in self.steps for change in step.commit.changes)
        return frozenset(change.blob for change in changes if change.blob is not None)


@dataclass(frozen=True, slots=True)
class Written:
    """What one folder gets by a push: commits in order, and the paths they touch."""

    folder: Folder
    commits: tuple[PlannedCommit, ...]
    edits: dict[str, str | None]
    claims: bool

    @property
    def positions(self) -> dict[str, int]:
        """Of each path the last arrival of the window that these commits carry."""
        return {change.path: change.at for one in self.commits for change in one.changes}


@dataclass(frozen=True, slots=True)
class Built:
    """Commits that stand in the store, not yet anywhere else."""

    tip: str
    base: str
    steps: tuple[Step, ...]

    @property
    def files(self) -> int:
        return sum(len(item.edits) for item in self.written)

    @property
    def written(self) -> tuple[Written, ...]:
        """The steps by folder."""
        folders = {id(step.folder): step.folder for step in self.steps}
        return tuple(_written(folder, self.steps) for folder in folders.values())


def _written(folder: Folder, steps: tuple[Step, ...]) -> Written:
    own = [step for step in steps if step.folder is folder]
    commits = tuple(step.commit for step in own)
    edits = {change.path: change.blob for commit in commits for change in commit.changes}
    return Written(folder, commits, edits, any(step.claims for step in own))


@dataclass(frozen=True, slots=True)
class Delivery:
    """One folder's part of an acknowledged push."""

    built: Built
    written: Written
    lag_seconds: float
    """Since the oldest change of it was received."""
    push_seconds: float
    creates: bool = False
    """Whether the branch was not there before."""


class Publisher:
    """Builds the commits of one branch."""

    def __init__(
        self, branch: Branch, signature: Signature, judge: Judge, clock: Clock, limits: Limits
    ) -> None:
        self._branch = branch
        self._limits = limits
        self._signature = signature
        self.judge = judge
        self._clock = clock

    async def plan(self, batches: list[Batch]) -> Planned:
        """What `batches` become, as trees of their folders on the present base."""
        judged = [(one, authorship.judged(one.waiting, self.judge)) for one in batches]
        return await asyncio.to_thread(self._prepare, judged)

    async def build(self, steps: tuple[Step, ...]) -> Built:
        """Commits for `steps` on the present base, which has their folders as they were planned."""
        failpoint.reach("reverser.commit.before")
        built = await asyncio.to_thread(self._stack, steps)
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

    def _prepare(self, judged: list[tuple[Batch, Verdicts]]) -> Planned:
        """Put blobs and folder trees into the store; runs in a thread."""
        editing = trees.TreeEditor(self._branch.store)
        steps: list[Step] = []
        skipped: list[tuple[Identity, SkipReason]] = []
        retained: list[tuple[Folder, frozenset[str]]] = []
        for batch, verdicts in judged:
            plan = _plan(batch, verdicts, self._limits)
            steps += self._steps(editing, batch, plan)
            skipped += plan.skipped
            retained.append((batch.folder, plan.retained))
        editing.write()
        return Planned(tuple(steps), tuple(skipped), tuple(retained))

    def _steps(self, editing: TreeEditor, batch: Batch, plan: Publication) -> Iterator[Step]:
        folder = batch.folder
        content = {a.blob: a.content for a in batch.waiting.arrivals if a.content is not None}
        tree = self._branch.tree_at(folder.target.base_folder)
        for number, item in enumerate(plan.commits):
            claims = number == 0 and not folder.claimed
            edits = _edits(folder, item, content)
            if claims:
                edits[claim.FILE_NAME] = claim.render(self.claim_of(folder))
            tree = editing.edit(tree, edits)
            yield Step(folder, item, tree, claims)

    def _stack(self, steps: tuple[Step, ...]) -> Built:
        """Put the trees above the folders and the commits into the store; runs in a thread."""
        store, base = self._branch.store, self._branch.base
        editing = trees.TreeEditor(store)
        tree = store.tree_of(base) if base is not None else None
        tip, floor = base, store.committed_at(base) if base is not None else 0
        for step in steps:
            place = {step.folder.target.base_folder: trees.Directory(step.tree)}
            tree = editing.edit(tree, place)
            tip, floor = self._committed(editing, step, tree, tip, floor)
        editing.write()
        return Built(tip or "", base or "", steps)

    def claim_of(self, folder: Folder) -> claim.Claim:
        return claim.Claim(
            cluster=self._signature.cluster_uid,
            destination=str(folder.target.key),
            emitter=yaml_emitter.EMITTER,
        )

    def _committed(
        self, editing: TreeEditor, step: Step, tree: str, parent: str | None, floor: int
    ) -> tuple[str, int]:
        folder, item = step.folder, step.commit
        dates = commit_dates.commit_dates(
            item.received.timestamp(), self._clock.now().timestamp(), parent=floor
        )
        written = push.write_commit(
            editing,
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
            unresolved=item.miss,
        )
        return message.commit_message(
            item.changes,
            trailers,
            kind="sync" if item.tier == "sync" else "changes",
            base_folder=folder.target.base_folder,
        )


def _edits(
    folder: Folder, item: PlannedCommit, content: dict[str | None, bytes]
) -> dict[str, trees.Edit]:
    """The changes of a commit by their paths within the folder."""
    above = f"{folder.target.base_folder}/"
    found: dict[str, trees.Edit] = {}
    for change in item.changes:
        body = content.get(change.blob)
        found[change.path.removeprefix(above)] = body if body is not None else change.blob
    return found


def _plan(batch: Batch, verdicts: Verdicts, limits: Limits) -> Publication:
    """The commits of a batch; a change without an observation comes from a snapshot."""
    committer = batch.folder.target.committer
    own = Author(committer.name, committer.email)
    wanted = [
        _wanted(at, arrival, *_credit(arrival, verdicts, own))
        for at, arrival in enumerate((*batch.waiting.arrivals, *batch.removals))
        if arrival.path not in batch.refused
    ]
    target = batch.folder.target
    return publication.publication(
        wanted,
        batch.folder.index,
        apart=target.window_seconds == 0,
        prune=target.prune,
        limits=limits,
    )


def _credit(arrival: Arrival, verdicts: Verdicts, own: Author) -> window.Signature:
    """Author, tier and user of one change; a snapshot's are the committer's own."""
    if arrival.observation is None:
        return own, "sync", "", ""
    verdict = verdicts[arrival.observation]
    user = author.user_text(verdict.actor)
    return author.author_of(verdict.actor), verdict.tier, user, verdict.reason


def _wanted(at: int, arrival: Arrival, who: Author, tier: Tier, user: str, miss: Miss) -> Wanted:
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
        at=at,
        miss=miss,
    )
