"""What is remembered of each object."""

from __future__ import annotations

from windlass.objects.names import Key
from windlass.reverser.watch.tracker import ObjectTracker, TrackedObject

STATE = TrackedObject("2f1c0c3e-58a5-4b0f-9d6b-0a6f6b1d7c11", "184467", b"d" * 16, 3)


def test_a_state_comes_back_as_it_was_put() -> None:
    """Packing loses nothing, also where there is no digest and no count."""
    tracking = ObjectTracker()
    bare = TrackedObject("", "", b"")
    tracking.put(Key("ns", "one"), STATE)
    tracking.put(Key("", "system:a b"), bare)
    assert tracking.get(Key("ns", "one")) == STATE
    assert tracking.get(Key("", "system:a b")) == bare
    assert tracking.get(Key("ns", "two")) is None


def test_namesakes_of_several_namespaces_are_kept_apart() -> None:
    """Whoever is forgotten takes nobody along; forgetting a stranger is no fault."""
    tracking = ObjectTracker()
    for namespace in ("a", "ab", ""):
        tracking.put(Key(namespace, "one"), STATE)
    tracking.forget(Key("a", "one"))
    tracking.forget(Key("a", "never"))
    assert len(tracking) == 2
    assert tracking.get(Key("ab", "one")) == STATE


def test_who_was_not_seen_in_a_snapshot_is_forgotten() -> None:
    """Seeing somebody who is not tracked is no fault; an earlier snapshot does not count."""
    tracking = ObjectTracker()
    for name in ("one", "two"):
        tracking.put(Key("ns", name), STATE)
    tracking.begin_snapshot()
    tracking.mark_listed(Key("ns", "two"))
    tracking.begin_snapshot()
    tracking.put(Key("ns", "one"), STATE)
    tracking.mark_listed(Key("ns", "blurred"))
    assert tracking.end_snapshot() == (Key("ns", "two"),)
    assert tracking.get(Key("ns", "one")) == STATE
    assert len(tracking) == 1


def test_a_snapshot_that_proves_nothing_forgets_nobody() -> None:
    """Who was not seen in it may be alive all the same."""
    tracking = ObjectTracker()
    tracking.put(Key("ns", "one"), STATE)
    tracking.begin_snapshot()
    tracking.abandon_snapshot()
    assert tracking.get(Key("ns", "one")) == STATE
    tracking.begin_snapshot()
    assert tracking.end_snapshot() == (Key("ns", "one"),)
