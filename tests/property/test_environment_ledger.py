"""Whenever the operator dies: no object is in the cluster that nobody names."""

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
    """The operator died here."""


@dataclass
class World:
    """A namespace, the stored ledger, and an operator that may die before any side effect."""

    live: dict[ObjectIdentity, Object] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    made: int = 0
    left: int = 0

    @property
    def ledger(self) -> ReleaseState:
        return inventory.decode_state({"data": self.stored})

    def run(self, bundle: Bundle, breath: int) -> bool:
        """One pass that dies after `breath` side effects; whether it came to its end."""
        self.left = breath
        try:
            self._pass(bundle)
        except Killed:
            return False
        return True

    def lose(self, identity: ObjectIdentity) -> None:
        """Somebody deletes an object by hand."""
        self.live.pop(identity, None)

    def _pass(self, bundle: Bundle) -> None:
        known = inventory.recover_state(self.ledger, self.live.values(), OWNER.uid)
        begun = inventory.begin_revision(known, bundle, NOW)
        self._store(begun)
        present = [self._applied(member) for member in bundle.members]
        gone = tuple(
            entry
            for entry in inventory.stale_entries(begun.inventory, bundle)
            if self._pruned(entry)
        )
        self._store(inventory.record_applied(begun, present, gone))
        self._store(inventory.record_rollout(self.ledger, {}, is_ready=True, now=NOW))

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

    def _store(self, ledger: ReleaseState) -> None:
        if ledger != self.ledger:
            self._act()
            self.stored = inventory.encode_state(ledger)

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
    """Passes that die early or late, losses, and edits of the ledger."""
    return [
        (kind, {"pass": _bundle(order), "lose": lost, "vandal": text}[kind], breath)
        for kind, order, lost, text, breath in drawn
    ]


EVENTS = rows(
    ("pass", "lose", "vandal"), ORDERS, IDENTITIES, VANDALISED, range(13), max_size=8
).map(_events)


@given(EVENTS, BUNDLES)
def test_nothing_is_ever_orphaned(events: list[tuple[str, object, int]], last: Bundle) -> None:
    """After any deaths, losses and edits a whole pass leaves what is wished, and nothing else."""
    world = World()
    for kind, what, breath in events:
        if kind == "pass":
            assert isinstance(what, Bundle)
            world.run(what, breath)
            if world.stored.get("inventory") not in VANDALISED:
                assert world.live.keys() <= {entry.identity for entry in world.ledger.inventory}
        elif kind == "lose":
            assert isinstance(what, tuple)
            world.lose(what)
        else:
            world.stored = {**world.stored, "inventory": str(what)}
    assert world.run(last, 1000)
    wanted = {(member.gvr.group, member.kind, member.name) for member in last.members}
    assert world.live.keys() == wanted
    assert {entry.identity for entry in world.ledger.inventory} == wanted
    assert {entry.uid for entry in world.ledger.inventory} == {
        live["metadata"]["uid"] for live in world.live.values()
    }
    assert world.run(last, 0), "a second pass has nothing to do"


STATUSES = ("True", "False", "Unknown")
REASONS = balanced_column(
    sorted({reason for reasons in phase.TERMINAL_REASONS.values() for reason in reasons}),
    ["Progressing", "GitUnavailable", ""],
)
SAID = rows([*CONDITIONS, "Ready"], STATUSES, REASONS, max_size=14).map(
    lambda drawn: {kind: (status, reason) for kind, status, reason in drawn}
)
BOTH = (False, True)
AROUND = row(BOTH, ("", "ProjectNotFound"), BOTH, BOTH).map(
    lambda said: PhaseContext(
        deleting=said[0], blocked_reason=said[1], is_serving=said[2], was_ready=said[3]
    )
)


@given(SAID, AROUND)
def test_every_state_has_a_phase(rows: dict[str, tuple[str, str]], around: PhaseContext) -> None:
    """Ready means that all is True, Failed and Reconciling never go together."""
    conditions = {
        kind: Condition(kind, status, reason, "")  # type: ignore[arg-type]
        for kind, (status, reason) in rows.items()
    }
    found = phase.derive_phase(conditions, around)
    all_true = all(rows.get(kind, ("",))[0] == "True" for kind in CONDITIONS)
    if found.phase == "Ready":
        assert all_true
    assert not (found.stalled and found.reconciling)
    assert (found.phase == "Deleting") is around.deleting
    assert found.reason or any(reason == "" for _, reason in rows.values())
    if found.phase == "Degraded":
        assert around.was_ready
