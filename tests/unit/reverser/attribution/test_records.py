"""Admission records within their bounds, and record gaps."""

from __future__ import annotations

from typing import Any

from windlass.objects.names import GVR
from windlass.reverser.attribution.records import AdmissionRecord, AdmissionRecords, RecordGaps

CONFIGMAPS = GVR("", "v1", "configmaps")


def record(time: float, user: str = "alice", **given: Any) -> AdmissionRecord:
    """An update from version 7."""
    settings: dict[str, Any] = {
        "operation": "UPDATE",
        "gvr": CONFIGMAPS,
        "uid": "u1",
        "old_resource_version": "7",
        "content": b"x" * 16,
    }
    return AdmissionRecord(time=time, user=user, **{**settings, **given})


def test_candidates_come_by_uid_oldest_first() -> None:
    """ATT-3: records of other objects do not mix in, whatever they are called."""
    records = AdmissionRecords()
    records.add(record(2.0, "bob", old_resource_version="8"), 2.0)
    records.add(record(1.0), 2.0)
    records.add(record(2.0, "carol", uid="u2"), 2.0)
    assert [candidate.user for candidate in records.candidates("u1", 2.0)] == ["alice", "bob"]
    assert records.candidates("u3", 2.0) == ()


def test_record_expires_after_its_time() -> None:
    """ATT-3: the TTL follows the given clock; expiry is counted and is no record gap."""
    records = AdmissionRecords(ttl=60.0)
    records.add(record(0.0), 0.0)
    assert len(records.candidates("u1", 59.9)) == 1
    assert records.candidates("u1", 60.0) == ()
    assert records.evictions == {"ttl": 1, "lru": 0, "depth": 0}
    assert not records.has_gap(-10.0, 60.0, ("u1", "7"))
    assert len(records) == 0


def test_old_record_of_a_living_link_expires_alone() -> None:
    """ATT-3: each record has its own time."""
    records = AdmissionRecords(ttl=60.0)
    records.add(record(0.0, "alice"), 0.0)
    records.add(record(50.0, "bob"), 50.0)
    assert [candidate.user for candidate in records.candidates("u1", 61.0)] == ["bob"]
    assert records.evictions["ttl"] == 1


def test_late_record_is_not_kept() -> None:
    """ATT-3: a relayed record past its time counts as expired."""
    records = AdmissionRecords(ttl=60.0)
    records.add(record(0.0), 61.0)
    assert len(records) == 0
    assert records.evictions["ttl"] == 1


def test_record_without_uid_is_left_out() -> None:
    """ATT-3: never joined by name; without a uid there is nothing to join by."""
    records = AdmissionRecords()
    records.add(record(0.0, uid=""), 0.0)
    assert len(records) == 0


def test_depth_drops_the_oldest_and_remembers_the_link() -> None:
    """ATT-3: more different attempts than fit make a gap for that link only."""
    records = AdmissionRecords(depth=2)
    for number, user in enumerate(("alice", "bob", "carol")):
        records.add(record(float(number), user), float(number))
    assert [candidate.user for candidate in records.candidates("u1", 2.0)] == ["bob", "carol"]
    assert records.evictions["depth"] == 1
    assert records.has_gap(-10.0, 2.0, ("u1", "7"))
    assert not records.has_gap(-10.0, 2.0, ("u1", "8"))
    assert not records.has_gap(0.5, 2.0, ("u1", "7"))


def test_equal_attempts_are_one_record() -> None:
    """ATT-3: repeated equal attempts evict no other record."""
    records = AdmissionRecords(depth=2)
    records.add(record(0.0, "alice"), 0.0)
    for number in range(1, 20):
        records.add(record(float(number), "engine", content=b"y" * 16), float(number))
    candidates = records.candidates("u1", 19.0)
    assert [(candidate.user, candidate.time) for candidate in candidates] == [
        ("alice", 0.0),
        ("engine", 19.0),
    ]
    assert records.evictions == {"ttl": 0, "lru": 0, "depth": 0}


def test_least_recent_link_is_evicted_first() -> None:
    """ATT-3: beyond the number of entries the one that was written longest ago is dropped."""
    records = AdmissionRecords(max_entries=2)
    for number, uid in enumerate(("u1", "u2", "u1", "u3")):
        records.add(record(float(number), f"user{number}", uid=uid), float(number))
    assert records.candidates("u2", 3.0) == ()
    assert len(records.candidates("u1", 3.0)) == 2
    assert records.evictions["lru"] == 1
    assert records.has_gap(0.0, 3.0, ("u2", "7"))
    assert not records.has_gap(0.0, 3.0, ("u1", "7"))


def test_memory_of_lost_links_is_bounded_too() -> None:
    """ATT-3: evicted links become an interval, which applies to every object."""
    records = AdmissionRecords(max_entries=1)
    for number in range(3):
        records.add(record(float(number), uid=f"u{number}"), float(number))
    assert records.has_gap(0.0, 0.0)
    assert records.has_gap(0.0, 0.0, ("stranger", "1"))
    assert not records.has_gap(1.0, 2.0, ("stranger", "1"))


def test_gap_applies_to_every_object_until_it_expires() -> None:
    """ATT-3: overflow, restart or a time without leader is an interval without records."""
    records = AdmissionRecords(ttl=60.0)
    records.add_gap(float("-inf"), 10.0)
    records.add_gap(20.0, 21.0)
    assert records.has_gap(5.0, 8.0)
    assert not records.has_gap(10.1, 19.9)
    assert records.has_gap(19.0, 20.0)
    records.expire(500.0)
    assert not records.has_gap(0.0, 500.0)


def test_intervals_join_where_they_meet() -> None:
    """ATT-3: overlapping and touching gaps become one."""
    gaps = RecordGaps()
    gaps.add(1.0, 2.0)
    gaps.add(5.0, 6.0)
    gaps.add(6.5, 5.5)
    gaps.add(1.5, 3.0)
    assert len(gaps) == 2
    assert gaps.overlap(2.5, 2.6)
    assert not gaps.overlap(3.1, 4.9)
    gaps.add(2.0, 5.0)
    assert len(gaps) == 1


def test_too_many_intervals_only_widen() -> None:
    """ATT-3: room is made by joining the oldest, never by forgetting one."""
    gaps = RecordGaps()
    for number in range(1000):
        gaps.add(float(number), float(number))
    assert len(gaps) <= 256
    assert all(gaps.overlap(float(number), float(number)) for number in range(1000))
    assert not gaps.overlap(998.2, 998.8)
