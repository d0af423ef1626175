"""Plans and builds the commits of closed windows on the tip of one branch.

The branch worker calls the two steps:

| Step | Writes into the store | Repeated when |
|---|---|---|
| plan | commits, their blobs, the tree of the folder after each | a folder differs on a new tip, \
or the commits that it was limited to are pushed |
| build | the trees above the folders, and the commits | the tip moved |

So a tip that another writer moved without a change of our folders costs neither a plan nor a
blob. A commit that became a no-op on a new tip disappears when it is planned again; authors
and author dates stay. Nothing persistent moves before the server acknowledged.

Pending changes are attributed by the admission records:

| When | Then |
|---|---|
| a window closes | every change without a proven author is judged |
| a change is so old that all its records must have arrived | judged, and kept if proven |

The second matters where a window stays open, or a remote is unreachable, for longer than records
are kept (ATT-7). Sooner than that, a record that is still under way could contradict the verdict.
An author once proven is kept through every retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.git import push, trees
from windlass.git.format.objects import Person
from windlass.git.trees import TreeEditor
from windlass.objects import yaml_emitter
from windlass.objects.names import Identity
from windlass.reverser.attribution import author
from windlass.reverser.attribution.author import Author
from windlass.reverser.attribution.record_join import (
    AuthorVerdict,
    Observation,
)
from windlass.reverser.publish import commit_message, commit_plan, folder_claim
from windlass.reverser.publish.cadence import WindowLimits
from windlass.reverser.publish.commit_plan import AttributedUpdate, CommitPlan, PlannedCommit
from windlass.reverser.publish.file_update import FileUpdate
from windlass.reverser.publish.folder import Folder, PendingWindow
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.telemetry.reasons import SkipReason


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """The controller as the trailers of its commits name it."""

    cluster_uid: str
    controller_namespace: str
    controller_name: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class FolderBatch:
    """One folder's closed window, ready to be planned."""

    folder: Folder
    window: PendingWindow
    removals: tuple[FileUpdate, ...]
    """Files that snapshots or reviews of the window prove to be obsolete."""
    refused: frozenset[str]
    """Paths that foreign content occupies; they are not written."""


@dataclass(frozen=True, slots=True)
class CommitStep:
    """One planned commit of one folder, and the id of the folder's tree after it."""

    folder: Folder
    commit: PlannedCommit
    tree: str
    claims: bool
    """Whether the commit adds the folder's claim."""


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """Commits in order; their blobs and folder trees are in the store, but on no tip yet."""

    steps: tuple[CommitStep, ...]
    skipped: tuple[tuple[Identity, SkipReason], ...]
    retained: tuple[tuple[Folder, frozenset[str]], ...] = ()
    """Per folder the paths that should be removed and that its prune mode keeps."""
    later: int = 0
    """How many commits follow the steps; they are planned again once those are pushed."""

    @property
    def blobs(self) -> frozenset[str]:
        """The blobs that planning put into the store."""
        changes = (change for step in self.steps for change in step.commit.changes)
        return frozenset(change.blob for change in changes if change.blob is not None)


@dataclass(frozen=True, slots=True)
class FolderCommits:
    """One folder's part of a push: commits in order, and the last blob of each touched path."""

    folder: Folder
    commits: tuple[PlannedCommit, ...]
    edits: dict[str, str | None]
    claims: bool

    @property
    def positions(self) -> dict[str, int]:
        """Per path the position in the window of the last update that these commits carry."""
        return {
            change.path: change.position for commit in self.commits for change in commit.changes
        }


@dataclass(frozen=True, slots=True)
class BuiltCommits:
    """Commits that exist only in the store: `tip` is the last of them, `base` their parent."""

    tip: str
    base: str
    steps: tuple[CommitStep, ...]

    @property
    def files(self) -> int:
        """The number of paths that the commits touch."""
        return sum(len(commits.edits) for commits in self.written)

    @property
    def written(self) -> tuple[FolderCommits, ...]:
        """The steps, grouped by folder."""
        folders = {id(step.folder): step.folder for step in self.steps}
        return tuple(_folder_commits(folder, self.steps) for folder in folders.values())


def _folder_commits(folder: Folder, steps: tuple[CommitStep, ...]) -> FolderCommits:
    folder_steps = [step for step in steps if step.folder is folder]
    commits = tuple(step.commit for step in folder_steps)
    edits = {change.path: change.blob for commit in commits for change in commit.changes}
    return FolderCommits(folder, commits, edits, any(step.claims for step in folder_steps))


