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
    def place(self) -> tuple[str, str, str]:
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

    arrivals: list[FileUpdate] = field(default_factory=list)
    sweeps: list[ScopeSnapshot | FolderReview] = field(default_factory=list)
    opened: float = 0.0
    newest: float = 0.0
    size: int = 0
    held: int = 0
    live: int = 0
    asked: bool = False
    """Somebody wants it written now."""
    verdicts: dict[Observation, AuthorVerdict] = field(default_factory=dict)
    settled: int = 0
    """So many arrivals, from the front, have the verdict that counts if records expire."""

    def __bool__(self) -> bool:
        return bool(self.arrivals or self.sweeps)

    @property
    def is_heavy(self) -> bool:
        """Whether so much content waits that it had better lie in the store."""
        return self.held > _HEAVY_BYTES

    @property
    def is_full(self) -> bool:
        """Whether it is enough for one push, so that memory follows the push, not the cluster."""
        return len(self.arrivals) >= _FULL_FILES

    @property
    def is_crowded(self) -> bool:
        """Whether more comes in than is written."""
        return self.held > 2 * _HEAVY_BYTES or len(self.arrivals) >= 2 * _FULL_FILES

    def without(self, blobs: AbstractSet[str]) -> PendingWindow:
        """The same window without the content of `blobs`, which the store holds."""
        arrivals = [
            replace(arrival, content=None) if arrival.blob in blobs else arrival
            for arrival in self.arrivals
        ]
        return replace(self, arrivals=arrivals, held=sum(one.held for one in arrivals))

    def after(self, written: Mapping[str, int]) -> PendingWindow:
        """What is left of the window once the server has each path up to that arrival.

        The sweeps stay until nothing is left: what they prove may still be to do.
        """
        left = [
            arrival
            for at, arrival in enumerate(self.arrivals)
            if at > written.get(arrival.path, -1)
        ]
        return replace(
            self,
            arrivals=left,
            size=sum(one.size for one in left),
            held=sum(one.held for one in left),
            live=sum(one.observation is not None for one in left),
            settled=0,
        )


