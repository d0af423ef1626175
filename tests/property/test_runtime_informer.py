"""The informer cache against a plain model of its events."""

from __future__ import annotations

import json
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime.fakes import ManualClock, observed
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    ReflectorEvent,
    Scope,
    SnapshotAbandoned,
    SnapshotComplete,
    SnapshotStarted,
)
from windlass.objects.names import GVR, Key
from windlass.runtime.informer import Informer

CHANGE = st.tuples(st.sampled_from("abcd"), st.sampled_from(["ADDED", "MODIFIED", "DELETED"]))
SNAPSHOT = st.tuples(st.frozensets(st.sampled_from("abcd")), st.booleans())
HISTORY = st.lists(CHANGE | SNAPSHOT, max_size=15)
Step = tuple[str, str] | tuple[frozenset[str], bool]


def items_of(step: Step, version: int) -> list[ReflectorEvent]:
    """The events of a reflector for a step of the history."""
    subject, how = step
    if isinstance(subject, str):
        return [observed(subject, version, change=str(how))]
    seen: list[ReflectorEvent] = [observed(name, version, initial=True) for name in sorted(subject)]
    end = SnapshotComplete(str(version), len(seen), "watchlist") if how else SnapshotAbandoned("x")
    return [Interrupted("expired", "m", 1.0), SnapshotStarted(), *seen, end]


def modelled(held: dict[str, int], step: Step, version: int) -> dict[str, int]:
    """Which names are held in which version after a step."""
    subject, how = step
    if isinstance(subject, str):
        rest = {name: known for name, known in held.items() if name != subject}
        return rest if how == "DELETED" else {**rest, subject: version}
    seen = dict.fromkeys(subject, version)
    return seen if how else {**held, **seen}


@given(history=HISTORY, keep=st.sampled_from(["bytes", "digest"]))
def test_the_cache_equals_the_model(history: list[Step], keep: Literal["bytes", "digest"]) -> None:
    """After any history, and exactly the differences were reported."""
    changed: set[str] = set()
    informer = Informer(
        None,  # type: ignore[arg-type]
        Scope(GVR("", "v1", "things")),
        on_change=lambda key: changed.add(key.name),
        keep=keep,
        clock=ManualClock(),
    )
    held: dict[str, int] = {}
    synced = False
    for version, step in enumerate(history, 1):
        changed.clear()
        for item in items_of(step, version):
            informer.apply(item)
        before, held = held, modelled(held, step, version)
        synced |= isinstance(step[0], frozenset) and step[1] is True
        assert {key.name for key in informer.keys()} == held.keys()  # noqa: SIM118 - no mapping
        assert changed == {
            name for name in before.keys() | held.keys() if before.get(name) != held.get(name)
        }
        assert informer.synced.is_set() == synced
    if keep == "bytes":
        for name, version in held.items():
            raw = informer.get(Key("ns", name))
            assert raw is not None
            assert f'"resourceVersion": "{version}"'.encode() in raw


def parity(key: Key, raw: bytes) -> str | None:
    """The value of an index in which versions that are multiples of three have none."""
    del key
    version = int(json.loads(raw)["metadata"]["resourceVersion"])
    return None if version % 3 == 0 else ("even", "odd")[version % 2]


@given(history=HISTORY)
def test_an_index_agrees_with_the_cache(history: list[Step]) -> None:
    """After any history it equals a scan; previous and current values are reported."""
    reported: set[str] = set()
    informer = Informer(
        None,  # type: ignore[arg-type]
        Scope(GVR("", "v1", "things")),
        clock=ManualClock(),
    )
    index = informer.add_index(parity, reported.add)
    before: dict[Key, str | None] = {}
    for version, step in enumerate(history, 1):
        reported.clear()
        for item in items_of(step, version):
            informer.apply(item)
        cached = {key: informer.get(key) or b"" for key in informer.keys()}  # noqa: SIM118 - no mapping
        now = {key: parity(key, raw) for key, raw in cached.items()}
        for value in ("even", "odd"):
            assert index.keys_of(value) == tuple(sorted(k for k in now if now[k] == value))
        assert set(index.values()) == set(now.values()) - {None}
        assert all(index.value_of(key) == value for key, value in now.items())
        moved = {key for key in before | now if before.get(key) != now.get(key)}
        assert reported >= {m.get(key) for key in moved for m in (before, now)} - {None}
        before = dict(now)


def test_observed_is_the_real_one() -> None:
    """The fake items are those of the kube room."""
    assert isinstance(observed("a"), Observed)
