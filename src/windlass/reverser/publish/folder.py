"""A destination's folder: its files as the branch has them, and the updates that are pending.

The index (path -> blob id) mirrors the last tree that the server acknowledged. An
update that equals what the folder will hold anyway is dropped at once, so equal
content costs no memory and no Git work. Nothing moves into the index before a push
was acknowledged. `WriteTarget` is where one destination's files go, and with which identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from windlass.base.errors import WindlassError
from windlass.git.credentials import Credentials
from windlass.git.format.objects import Person
from windlass.git.format.remote import Remote
from windlass.git.store import Entry
from windlass.objects.names import Identity, Key
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.file_operation import PruneMode
from windlass.reverser.publish import folder_claim, path_ownership
from windlass.reverser.publish.file_update import FileUpdate, FolderReview, ScopeSnapshot
from windlass.reverser.selection.rule_coverage import RuleCoverage


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A GitDestination whose references were checked; equal targets mean equal behaviour."""

    key: Key
    uid: str
    repository: Key
    remote: Remote
    branch: str
    base_folder: str
    create_branch: bool
    window_seconds: float | None
    committer: Person
    credentials: Credentials
    takeover: str | None
    salt: bytes
    prune: PruneMode = "Always"
    created: str = ""
    """When the destination was made, as the API writes it: the older of two keeps a folder."""

    @property
    def location(self) -> tuple[str, str, str]:
        """Remote, branch and folder."""
        return self.remote.identity, self.branch, self.base_folder


_REGULAR_MODES = frozenset({0o100644, 0o100755})

_HEAVY_BYTES = 1 << 20
_FULL_FILES = 2500


@dataclass(frozen=True, slots=True)
class AcknowledgedPush:
    """The newest commit of this folder that the server acknowledged."""

    commit: str
    time: datetime
    files: int