@dataclass(frozen=True, slots=True)
class Delivery:
    """One folder's part of an acknowledged push, for metrics and the audit log."""

    built: BuiltCommits
    written: FolderCommits
    lag_seconds: float
    """Since the oldest change in it was received."""
    push_seconds: float
    creates_branch: bool = False
    """Whether the branch did not exist before."""


class Publisher:
    """Plans and builds the commits of one branch."""

    def __init__(
        self,
        branch: RemoteBranch,
        controller_identity: ControllerIdentity,
        judge: Judge,
        clock: Clock,
        limits: WindowLimits,
    ) -> None:
        self._branch = branch
        self._limits = limits
        self._controller_identity = controller_identity
        self.judge = judge
        self._clock = clock

    async def plan(self, batches: list[FolderBatch], commits: int) -> PublishPlan:
        """The first `commits` of `batches`, as trees of their folders on the current base."""
        judged = [(batch, judge_window(batch.window, self.judge)) for batch in batches]
        return await asyncio.to_thread(self._write_trees, judged, commits)

    async def build(self, steps: tuple[CommitStep, ...]) -> BuiltCommits:
        """Commits of `steps` on the current base; its folders must be those of the plan."""
        failpoint.reach("reverser.commit.before")
        built = await asyncio.to_thread(self._build_commits, steps)
        failpoint.reach("reverser.commit.after")
        return built

    async def store_content(self, folder: Folder) -> None:
        """Move pending content from memory into the store, ahead of its commit."""
        content = {
            update.blob: ("blob", update.content)
            for update in folder.window.updates
            if update.blob is not None and update.content is not None
        }
        await asyncio.to_thread(self._branch.store.write_objects, content)
        folder.drop_content(content.keys())

    def _write_trees(self, judged: list[tuple[FolderBatch, Verdicts]], commits: int) -> PublishPlan:
        """Put blobs and folder trees into the store; runs in a thread."""
        editor = trees.TreeEditor(self._branch.store)
        plans = [(batch, _plan_batch(batch, verdicts, self._limits)) for batch, verdicts in judged]
        # Trees cost most, in a large flat folder seconds for a hundred: only those that are pushed.
        every_step = chain.from_iterable(self._steps(editor, batch, plan) for batch, plan in plans)
        steps = tuple(islice(every_step, commits))
        editor.write()
        return PublishPlan(
            steps,
            tuple(skip for _, plan in plans for skip in plan.skipped),
            tuple((batch.folder, plan.retained) for batch, plan in plans),
            sum(len(plan.commits) for _, plan in plans) - len(steps),
        )

    def _steps(
        self, editor: TreeEditor, batch: FolderBatch, plan: CommitPlan
    ) -> Iterator[CommitStep]:
        folder = batch.folder
        content = {
            update.blob: update.content
            for update in batch.window.updates
            if update.content is not None
        }
        tree = self._branch.tree_at(folder.target.base_folder)
        for number, commit in enumerate(plan.commits):
            claims = number == 0 and not folder.is_claimed
            edits = _folder_edits(folder, commit, content)
            if claims:
                edits[folder_claim.FILE_NAME] = folder_claim.render_claim(self.make_claim(folder))
            tree = editor.edit(tree, edits)
            yield CommitStep(folder, commit, tree, claims)

    def _build_commits(self, steps: tuple[CommitStep, ...]) -> BuiltCommits:
        """Put the trees above the folders and the commits into the store; runs in a thread."""
        store, base = self._branch.store, self._branch.base
        editor = trees.TreeEditor(store)
        tree = store.tree_of(base) if base is not None else None
        # A commit must not be older than its parent, even if the clock jumped back.
        tip, floor = base, store.committed_at(base) if base is not None else 0
        for step in steps:
            edits = {step.folder.target.base_folder: trees.Directory(step.tree)}
            tree = editor.edit(tree, edits)
            tip, floor = self._write_commit(editor, step, tree, tip, floor)
        editor.write()
        return BuiltCommits(tip or "", base or "", steps)

    def make_claim(self, folder: Folder) -> folder_claim.FolderClaim:
        """The claim that this controller writes into a folder."""
        return folder_claim.FolderClaim(
            cluster=self._controller_identity.cluster_uid,
            destination=str(folder.target.key),
            emitter=yaml_emitter.EMITTER,
        )

    def _write_commit(
        self, editor: TreeEditor, step: CommitStep, tree: str, parent: str | None, floor: int
    ) -> tuple[str, int]:
        folder, commit = step.folder, step.commit
        dates = commit_plan.choose_dates(
            commit.received.timestamp(), self._clock.now().timestamp(), parent=floor
        )
        commit_id = push.write_commit(
            editor,
            tree=tree,
            parents=[parent] if parent is not None else [],
            author=Person(commit.author.name, commit.author.email),
            author_time=datetime.fromtimestamp(dates.authored, UTC),
            committer=folder.target.committer,
            commit_time=datetime.fromtimestamp(dates.committed, UTC),
            message=self._message(folder, commit),
        )
        return commit_id, dates.committed

    def _message(self, folder: Folder, commit: PlannedCommit) -> str:
        trailers = commit_message.Trailers(
            cluster_uid=self._controller_identity.cluster_uid,
            controller_namespace=self._controller_identity.controller_namespace,
            controller_name=self._controller_identity.controller_name,
            instance_id=self._controller_identity.instance_id,
            destination=str(folder.target.key),
            user=commit.user,
            attribution=commit.tier,
            unresolved=commit.unresolved_reason,
        )
        return commit_message.render_message(
            commit.changes,
            trailers,
            kind="sync" if commit.tier == "sync" else "changes",
            base_folder=folder.target.base_folder,
        )


