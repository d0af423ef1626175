"""The lock of a data volume: one writer at a time (APP-4).

Rules:
- flock is the lock. While it is held, no other process writes, however long it takes.
- The file is never removed: two processes could hold locks on two files of one name.
- The file names its owner. Inside a transaction (`active`) the owner's beat goes up every
  `HEARTBEAT_SECONDS`; an idle owner writes nothing.
- A volume can be mounted on two nodes whose kernels do not see each other's locks. So an
  active record of another node counts as held although we got the lock, until we have
  watched its beat stand still for `STALE_SECONDS`.
- An owner whose own beat is that old (a suspended machine, a disk that hangs) has lost the
  lock, and stops before its next step; the journal has what is left to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator

import msgspec

from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.base.errors import Waiting
from windlass.gateways.volume.data_directory import DataDirectory

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 60.0

_LOCK_FILE_MODE = 0o600
# One write of always the same length: a reader never gets half a record.
_RECORD_BYTES = 1024


class LockOwner(msgspec.Struct, frozen=True):
    """The identity of an agent; a new pod of the same name is another owner."""

    pod_uid: str = msgspec.field(name="podUID")
    pod_name: str = msgspec.field(name="podName")
    node: str


class LockRecord(msgspec.Struct, frozen=True):
    """The content of the lock file."""

    pod_uid: str = msgspec.field(name="podUID")  # of the owner
    pod_name: str = msgspec.field(name="podName")  # of the owner, for messages
    node: str  # of the owner; empty if unknown
    beat: int  # grows with every write, also across owners
    active: bool  # inside a transaction: `beat` must grow, or the owner is dead
    schema: int = 1  # for later versions; not checked

    @property
    def owner(self) -> LockOwner:
        return LockOwner(self.pod_uid, self.pod_name, self.node)


class VolumeLocked(Waiting):
    """Another agent writes to this volume."""

    def __init__(self, record: LockRecord | None) -> None:
        self.record = record
        holder = "an unknown process"
        if record is not None:
            holder = f"{record.pod_name} ({record.pod_uid}) on node {record.node or 'unknown'}"
        message = f"the data volume is in use by {holder}; waiting for it to be released"
        super().__init__("VolumeLocked", message, after=HEARTBEAT_SECONDS)


class VolumeLock:
    """The lock of one data volume, held by at most one agent."""

    def __init__(self, directory: DataDirectory, path: str, owner: LockOwner, clock: Clock) -> None:
        self._directory = directory
        self._path = path
        self._owner = owner
        self._clock = clock
        # Open and locked by flock; None while we are not the owner.
        self._descriptor: int | None = None
        # Active record of another node, and the monotonic time at which it was first read.
        self._watched: tuple[LockRecord, float] | None = None
        # Serializes writes of the heartbeat thread and of the transaction's thread.
        self._writing = threading.Lock()
        # Number that our last write had, or that was read when we took over.
        self._beat = 0
        # Monotonic time of our last write.
        self._last_beat = 0.0
        # Another owner may be writing; set by either thread, reset by the next transaction.
        self._is_lost = False

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> None:
        """Become the owner, or raise `VolumeLocked`; callers wait by trying again later."""
        if self._descriptor is not None and not self._is_current_file():
            self._close()
        if self._descriptor is None:
            self._descriptor = self._open_locked()
        try:
            self._take_over()
        except BaseException:
            self._close()
            raise

    def release(self) -> None:
        """Give up the lock; its record then no longer counts as held."""
        if self._descriptor is not None:
            self._close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write a heartbeat while the block runs; the block calls `check` between its steps."""
        self.acquire()
        self._is_lost = False
        self._write(active=True)
        ended = threading.Event()
        heartbeat = threading.Thread(target=self._keep_beating, args=(ended,), daemon=True)
        heartbeat.start()
        try:
            yield
        finally:
            ended.set()
            heartbeat.join()
            with contextlib.suppress(OSError):
                self._mark_inactive()

    def check(self) -> None:
        """Raise `VolumeLocked` if another node may have taken over meanwhile; reads no disk."""
        if self._is_lost or self._clock.monotonic() - self._last_beat > STALE_SECONDS:
            self._is_lost = True
            raise VolumeLocked(self._read())

    def check_record(self) -> None:
        """`check`, and raise `VolumeLocked` if the record names another owner."""
        self.check()
        record = self._read()
        if record is None or record.owner != self._owner:
            self._is_lost = True
            raise VolumeLocked(record)

    def _open_locked(self) -> int:
        descriptor = self._directory.open_rewritable(self._path, _LOCK_FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            record = _read_record(descriptor)
            os.close(descriptor)
            raise VolumeLocked(record) from error
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _is_current_file(self) -> bool:
        """Whether the file we locked is still the one that others would lock."""
        assert self._descriptor is not None
        info = self._directory.stat(self._path)
        return info is not None and os.path.samestat(info, os.fstat(self._descriptor))

    def _take_over(self) -> None:
        record = self._read()
        if record is not None and record.owner == self._owner:
            # Our own record, of this process or of one before a restart of the container.
            self._beat = record.beat
            return
        if record is not None and record.active and record.node != self._owner.node:
            self._check_stale(record)
        self._beat = record.beat if record is not None else 0
        self._write(active=False)

    def _check_stale(self, record: LockRecord) -> None:
        """Raise `VolumeLocked` until the record of another node stood still for STALE_SECONDS."""
        now = self._clock.monotonic()
        if self._watched is None or self._watched[0] != record:
            self._watched = (record, now)
        if now - self._watched[1] < STALE_SECONDS:
            raise VolumeLocked(record)

    def _keep_beating(self, ended: threading.Event) -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            try:
                self.check_record()
                self._write(active=True)
            except (OSError, VolumeLocked):
                # The next `check` sees the old beat, or that the lock is lost, and raises.
                return

    def _mark_inactive(self) -> None:
        if not self._is_lost:
            self._write(active=False)

    def _write(self, *, active: bool) -> None:
        assert self._descriptor is not None
        with self._writing:
            owner = self._owner
            record = LockRecord(owner.pod_uid, owner.pod_name, owner.node, self._beat + 1, active)
            content = msgspec.json.encode(record).ljust(_RECORD_BYTES)
            failpoint.reach("gateways.lock.beat.before")
            os.pwrite(self._descriptor, content, 0)
            os.fsync(self._descriptor)
            failpoint.reach("gateways.lock.beat.after")
            self._beat += 1
            self._last_beat = self._clock.monotonic()

    def _read(self) -> LockRecord | None:
        assert self._descriptor is not None
        return _read_record(self._descriptor)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _read_record(descriptor: int) -> LockRecord | None:
    """The record in an open lock file; None while it is empty or being written."""
    data = os.pread(descriptor, _RECORD_BYTES, 0)
    try:
        return msgspec.json.decode(data, type=LockRecord)
    except msgspec.DecodeError:
        return None
