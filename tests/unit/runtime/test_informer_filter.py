"""An informer with a filter caches only the objects that match."""

from __future__ import annotations

from tests.unit.runtime.fakes import observed
from windlass.kube.reflector import Scope, SnapshotComplete, SnapshotStarted
from windlass.objects.names import GVR, Key
from windlass.runtime.informer import Informer


def test_an_object_that_does_not_match_counts_as_deleted() -> None:
    """It takes no memory, and one that stops matching is reported as deleted."""
    changes: list[str] = []
    matching = True
    informer = Informer(
        None,  # type: ignore[arg-type]
        Scope(GVR("example.dev", "v1", "things")),
        on_change=lambda key: changes.append(key.name),
        matches=lambda raw: b"two" not in raw and matching,
    )
    informer.apply(SnapshotStarted())
    informer.apply(observed("one", 1))
    informer.apply(observed("two", 2))
    informer.apply(SnapshotComplete("3", 2, "list"))
    assert changes == ["one"]
    assert len(informer) == 1
    matching = False
    informer.apply(observed("one", 4, change="MODIFIED"))
    assert changes == ["one", "one"]
    assert informer.get(Key("ns", "one")) is None
    assert len(informer) == 0
