"""The state that is tracked for each object."""

from __future__ import annotations

from windlass.objects.names import Key
from windlass.reverser.watch.tracker import ObjectTracker, TrackedObject

STATE = TrackedObject("2f1c0c3e-58a5-4b0f-9d6b-0a6f6b1d7c11", "184467", b"d" * 16, 3)


def test_a_tracked_state_is_returned_unchanged() -> None:
    """Packing loses nothing, also where there is no digest and no count."""
    tracker = ObjectTracker()
    bare = TrackedObject("", "", b"")
    tracker.put(Key("ns", "one"), STATE)
    tracker.put(Key("", "system:a b"), bare)
    assert tracker.get(Key("ns", "one")) == STATE
    assert tracker.get(Key("", "system:a b")) == bare
    assert tracker.get(Key("ns", "two")) is None


def test_equal_names_in_several_namespaces_are_kept_apart() -> None:
    """Forgetting one leaves the others; forgetting an untracked object is no error."""
    tracker = ObjectTracker()
    for namespace in ("a", "ab", ""):
        tracker.put(Key(namespace, "one"), STATE)
    tracker.forget(Key("a", "one"))
    tracker.forget(Key("a", "never"))
    assert len(tracker) == 2
    assert tracker.get(Key("ab", "one")) == STATE


def test_objects_missing_in_a_snapshot_are_forgotten() -> None:
    """Listing an untracked object is no error; an earlier snapshot does not count."""
    tracker = ObjectTracker()
    for name in ("one", "two"):
        tracker.put(Key("ns", name), STATE)
    tracker.begin_snapshot()
    tracker.mark_listed(Key("ns", "two"))
    tracker.begin_snapshot()
    tracker.put(Key("ns", "one"), STATE)
    tracker.mark_listed(Key("ns", "blurred"))
    assert tracker.end_snapshot() == (Key("ns", "two"),)
    assert tracker.get(Key("ns", "one")) == STATE
    assert len(tracker) == 1


def test_an_abandoned_snapshot_forgets_nothing() -> None:
    """An object that it did not list may still exist."""
    tracker = ObjectTracker()
    tracker.put(Key("ns", "one"), STATE)
    tracker.begin_snapshot()
    tracker.abandon_snapshot()
    assert tracker.get(Key("ns", "one")) == STATE
    tracker.begin_snapshot()
    assert tracker.end_snapshot() == (Key("ns", "one"),)