@dataclass(slots=True)
class PendingWindow:
    """What gathered in the present window, in order."""

    updates: list[FileUpdate] = field(default_factory=list)
    snapshots: list[ScopeSnapshot | FolderReview] = field(default_factory=list)
    opened: float = 0.0
    newest: float = 0.0
    size: int = 0
    held_bytes: int = 0
    observed_count: int = 0
    flush_requested: bool = False
    """Somebody wants it written now."""
    verdicts: dict[Observation, AuthorVerdict] = field(default_factory=dict)
    settled_count: int = 0
    """So many arrivals, from the front, have the verdict that counts if records expire."""

    def __bool__(self) -> bool:
        return bool(self.updates or self.snapshots)

    @property
    def is_heavy(self) -> bool:
        """Whether so much content waits that it had better lie in the store."""
        return self.held_bytes > _HEAVY_BYTES

    @property
    def is_full(self) -> bool:
        """Whether it is enough for one push, so that memory follows the push, not the cluster."""
        return len(self.updates) >= _FULL_FILES

    @property
    def is_crowded(self) -> bool:
        """Whether more comes in than is written."""
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
        """What is left of the window once the server has each path up to that arrival.

        The sweeps stay until nothing is left: what they prove may still be to do.
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
    """One destination's files and its open window."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.is_open = False
        self.is_claimed = False
        self.was_claimed = False
        self.error: WindlassError | None = None
        self.retry_at = 0.0
        self.last_push: AcknowledgedPush | None = None
        self.index: dict[str, str] = {}
        self.irregular: set[str] = set()
        self.directories: frozenset[str] = frozenset()
        self.own_paths: set[str] = set()
        self.refused: dict[str, tuple[Identity, str]] = {}
        self.dropped: dict[str, FileUpdate] = {}
        self.window = PendingWindow()
        self.reviewed_coverage: RuleCoverage | None = None
        """What the rules covered when files of other scopes were last looked for."""
        self._retained: set[str] = set()
        self._expected: dict[str, str | None] = {}
        self._is_pushing = False
        self._directory_counts: Counter[str] | None = None

    @property
    def claim_path(self) -> str:
        return f"{self.target.base_folder}/{folder_claim.FILE_NAME}"

    @property
    def objects(self) -> int:
        """Managed files, as the server has them."""
        return self._count_by_directory().total()

    def count_files(self, directory: str) -> int:
        """Managed files in the directory `place` and below it."""
        prefix = f"{directory}/"
        rows = self._count_by_directory().items()
        return sum(count for path, count in rows if path == directory or path.startswith(prefix))

    def _count_by_directory(self) -> Counter[str]:
        # A status is made more often than files come or go.
        if self._directory_counts is None:
            present = filter(self.index.__contains__, self.own_paths)
            self._directory_counts = Counter(path.rpartition("/")[0] for path in present)
        return self._directory_counts

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way to the server."""
        return not (self.window or self.dropped or self._is_pushing)

    @property
    def pending(self) -> int:
        return len(self._expected) + len(self.dropped)

    @property
    def retained(self) -> int:
        """Files that would go but for the destination's prune mode."""
        return sum(map(self.index.__contains__, self._retained))

    def retain(self, paths: AbstractSet[str]) -> None:
        """These files should go, and stay by order."""
        self._retained |= paths

    @property
    def is_refused(self) -> bool:
        """Whether it cannot hold a folder: it was refused, and no retry is due at once."""
        return self.error is not None and self.retry_at > 0.0

    def close(self, error: WindlassError, retry_at: float) -> None:
        """Nothing may be written here before `until`; what waits stays."""
        self.is_open, self.error, self.retry_at = False, error, retry_at

    def load(self, entries: Mapping[str, Entry]) -> None:
        """Take over the tree listing of a new tip."""
        before = self.index.keys()
        self._directory_counts = None
        self.index = {path: entry.blob for path, entry in entries.items()}
        self.irregular = {
            path for path, entry in entries.items() if entry.mode not in _REGULAR_MODES
        }
        self.index.pop(self.claim_path, None)
        if self.index.keys() != before:
            self.reviewed_coverage = None
        # Only directories that came from elsewhere can stand in a file's way.
        self.directories = path_ownership.all_directories(self.index)

    def damaged_since(self, before: Mapping[str, str]) -> bool:
        """Whether a new tip changed files of ours; then every object must be seen again."""
        return any(before.get(path) != self.index.get(path) for path in self.own_paths)

    def expected_blob(self, path: str) -> str | None:
        """The blob that will stand at `path` when everything that waits is written."""
        return self._expected[path] if path in self._expected else self.index.get(path)

    def add_update(self, update: FileUpdate, now: float) -> bool:
        """Queue an arrival unless it changes nothing; whether it was queued."""
        self.dropped.pop(update.path, None)
        self.refused.pop(update.path, None)
        if update.blob is not None:
            self._retained.discard(update.path)
            if update.path not in self.own_paths:
                self.own_paths.add(update.path)
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

    def add_snapshot(self, snapshot: ScopeSnapshot | FolderReview, now: float) -> None:
        """Queue a sweep or a review; it is judged against the index when the window closes."""
        self._touch(now)
        self.window.snapshots.append(snapshot)

    def _touch(self, now: float) -> None:
        if not self.window:
            self.window.opened = now
        self.window.newest = now

    def take(self) -> PendingWindow:
        """Close the window: what waits becomes a batch, and a new window begins."""
        closed, self.window = self.window, PendingWindow()
        self._is_pushing = True
        return closed

    def put_back(self, closed: PendingWindow) -> None:
        """Undo `take`: the batch did not reach the server, newer arrivals follow it."""
        self._is_pushing = False
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
        """The store holds these contents now; memory need not."""
        self.window = self.window.without_content(blobs)

    def acknowledge(
        self, edits: Mapping[str, str | None], remaining: Sequence[FileUpdate] = ()
    ) -> None:
        """The server has these edits now; `left` of the same window are still to be pushed."""
        for path, blob in edits.items():
            self.irregular.discard(path)
            if blob is None:
                self.index.pop(path, None)
            else:
                self.index[path] = blob
        self.settle(remaining)
        self._directory_counts = None
        self.own_paths.difference_update(path for path in edits if self.expected_blob(path) is None)

    def settle(self, remaining: Sequence[FileUpdate] = ()) -> None:
        """Recompute what the folder will hold from what still waits, after what is `left`."""
        self._is_pushing = bool(remaining)
        self._expected = {update.path: update.blob for update in (*remaining, *self.window.updates)}

    def drop_pending_content(self) -> int:
        """Forget waiting content, keep which objects it belongs to; the bytes freed."""
        freed = self.window.held_bytes
        for update in self.window.updates:
            self.dropped[update.path] = replace(update, content=None, observation=None)
        self.window = PendingWindow(snapshots=self.window.snapshots, opened=self.window.opened)
        self.settle()
        return freed

    def refuse(self, path: str, identity: Identity, reason: str) -> None:
        """What stands at `path` is somebody else's and stays."""
        self.own_paths.discard(path)
        self._directory_counts = None
        self.refused[path] = (identity, reason)