def _folder_edits(
    folder: Folder, commit: PlannedCommit, content: dict[str | None, bytes]
) -> dict[str, trees.Edit]:
    """The edits of a commit by paths within the folder: bytes, a stored blob, or None."""
    prefix = f"{folder.target.base_folder}/"
    edits: dict[str, trees.Edit] = {}
    for change in commit.changes:
        body = content.get(change.blob)
        edits[change.path.removeprefix(prefix)] = body if body is not None else change.blob
    return edits


def _plan_batch(batch: FolderBatch, verdicts: Verdicts, limits: WindowLimits) -> CommitPlan:
    """The commits of a batch, without the paths that are occupied."""
    committer = batch.folder.target.committer
    snapshot_author = Author(committer.name, committer.email)
    desired = [
        AttributedUpdate(update, _commit_signature(update, verdicts, snapshot_author), position)
        for position, update in enumerate((*batch.window.updates, *batch.removals))
        if update.path not in batch.refused
    ]
    target = batch.folder.target
    return commit_plan.build_commit_plan(
        desired,
        batch.folder.index,
        separate=target.window_seconds == 0,
        prune=target.prune,
        limits=limits,
    )


def _commit_signature(
    update: FileUpdate, verdicts: Verdicts, snapshot_author: Author
) -> commit_plan.CommitSignature:
    """Signature of one change; without an observation it comes from a snapshot."""
    if update.observation is None:
        return snapshot_author, "sync", "", ""
    verdict = verdicts[update.observation]
    user = author.display_user(verdict.actor)
    return author.commit_author(verdict.actor), verdict.tier, user, verdict.reason


Judge = Callable[[Observation], AuthorVerdict]
Verdicts = dict[Observation, AuthorVerdict]

SETTLE_SECONDS = 5.0
"""How long after a change its records, and those that contradict them, may still arrive."""


def judge_window(window: PendingWindow, judge: Judge) -> Verdicts:
    """The verdict on every observed change, by the records of now."""
    for update in window.updates:
        if update.observation is not None:
            _judge_observation(window, update.observation, judge)
    return window.verdicts


def next_settle_time(window: PendingWindow) -> float:
    """The monotonic time at which the next change is old enough for its verdict."""
    for position in range(
        window.settled_count, len(window.updates) if window.observed_count else 0
    ):
        observation = window.updates[position].observation
        if observation is not None:
            return observation.received + SETTLE_SECONDS
    return float("inf")


def settle_window(window: PendingWindow, judge: Judge, now: float) -> None:
    """Judge the changes whose records must all have arrived."""
    while window.settled_count < len(window.updates):
        observation = window.updates[window.settled_count].observation
        if observation is not None:
            if now < observation.received + SETTLE_SECONDS:
                return
            _judge_observation(window, observation, judge)
        window.settled_count += 1


def _judge_observation(window: PendingWindow, observation: Observation, judge: Judge) -> None:
    verdict = window.verdicts.get(observation)
    if verdict is None or verdict.actor is None:
        window.verdicts[observation] = judge(observation)
