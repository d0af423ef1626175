"""A destination's folder: its files as the branch has them, and the updates that are pending.

Owned by one branch worker; the mirror adds updates through it. The index (path -> blob id)
mirrors the last tree that the server acknowledged. An update that equals what the folder will
hold anyway is dropped at once, so equal content costs no memory and no Git work. Nothing moves
into the index before a push was acknowledged. `WriteTarget` is where one destination's files go,
and with which identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from windlass.base.errors import WindlassError
from windlass.git.credentials import Credentials
from windlass.git.format.objects import Person
from windlass.git.format.remote import Remote
from windlass.git.store import Entry
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.content import file_paths
from windlass.reverser.file_operation import PruneMode
from windlass.reverser.publish import folder_claim, path_ownership
from windlass.reverser.publish.file_update import FileUpdate, FolderReview, ScopeSnapshot
from windlass.reverser.selection.rule_coverage import RuleCoverage


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A GitDestination whose references were checked; equal targets mean equal behavior."""

    key: Key
    """The GitDestination."""
    uid: str
    """Its metadata.uid, so a destination that was created again is another target."""
    repository: Key
    """The GitRepoConfig; destinations of one share credentials and errors."""
    remote: Remote
    """The parsed address."""
    branch: str
    """Name of the branch, without refs/heads/."""
    base_folder: str
    """From the root of the repository, without slashes at its ends."""
    create_branch: bool
    """Whether a missing branch is started from the default branch."""
    window_seconds: float | None
    """spec.commitWindow; None for the adaptive cadence, 0 for one commit per event."""
    committer: Person
    """Committer of every commit, and author of what snapshots find."""
    credentials: Credentials
    """For fetch and push."""
    takeover: str | None
    """The claim holder that the take-over annotation names; None without annotation."""
    salt: bytes
    """Key of the digests that replace redacted values."""
    prune: PruneMode = "Always"
    """Which removals are written (SNP-6)."""
    created: str = ""
    """metadata.creationTimestamp as the API writes it: the older of two keeps a folder."""

    @property
    def location(self) -> tuple[str, str, str]:
        """Remote, branch and folder."""
        return self.remote.identity, self.branch, self.base_folder


_REGULAR_MODES = frozenset({0o100644, 0o100755})

_HEAVY_BYTES = 1 << 20
"""Content of a window in memory above which it moves into the store."""

_FULL_FILES = 2500
"""Updates of a first snapshot that are enough for one push."""


@dataclass(frozen=True, slots=True)
class AcknowledgedPush:
    """The newest commit of this folder that the server acknowledged."""

    commit: str
    time: datetime  # wall clock, when the acknowledgment came
    files: int  # files of this folder that the push changed


@dataclass(slots=True)
class PendingWindow:
    """Updates and snapshots of one window, in order of arrival; false if it has neither."""

    updates: list[FileUpdate] = field(default_factory=list)
    """A path may occur more than once: every event counts for attribution."""
    snapshots: list[ScopeSnapshot | FolderReview] = field(default_factory=list)
    """Compared with the index when the window closes."""
    opened: float = 0.0
    """Monotonic time of the first entry."""
    newest: float = 0.0
    """Monotonic time of the last entry."""
    size: int = 0
    """Bytes of all updates, also of those whose content is in the store."""
    held_bytes: int = 0
    """Bytes of content that are still in memory."""
    observed_count: int = 0
    """Updates that the watch observed; the others come from snapshots."""
    flush_requested: bool = False
    """A user requested that it is written now."""
    verdicts: dict[Observation, AuthorVerdict] = field(default_factory=dict)
    """Written by the publisher; a proven author is kept through every retry."""
    settled_count: int = 0
    """So many updates, from the front, have a verdict that no later record can change."""

    def __bool__(self) -> bool:
        return bool(self.updates or self.snapshots)

    @property
    def observed_at(self) -> float:
        """Monotonic time at which the watch received the newest change; 0 without any."""
        observations = (update.observation for update in self.updates)
        return max((one.received for one in observations if one is not None), default=0.0)

    @property
    def is_heavy(self) -> bool:
        """Whether so much content is in memory that it should move into the store."""
        return self.held_bytes > _HEAVY_BYTES

    @property
    def is_full(self) -> bool:
        """Whether it is enough for one push: memory is bounded by pushes, not by the cluster."""
        return len(self.updates) >= _FULL_FILES

    @property
    def is_crowded(self) -> bool:
        """Whether updates arrive faster than they are pushed; snapshots pause then."""
        return self.held_bytes > 2 * _HEAVY_BYTES or len(self.updates) >= 2 * _FULL_FILES

    def without_content(self, blobs: AbstractSet[str]) -> PendingWindow:
        """The same window without the content of `blobs`, which the store holds."""
        updates = [
            replace(update, content=None) if update.blob in blobs else update
            for update in self.updates
        ]
        return replace(
            self, updates=updates, held_bytes=sum(update.held_bytes for update in updates)
        )

    def remaining_after(self, written: Mapping[str, int]) -> PendingWindow:
        """What is left once the server has each path up to the position given in `written`.

        Snapshots stay until nothing is left: removals that they prove may not be pushed yet.
        """
        remaining = [
            update
            for position, update in enumerate(self.updates)
            if position > written.get(update.path, -1)
        ]
        return replace(
            self,
            updates=remaining,
            size=sum(update.size for update in remaining),
            held_bytes=sum(update.held_bytes for update in remaining),
            observed_count=sum(update.observation is not None for update in remaining),
            settled_count=0,
        )


