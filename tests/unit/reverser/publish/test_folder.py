"""A folder knows its expected content, and forgets nothing that was not acknowledged."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tests.support.reverser.destination_folder import empty_folder
from windlass.git.store import Entry
from windlass.objects.names import GVR, Identity
from windlass.reverser.publish.file_update import FileUpdate, ScopeSnapshot
from windlass.reverser.publish.folder import Folder
from windlass.reverser.selection.rules import operation_mask

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _folder(**files: str) -> Folder:
    folder = empty_folder()
    folder.load({f"base/{name}": Entry(0o100644, blob) for name, blob in files.items()})
    return folder


def _update(name: str, blob: str | None) -> FileUpdate:
    identity = Identity(GVR("", "v1", "configmaps"), "ns", name)
    content = b"x" if blob is not None else None
    return FileUpdate(
        identity, "ConfigMap", f"base/{name}", blob, content, operation_mask(()), None, _NOW
    )


def test_equal_content_is_not_queued() -> None:
    """Equal content costs no memory and no Git work."""
    folder = _folder(a="1")
    assert not folder.add_update(_update("a", "1"), 0.0)
    assert not folder.window
    assert "base/a" in folder.own_paths


def test_the_newest_update_decides_the_expected_content() -> None:
    """A change back to what Git has is queued while another one waits."""
    folder = _folder(a="1")
    assert folder.add_update(_update("a", "2"), 0.0)
    assert folder.add_update(_update("a", "1"), 0.1)
    assert folder.expected_blob("base/a") == "1"


def test_a_file_recreated_while_its_removal_is_pushed_stays_ours() -> None:
    """The acknowledgement of the removal must not forget the newer file."""
    folder = _folder(a="1")
    folder.add_update(_update("a", "1"), 0.0)
    folder.add_update(_update("a", None), 0.1)
    folder.take()
    folder.add_update(_update("a", "3"), 0.2)
    folder.acknowledge({"base/a": None})
    assert "base/a" in folder.own_paths
    assert folder.expected_blob("base/a") == "3"


def test_a_file_that_prune_keeps_is_no_object() -> None:
    """A100: after a restart it is none either, so a restart alone changes no status."""
    folder, restarted = _folder(a="1", b="1"), _folder(a="1", b="1")
    for update in (_update("a", "1"), _update("b", "1")):
        folder.add_update(update, 0.0)
    restarted.add_update(_update("a", "1"), 0.0)
    assert folder.objects == 2
    for one in (folder, restarted):
        one.retain({"base/b"})
        assert (one.objects, one.retained) == (1, 1)
    folder.add_update(_update("b", "1"), 1.0)
    assert (folder.objects, folder.retained) == (2, 0)


def test_a_file_recreated_while_its_removal_is_planned_is_not_retained() -> None:
    """SNP-6: the object is live again when the prune mode has kept its file."""
    folder = _folder(a="1")
    folder.add_update(_update("a", "1"), 0.0)
    folder.add_update(_update("a", None), 0.1)
    folder.take()
    folder.add_update(_update("a", "1"), 0.2)
    folder.settle()
    folder.retain({"base/a"})
    assert (folder.objects, folder.retained) == (1, 0)


def test_the_claim_is_no_object() -> None:
    """Our own file in the folder is not counted among the mirrored ones."""
    folder = _folder(**{".windlass-claim": "9", "a": "1"})
    assert folder.index == {"base/a": "1"}


def test_stored_content_is_dropped_from_memory_only() -> None:
    """The pending updates are the same; the store keeps their bytes."""
    folder = _folder()
    folder.add_update(_update("a", "1"), 0.0)
    folder.add_update(_update("b", "2"), 0.1)
    assert folder.window.held_bytes == 2
    folder.drop_content({"1"})
    assert folder.window.held_bytes == 1
    assert [update.content for update in folder.window.updates] == [None, b"x"]
    assert folder.expected_blob("base/a") == "1"


def test_dropped_updates_keep_their_paths_and_free_the_bytes() -> None:
    """A long outage keeps paths in memory, not content."""
    folder = _folder()
    folder.add_update(_update("a", "1"), 0.0)
    folder.drop_updates()
    assert folder.dropped == {"base/a"}
    assert not folder.window
    assert folder.pending == 1


def test_a_window_that_is_being_pushed_is_not_dropped() -> None:
    """A returned window must not override an update that was dropped meanwhile."""
    folder = _folder(a="1")
    folder.add_update(_update("a", "2"), 0.0)
    closed = folder.take()
    folder.drop_updates()
    assert folder.add_update(_update("a", "1"), 1.0)
    folder.put_back(closed)
    assert [update.blob for update in folder.window.updates] == ["2", "1"]


@given(
    first=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", None]))),
    second=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", None]))),
)
def test_a_returned_window_precedes_later_updates(
    first: list[tuple[str, str | None]], second: list[tuple[str, str | None]]
) -> None:
    """take, then put_back, is as if the window had never closed."""
    folder, reference = _folder(a="1"), _folder(a="1")
    for number, (name, blob) in enumerate(first):
        folder.add_update(_update(name, blob), float(number))
        reference.add_update(_update(name, blob), float(number))
    window = folder.take()
    for number, (name, blob) in enumerate(second, start=len(first)):
        folder.add_update(_update(name, blob), float(number))
        reference.add_update(_update(name, blob), float(number))
    folder.put_back(window)
    assert folder.window.updates == reference.window.updates
    assert folder.window.size == reference.window.size
    assert {path: folder.expected_blob(path) for path in folder.index} == {
        path: reference.expected_blob(path) for path in reference.index
    }


def test_pending_snapshots_know_the_updates_observed_after_them() -> None:
    """P2: also those of a window that is being pushed, for it may be returned."""
    folder = _folder(a="1")
    first, second = _snapshot(), _snapshot()
    folder.add_snapshot(first, 0.0)
    folder.take()
    folder.add_update(_update("a", "1"), 1.0)
    folder.add_snapshot(second, 2.0)
    assert (first.seen_since, second.seen_since) == ({"base/a"}, set())
    folder.settle()
    folder.add_update(_update("b", "1"), 3.0)
    assert (first.seen_since, second.seen_since) == ({"base/a"}, {"base/b"})


def test_equal_content_is_queued_while_its_removal_is_on_its_way() -> None:
    """P1: an object that is recreated as it was has a file in the end."""
    folder = _folder(a="1")
    folder.add_snapshot(_snapshot(), 0.0)
    folder.take()
    folder.expect_removals([_update("a", None)])
    assert folder.add_update(_update("a", "1"), 1.0)


_changes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", None])))


@given(
    closed=_changes,
    removed=st.sets(st.sampled_from("abc")),
    pushed=st.integers(0, 6),
    later=_changes,
)
def test_a_partial_push_forgets_nothing_that_is_still_to_come(
    closed: list[tuple[str, str | None]],
    removed: set[str],
    pushed: int,
    later: list[tuple[str, str | None]],
) -> None:
    """P1: the last event of a path decides, whichever part of the closed window was pushed."""
    folder = _folder(a="1", b="1")
    for name, blob in closed:
        folder.add_update(_update(name, blob), 0.0)
    window = folder.take()
    removals = [_update(name, None) for name in sorted(removed)]
    folder.expect_removals(removals)
    plan = [*window.updates, *removals]
    folder.acknowledge({one.path: one.blob for one in plan[:pushed]}, window.updates[pushed:])
    assert not folder.is_idle
    for name, blob in later:
        folder.add_update(_update(name, blob), 1.0)
    folder.acknowledge({one.path: one.blob for one in plan[pushed:]})
    folder.settle()
    folder.acknowledge({one.path: one.blob for one in folder.take().updates})
    folder.settle()
    desired = {"a": "1", "b": "1"} | dict(closed) | dict.fromkeys(removed) | dict(later)
    assert folder.index == {f"base/{name}": blob for name, blob in desired.items() if blob}
    assert (folder.pending, folder.is_idle) == (0, True)


def _snapshot() -> ScopeSnapshot:
    maps = GVR("", "v1", "configmaps")
    return ScopeSnapshot(maps, "ConfigMap", "ns", frozenset(), False, operation_mask(()))
