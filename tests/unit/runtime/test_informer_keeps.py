"""A cache that holds only what concerns it."""

from __future__ import annotations

from tests.unit.runtime.fakes import observed
from windlass.kube.reflector import Scope, SnapshotComplete, SnapshotStarted
from windlass.objects.names import GVR, Key
from windlass.runtime.informer import Informer


def test_what_is_not_wanted_counts_as_deleted() -> None:
    """It costs no memory, and one that becomes unwanted is told as gone."""
    told: list[str] = []
    wanted = True
    informer = Informer(
        None,  # type: ignore[arg-type]
        Scope(GVR("example.dev", "v1", "things")),
        on_change=lambda key: told.append(key.name),
        matches=lambda raw: b"two" not in raw and wanted,
    )
    informer.apply(SnapshotStarted())
    informer.apply(observed("one", 1))
    informer.apply(observed("two", 2))
    informer.apply(SnapshotComplete("3", 2, "list"))
    assert told == ["one"]
    assert len(informer) == 1
    wanted = False
    informer.apply(observed("one", 4, change="MODIFIED"))
    assert told == ["one", "one"]
    assert informer.get(Key("ns", "one")) is None
    assert len(informer) == 0