class Folder:
    """One destination's files and its open window."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self.is_open = False
        self.claimed = False
        self.held_before = False
        self.trouble: WindlassError | None = None
        self.retry_at = 0.0
        self.last_push: AcknowledgedPush | None = None
        self.index: dict[str, str] = {}
        self.irregular: set[str] = set()
        self.directories: frozenset[str] = frozenset()
        self.written: set[str] = set()
        self.refused: dict[str, tuple[Identity, str]] = {}
        self.dirty: dict[str, FileUpdate] = {}
        self.waiting = PendingWindow()
        self.reviewed: RuleCoverage | None = None
        """What the rules covered when files of other scopes were last looked for."""
        self._retained: set[str] = set()
        self._next: dict[str, str | None] = {}
        self._writing = False
        self._counts: Counter[str] | None = None

    @property
    def claim_path(self) -> str:
        return f"{self.target.base_folder}/{folder_claim.FILE_NAME}"

    @property
    def objects(self) -> int:
        """Managed files, as the server has them."""
        return self._by_directory().total()

    def count(self, place: str) -> int:
        """Managed files in the directory `place` and below it."""
        below = f"{place}/"
        rows = self._by_directory().items()
        return sum(number for path, number in rows if path == place or path.startswith(below))

    def _by_directory(self) -> Counter[str]:
        # A status is made more often than files come or go.
        if self._counts is None:
            held = filter(self.index.__contains__, self.written)
            self._counts = Counter(path.rpartition("/")[0] for path in held)
        return self._counts

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way to the server."""
        return not (self.waiting or self.dirty or self._writing)

    @property
    def pending(self) -> int:
        return len(self._next) + len(self.dirty)

    @property
    def retained(self) -> int:
        """Files that would go but for the destination's prune mode."""
        return sum(map(self.index.__contains__, self._retained))

    def retain(self, paths: AbstractSet[str]) -> None:
        """These files should go, and stay by order."""
        self._retained |= paths

    def close(self, trouble: WindlassError, until: float) -> None:
        """Nothing may be written here before `until`; what waits stays."""
        self.is_open, self.trouble, self.retry_at = False, trouble, until

    def load(self, entries: Mapping[str, Entry]) -> None:
        """Take over the tree listing of a new tip."""
        before = self.index.keys()
        self._counts = None
        self.index = {path: entry.blob for path, entry in entries.items()}
        self.irregular = {
            path for path, entry in entries.items() if entry.mode not in _REGULAR_MODES
        }
        self.index.pop(self.claim_path, None)
        if self.index.keys() != before:
            self.reviewed = None
        # Only directories that came from elsewhere can stand in a file's way.
        self.directories = path_ownership.all_directories(self.index)

    def damaged_since(self, before: Mapping[str, str]) -> bool:
        """Whether a new tip changed files of ours; then every object must be seen again."""
        return any(before.get(path) != self.index.get(path) for path in self.written)

    def expects(self, path: str) -> str | None:
        """The blob that will stand at `path` when everything that waits is written."""
        return self._next[path] if path in self._next else self.index.get(path)

    def offer(self, arrival: FileUpdate, now: float) -> bool:
        """Queue an arrival unless it changes nothing; whether it was queued."""
        self.dirty.pop(arrival.path, None)
        self.refused.pop(arrival.path, None)
        if arrival.blob is not None:
            self._retained.discard(arrival.path)
            if arrival.path not in self.written:
                self.written.add(arrival.path)
                self._counts = None
        if self.expects(arrival.path) == arrival.blob and arrival.path not in self.irregular:
            return False
        self._touch(now)
        self.waiting.arrivals.append(arrival)
        self.waiting.size += arrival.size
        self.waiting.held += arrival.held
        self.waiting.live += arrival.observation is not None
        self._next[arrival.path] = arrival.blob
        return True

    def sweep(self, sweep: ScopeSnapshot | FolderReview, now: float) -> None:
        """Queue a sweep or a review; it is judged against the index when the window closes."""
        self._touch(now)
        self.waiting.sweeps.append(sweep)

    def _touch(self, now: float) -> None:
        if not self.waiting:
            self.waiting.opened = now
        self.waiting.newest = now

    def take(self) -> PendingWindow:
        """Close the window: what waits becomes a batch, and a new window begins."""
        taken, self.waiting = self.waiting, PendingWindow()
        self._writing = True
        return taken

    def put_back(self, taken: PendingWindow) -> None:
        """Undo `take`: the batch did not reach the server, newer arrivals follow it."""
        self._writing = False
        if not taken:
            return
        newer = self.waiting
        self.waiting = replace(
            taken,
            arrivals=taken.arrivals + newer.arrivals,
            sweeps=taken.sweeps + newer.sweeps,
            newest=max(taken.newest, newer.newest),
            size=taken.size + newer.size,
            held=taken.held + newer.held,
            live=taken.live + newer.live,
            asked=taken.asked or newer.asked,
            verdicts=taken.verdicts | newer.verdicts,
            settled=0,
        )

    def stowed(self, blobs: AbstractSet[str]) -> None:
        """The store holds these contents now; memory need not."""
        self.waiting = self.waiting.without(blobs)

    def acknowledge(self, edits: Mapping[str, str | None], left: Sequence[FileUpdate] = ()) -> None:
        """The server has these edits now; `left` of the same window are still to be pushed."""
        for path, blob in edits.items():
            self.irregular.discard(path)
            if blob is None:
                self.index.pop(path, None)
            else:
                self.index[path] = blob
        self.settle(left)
        self._counts = None
        self.written.difference_update(path for path in edits if self.expects(path) is None)

    def settle(self, left: Sequence[FileUpdate] = ()) -> None:
        """Recompute what the folder will hold from what still waits, after what is `left`."""
        self._writing = bool(left)
        self._next = {one.path: one.blob for one in (*left, *self.waiting.arrivals)}

    def shed(self) -> int:
        """Forget waiting content, keep which objects it belongs to; the bytes freed."""
        freed = self.waiting.held
        for arrival in self.waiting.arrivals:
            self.dirty[arrival.path] = replace(arrival, content=None, observation=None)
        self.waiting = PendingWindow(sweeps=self.waiting.sweeps, opened=self.waiting.opened)
        self.settle()
        return freed

    def refuse(self, path: str, identity: Identity, reason: str) -> None:
        """What stands at `path` is somebody else's and stays."""
        self.written.discard(path)
        self._counts = None
        self.refused[path] = (identity, reason)