class Folder:
    """One destination's files and its open window; all paths are from the repository root."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        # Loaded from the tip and free to be written; set by `folder_opening`.
        self.is_open = False
        # Git has our claim, and it is up to date.
        self.is_claimed = False
        # Git had our claim, or one that we take over, when the folder was opened.
        self.was_claimed = False
        # Why the folder is closed; None while it is open or was not opened yet.
        self.error: WindlassError | None = None
        # Monotonic time of the next attempt to open it.
        self.retry_at = 0.0
        # None until this process has pushed to the folder.
        self.last_push: AcknowledgedPush | None = None
        # Path -> blob id as the server has it, without the claim.
        self.index: dict[str, str] = {}
        # Paths of the index that are symlinks or gitlinks.
        self.irregular: set[str] = set()
        # Directories of the tree as it was loaded; not updated by our own pushes.
        self.directories: frozenset[str] = frozenset()
        # Paths of updates that this process queued or pushed; only these count as objects,
        # unless the prune mode keeps them.
        self.own_paths: set[str] = set()
        # Paths that hold foreign content, with the object that needs them and the reason.
        self.refused: dict[str, tuple[Identity, str]] = {}
        # Paths of pending updates that were dropped to save memory; their objects are listed
        # again once a push may succeed.
        self.dropped: set[str] = set()
        # The open window; updates of a push under way are not in it.
        self.window = PendingWindow()
        # What the rules covered at the last review of the folder; None: review it again.
        self.reviewed_coverage: RuleCoverage | None = None
        # Paths that should be removed and that the prune mode keeps.
        self._retained: set[str] = set()
        # Path -> blob id once everything pending is pushed, None for a removal; differences only.
        self._expected: dict[str, str | None] = {}
        # A closed window is on its way to the server.
        self._is_pushing = False
        # The snapshots of that window; they are compared with the index again if it comes back.
        self._closed_snapshots: Sequence[ScopeSnapshot | FolderReview] = ()
        # Own files by directory; None when it must be counted again.
        self._directory_counts: Counter[str] | None = None

    @property
    def claim_path(self) -> str:
        """The path of the folder's claim file."""
        return f"{self.target.base_folder}/{folder_claim.FILE_NAME}"

    @property
    def objects(self) -> int:
        """The number of managed files that the server has."""
        return self._count_by_directory().total()

    def count_files(self, gvr: GVR, namespace: str) -> int:
        """The number of managed files of a type, in one namespace or in all."""
        directory = file_paths.scope_folder(self.target.base_folder, gvr, namespace)
        prefix = f"{directory}/"
        rows = self._count_by_directory().items()
        return sum(count for path, count in rows if path == directory or path.startswith(prefix))

    def _count_by_directory(self) -> Counter[str]:
        # A status is computed more often than files come or go.
        if self._directory_counts is None:
            self._directory_counts = Counter(
                path.rpartition("/")[0]
                for path in self.own_paths
                if path in self.index and path not in self._retained
            )
        return self._directory_counts

    @property
    def is_idle(self) -> bool:
        """Whether nothing is pending and nothing is on its way to the server."""
        return not (self.window or self.dropped or self._is_pushing)

    @property
    def is_crowded(self) -> bool:
        """Whether it is open and updates arrive faster than they are pushed."""
        return self.is_open and self.window.is_crowded

    @property
    def pending(self) -> int:
        """The number of paths that are not pushed yet."""
        return len(self._expected) + len(self.dropped)

    @property
    def retained(self) -> int:
        """The number of files that only the destination's prune mode keeps."""
        return sum(map(self.index.__contains__, self._retained))

    def retain(self, paths: AbstractSet[str]) -> None:
        """Count these files as kept by the prune mode, not as objects."""
        # An object may be recreated while the removal of its file is planned.
        live = {update.path for update in self.window.updates if update.blob is not None}
        self._retained |= paths - live
        self._directory_counts = None

    @property
    def is_refused(self) -> bool:
        """Whether it cannot hold a folder: it was refused, and no retry is due at once."""
        return self.error is not None and self.retry_at > 0.0

    def close(self, error: WindlassError, retry_at: float) -> None:
        """Write nothing before `retry_at`; pending updates stay."""
        self.is_open, self.error, self.retry_at = False, error, retry_at

    def load(self, entries: Mapping[str, Entry]) -> None:
        """Replace the index by the tree listing of a new tip."""
        before = self.index.keys()
        self._directory_counts = None
        self.index = {path: entry.blob for path, entry in entries.items()}
        self.irregular = {
            path for path, entry in entries.items() if entry.mode not in _REGULAR_MODES
        }
        self.index.pop(self.claim_path, None)
        if self.index.keys() != before:
            self.reviewed_coverage = None
        # Only a directory of another writer can occupy the path of a file.
        self.directories = path_ownership.all_directories(self.index)

    def damaged_since(self, before: Mapping[str, str]) -> bool:
        """Whether a new tip changed files of ours; then every object must be listed again."""
        return any(before.get(path) != self.index.get(path) for path in self.own_paths)

    def expected_blob(self, path: str) -> str | None:
        """The blob at `path` once everything pending is pushed; None for no file."""
        return self._expected[path] if path in self._expected else self.index.get(path)

    def add_update(self, update: FileUpdate, now: float) -> bool:
        """Queue an update unless it changes nothing; whether it was queued."""
        self.dropped.discard(update.path)
        self.refused.pop(update.path, None)
        if update.blob is not None:
            self._mark_live(update)
            if update.path not in self.own_paths or update.path in self._retained:
                self.own_paths.add(update.path)
                self._retained.discard(update.path)
                self._directory_counts = None
        if self.expected_blob(update.path) == update.blob and update.path not in self.irregular:
            return False
        self._touch(now)
        self.window.updates.append(update)
        self.window.size += update.size
        self.window.held_bytes += update.held_bytes
        self.window.observed_count += update.observation is not None
        self._expected[update.path] = update.blob
        return True

    def _mark_live(self, update: FileUpdate) -> None:
        """Tell pending snapshots of a live object: it may have been recreated after them."""
        for snapshot in (*self._closed_snapshots, *self.window.snapshots):
            if isinstance(snapshot, ScopeSnapshot) and snapshot.gvr == update.identity.gvr:
                snapshot.seen_since.add(update.path)

    def add_snapshot(self, snapshot: ScopeSnapshot | FolderReview, now: float) -> None:
        """Queue a snapshot or a review; it is compared with the index when the window closes."""
        self._touch(now)
        self.window.snapshots.append(snapshot)

    def _touch(self, now: float) -> None:
        if not self.window:
            self.window.opened = now
        self.window.newest = now

    def take(self) -> PendingWindow:
        """Close the window and begin a new one; returns what was pending."""
        closed, self.window = self.window, PendingWindow()
        self._is_pushing, self._closed_snapshots = True, closed.snapshots
        return closed

    def put_back(self, closed: PendingWindow) -> None:
        """Undo `take`: the window did not reach the server, newer updates follow it."""
        self._is_pushing, self._closed_snapshots = False, ()
        if not closed:
            return
        newer = self.window
        self.window = replace(
            closed,
            updates=closed.updates + newer.updates,
            snapshots=closed.snapshots + newer.snapshots,
            newest=max(closed.newest, newer.newest),
            size=closed.size + newer.size,
            held_bytes=closed.held_bytes + newer.held_bytes,
            observed_count=closed.observed_count + newer.observed_count,
            flush_requested=closed.flush_requested or newer.flush_requested,
            verdicts=closed.verdicts | newer.verdicts,
            settled_count=0,
        )

    def drop_content(self, blobs: AbstractSet[str]) -> None:
        """Free the content of blobs that the store holds now."""
        self.window = self.window.without_content(blobs)

    def acknowledge(
        self, edits: Mapping[str, str | None], remaining: Sequence[FileUpdate] = ()
    ) -> None:
        """Move acknowledged edits into the index; `remaining` of the window are still unpushed."""
        self._directory_counts = None
        newer = {update.path for update in (*remaining, *self.window.updates)}
        for path, blob in edits.items():
            self.irregular.discard(path)
            if blob is None:
                self.index.pop(path, None)
            else:
                self.index[path] = blob
            # Another blob without an update is a removal that a snapshot proves: not pushed yet.
            if path not in newer and self._expected.get(path) == blob:
                self._expected.pop(path, None)
            if self.expected_blob(path) is None and path not in self.index:
                self.own_paths.discard(path)

    def settle(self) -> None:
        """Record that nothing of the closed window is left to push."""
        self._is_pushing, self._closed_snapshots = False, ()
        self._expected = {update.path: update.blob for update in self.window.updates}

    def expect_removals(self, removals: Iterable[FileUpdate]) -> None:
        """Queue a later update of these paths even if it has the content that they still have."""
        self._expected |= {removal.path: None for removal in removals}

    def drop_updates(self) -> None:
        """Drop the pending updates but keep their paths, because memory is bounded (GIT-10)."""
        if self._is_pushing:
            # The closed window may come back, and newer updates must not be missing after it.
            return
        self.dropped |= {update.path for update in self.window.updates}
        self.window = PendingWindow(snapshots=self.window.snapshots, opened=self.window.opened)
        self.settle()

    def refuse(self, path: str, identity: Identity, reason: str) -> None:
        """Record that foreign content keeps `path`, so `identity` is not written."""
        self.own_paths.discard(path)
        self._directory_counts = None
        self.refused[path] = (identity, reason)
