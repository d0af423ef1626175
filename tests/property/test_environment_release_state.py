"""Wherever the operator is killed, no object is left in the cluster without a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.environments import manifests as written
from tests.support.environments.manifests import OWNER, TARGET
from tests.support.strategies.batched import balanced_column, row, rows
from windlass.environments import inventory, phase
from windlass.environments.bundle.bundle import Bundle, Member
from windlass.environments.inventory import (
    FIELD_MANAGER,
    InventoryEntry,
    ObjectIdentity,
    ReleaseState,
)
from windlass.environments.phase import CONDITIONS, PhaseContext
from windlass.objects.condition import Condition
from windlass.objects.names import Object

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = [
    written.deployment("a"),
    written.deployment("b"),
    written.service("a"),
    written.make_object("v1", "ConfigMap", "c"),
    written.job("j"),
]


class Killed(Exception):
    """The operator was killed here."""


@dataclass
class Cluster:
    """A namespace, the stored release state, an operator that may be killed before any write."""

    live: dict[ObjectIdentity, Object] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    made: int = 0
    left: int = 0

    @property
    def release_state(self) -> ReleaseState:
        return inventory.decode_state({"data": self.stored})

    def run(self, bundle: Bundle, breath: int) -> bool:
        """One reconcile that is killed after `breath` side effects; whether it completed."""
        self.left = breath
        try:
            self._pass(bundle)
        except Killed:
            return False
        return True

    def lose(self, identity: ObjectIdentity) -> None:
        """A user deletes an object."""
        self.live.pop(identity, None)

    def _pass(self, bundle: Bundle) -> None:
        known = inventory.recover_state(self.release_state, self.live.values(), OWNER.uid)
        begun = inventory.begin_revision(known, bundle, NOW)
        self._store(begun)
        present = [self._applied(member) for member in bundle.members]
        gone = tuple(
            entry
            for entry in inventory.stale_entries(begun.inventory, bundle)
            if self._pruned(entry)
        )
        self._store(inventory.record_applied(begun, present, gone))
        self._store(inventory.record_rollout(self.release_state, {}, is_ready=True, now=NOW))

    def _applied(self, member: Member) -> Object:
        identity = (member.gvr.group, member.kind, member.name)
        if identity not in self.live:
            self._act()
            self.made += 1
            rows = [{"manager": FIELD_MANAGER, "operation": "Apply"}]
            own = {"uid": f"u{self.made}", "managedFields": rows}
            metadata = {**member.object["metadata"], **own}
            self.live[identity] = {**member.object, "metadata": metadata}
        return self.live[identity]

    def _pruned(self, entry: InventoryEntry) -> bool:
        live = self.live.get(entry.identity)
        if live is not None and inventory.may_delete(entry, live, OWNER.uid):
            self._act()
            del self.live[entry.identity]
        return True

    def _store(self, release_state: ReleaseState) -> None:
        if release_state != self.release_state:
            self._act()
            self.stored = inventory.encode_state(release_state)

    def _act(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


@cache
def _bundle(chosen: tuple[int, ...]) -> Bundle:
    return written.build_bundle([POOL[index] for index in chosen], TARGET)


ORDERS = [
    order for count in range(1, len(POOL) + 1) for order in permutations(range(len(POOL)), count)
]
BUNDLES = st.sampled_from(ORDERS).map(_bundle)
IDENTITIES = [
    (member.gvr.group, member.kind, member.name) for member in _bundle(ORDERS[-1]).members
]
VANDALISED = ("", "{", "[ ]")


def _events(drawn: list[tuple[Any, ...]]) -> list[tuple[str, object, int]]:
    """Reconciles that are killed early or late, losses, and edits of the release state."""
    return [
        (kind, {"pass": _bundle(order), "lose": lost, "vandal": text}[kind], breath)
        for kind, order, lost, text, breath in drawn
    ]


EVENTS = rows(
    ("pass", "lose", "vandal"), ORDERS, IDENTITIES, VANDALISED, range(13), max_size=8
).map(_events)


@given(EVENTS, BUNDLES)
def test_nothing_is_ever_orphaned(events: list[tuple[str, object, int]], last: Bundle) -> None:
    """After any kills, losses and edits a complete reconcile leaves exactly the desired objects."""
    cluster = Cluster()
    for kind, what, breath in events:
        if kind == "pass":
            assert isinstance(what, Bundle)
            cluster.run(what, breath)
            if cluster.stored.get("inventory") not in VANDALISED:
                assert cluster.live.keys() <= {
                    entry.identity for entry in cluster.release_state.inventory
                }
        elif kind == "lose":
            assert isinstance(what, tuple)
            cluster.lose(what)
        else:
            cluster.stored = {**cluster.stored, "inventory": str(what)}
    assert cluster.run(last, 1000)
    wanted = {(member.gvr.group, member.kind, member.name) for member in last.members}
    assert cluster.live.keys() == wanted
    assert {entry.identity for entry in cluster.release_state.inventory} == wanted
    assert {entry.uid for entry in cluster.release_state.inventory} == {
        live["metadata"]["uid"] for live in cluster.live.values()
    }
    assert cluster.run(last, 0), "a second pass has nothing to do"


STATUSES = ("True", "False", "Unknown")
REASONS = balanced_column(
    sorted({reason for reasons in phase.TERMINAL_REASONS.values() for reason in reasons}),
    ["Progressing", "GitUnavailable", ""],
)
CONDITIONS_REPORTED = rows([*CONDITIONS, "Ready"], STATUSES, REASONS, max_size=14).map(
    lambda drawn: {kind: (status, reason) for kind, status, reason in drawn}
)
BOTH = (False, True)
CONTEXTS = row(BOTH, BOTH).map(
    lambda drawn: PhaseContext(was_ready=drawn[0], was_degraded=drawn[1])
)


@given(CONDITIONS_REPORTED, CONTEXTS)
def test_every_state_has_a_phase(rows: dict[str, tuple[str, str]], around: PhaseContext) -> None:
    """Ready means that all conditions are True; Failed and Reconciling never occur together."""
    conditions = {
        kind: Condition(kind, status, reason, "")  # type: ignore[arg-type]
        for kind, (status, reason) in rows.items()
    }
    found = phase.derive_phase(conditions, around)
    all_true = all(rows.get(kind, ("",))[0] == "True" for kind in CONDITIONS)
    if found.phase == "Ready":
        assert all_true
    assert not (found.stalled and found.reconciling)
    assert found.phase not in ("Deleting", "Pending")
    assert found.reason or any(reason == "" for _, reason in rows.values())
    if found.phase == "Degraded":
        assert around.was_ready
