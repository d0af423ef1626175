"""Admission records: which user tried to write what, for a short while, and the gaps in them.

The attributor adds records and gaps; `record_join` reads candidates. A record is evidence of an
attempt, not of a success. Records are kept by link, which is (uid, old resourceVersion): that is
what a change is joined by (ATT-4). What always holds:

- no more than `max_entries` links, no more than `depth` records a link, nothing older
  than `ttl` seconds of monotonic time is returned;
- equal attempts of one user on one link are one record with the newest time, so an
  engine that applies the same object every second evicts no other record;
- every eviction is counted and kept as a gap (ATT-3): by link as long as there is room,
  else by time. A record that merely expires is not a gap: changes are
  judged within seconds.

Gaps are a few disjoint intervals of monotonic time. Where intervals must be given up for
room, neighbors are joined: that can only widen a gap, so an author may become
unresolved by it but never wrong.

Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from windlass.objects.names import GVR
from windlass.reverser.file_operation import Operation

_GRAIN_SECONDS = 0.05
"""Gaps that are closer to each other are one gap."""

_MAX_INTERVALS = 256


class RecordGaps:
    """Closed intervals of monotonic time, sorted and disjoint."""

    def __init__(self) -> None:
        # Start and end of each interval at the same position of both lists.
        self._starts: list[float] = []
        self._ends: list[float] = []

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: float, end: float) -> None:
        """Note that records between `start` and `end` may be missing."""
        start, end = min(start, end), max(start, end)
        low = bisect_left(self._ends, start - _GRAIN_SECONDS)
        high = low
        while high < len(self._starts) and self._starts[high] <= end + _GRAIN_SECONDS:
            start, end = min(start, self._starts[high]), max(end, self._ends[high])
            high += 1
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]
        if len(self._starts) > _MAX_INTERVALS:
            # Joins the two oldest intervals: a wider gap is safe, a forgotten one is not.
            del self._starts[1], self._ends[0]

    def overlap(self, start: float, end: float) -> bool:
        """Whether any gap touches the time from `start` to `end`."""
        index = bisect_left(self._ends, start)
        return index < len(self._starts) and self._starts[index] <= end

    def forget(self, before: float) -> None:
        """Drop the gaps that ended before that time."""
        count = bisect_left(self._ends, before)
        del self._starts[:count], self._ends[:count]


Eviction = Literal["ttl", "lru", "depth"]
RecordLink: TypeAlias = tuple[str, str]
"""uid of the object, and its resourceVersion before the attempt; empty for a create."""


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """One admission request that was not a dry run."""

    time: float
    """When the webhook received it, monotonic."""
    user: str
    """userInfo.username."""
    operation: Operation
    """What the request would do."""
    gvr: GVR
    """Type of the object, in the version of the request."""
    uid: str
    """metadata.uid of object or oldObject."""
    old_resource_version: str = ""
    """Version of oldObject; empty for a create."""
    content: bytes | None = None
    """16-byte digest of the clean object; None if the request has no whole object."""
    replicas: int | None = None
    """spec.replicas; set for the scale subresource alone."""
    subresource: str = ""
    """Empty for the object itself."""
    namespace: str = ""
    """metadata.namespace; empty for cluster-scoped objects."""
    name: str = ""
    """metadata.name."""
    email: str = ""
    """E-mail claim of the user; empty without one."""
    display_name: str = ""
    """Display name claim of the user; empty without one."""

    @property
    def link(self) -> RecordLink:
        """The key by which a change is joined."""
        return self.uid, self.old_resource_version


class AdmissionRecords:
    """The records of the last `ttl` seconds within fixed bounds."""

    def __init__(self, ttl: float = 60.0, max_entries: int = 10_000, depth: int = 10) -> None:
        self._ttl = ttl
        self._max_entries = max_entries
        self._depth = depth
        # Records of each link, oldest first; the link that was added to last is at the end.
        self._chains: OrderedDict[RecordLink, list[AdmissionRecord]] = OrderedDict()
        # The old resourceVersions of each uid that have a chain, as an ordered set.
        self._versions: dict[str, dict[str, None]] = {}
        # Time of the newest record that was evicted from a link.
        self._dropped: OrderedDict[RecordLink, float] = OrderedDict()
        self._gaps = RecordGaps()
        # Evicted records since the start, by reason; read by the metrics.
        self.evictions: dict[Eviction, int] = {"ttl": 0, "lru": 0, "depth": 0}

    def __len__(self) -> int:
        """The number of links that have records."""
        return len(self._chains)

    def add(self, record: AdmissionRecord, now: float) -> None:
        """Keep a record; one without a uid cannot be joined and is ignored."""
        self.expire(now)
        if not record.uid:
            return
        if record.time <= now - self._ttl:
            self.evictions["ttl"] += 1
            return
        self._insert(record)
        self._shorten(record.link)
        while len(self._chains) > self._max_entries:
            self._evict_oldest()

    def candidates(self, uid: str, now: float) -> tuple[AdmissionRecord, ...]:
        """Every kept attempt on that object, oldest first."""
        self.expire(now)
        for version in tuple(self._versions.get(uid, ())):
            self._expire_chain((uid, version), now)
        records = [
            record
            for version in self._versions.get(uid, ())
            for record in self._chains[uid, version]
        ]
        return tuple(sorted(records, key=lambda record: record.time))

    def add_gap(self, start: float, end: float) -> None:
        """Note that records of that interval are missing: overflow, restart, no leader."""
        self._gaps.add(start, end)

    def has_gap(self, start: float, end: float, link: RecordLink | None = None) -> bool:
        """Whether a record made between `start` and `end` (for that link) may be missing."""
        if self._gaps.overlap(start, end):
            return True
        dropped = self._dropped.get(link) if link is not None else None
        return dropped is not None and start <= dropped <= end

    def expire(self, now: float) -> None:
        """Drop records and gaps that are too old; called by `add` and `candidates`."""
        oldest = now - self._ttl
        while self._chains and next(iter(self._chains.values()))[-1].time <= oldest:
            link, chain = self._chains.popitem(last=False)
            self._unlink(link)
            self.evictions["ttl"] += len(chain)
        while self._dropped and next(iter(self._dropped.values())) <= oldest:
            self._dropped.popitem(last=False)
        self._gaps.forget(oldest - self._ttl)

    def _insert(self, record: AdmissionRecord) -> None:
        chain = self._chains.setdefault(record.link, [])
        self._versions.setdefault(record.uid, {})[record.old_resource_version] = None
        duplicate = next((known for known in chain if _same_attempt(known, record)), None)
        if duplicate is not None:
            chain.remove(duplicate)
            record = replace(record, time=max(record.time, duplicate.time))
        chain.append(record)
        chain.sort(key=lambda known: known.time)
        self._chains.move_to_end(record.link)

    def _shorten(self, link: RecordLink) -> None:
        chain = self._chains[link]
        while len(chain) > self._depth:
            self._remember_eviction(link, chain.pop(0).time)
            self.evictions["depth"] += 1

    def _evict_oldest(self) -> None:
        link, chain = self._chains.popitem(last=False)
        self._unlink(link)
        self.evictions["lru"] += len(chain)
        self._remember_eviction(link, chain[-1].time)

    def _remember_eviction(self, link: RecordLink, time: float) -> None:
        self._dropped[link] = max(time, self._dropped.pop(link, time))
        if len(self._dropped) > self._max_entries:
            _, time = self._dropped.popitem(last=False)
            self._gaps.add(time, time)

    def _expire_chain(self, link: RecordLink, now: float) -> None:
        chain = self._chains[link]
        fresh = [record for record in chain if record.time > now - self._ttl]
        self.evictions["ttl"] += len(chain) - len(fresh)
        if fresh:
            self._chains[link] = fresh
        else:
            del self._chains[link]
            self._unlink(link)

    def _unlink(self, link: RecordLink) -> None:
        uid, version = link
        versions = self._versions[uid]
        del versions[version]
        if not versions:
            del self._versions[uid]


def _same_attempt(first: AdmissionRecord, second: AdmissionRecord) -> bool:
    return replace(first, time=second.time) == second
