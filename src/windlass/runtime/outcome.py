"""What one pass over one object found out, and when to look again.

An `Outcome` says everything; it writes nothing. `Ready` is always said, `Stalled`
and `Reconciling` exclude each other and Stalled wins, so no later gate can turn
"a person must act" back into "wait a little".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from windlass.objects.condition import Condition, Status
from windlass.objects.names import JSON

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
SUMMARY_TYPES = frozenset({READY, RECONCILING, STALLED})

Weight = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The Ready condition; status None keeps the status that was last said."""

    status: Status | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class OutcomeEvent:
    """An event to record when this outcome changes what is known of the object.

    One that `stands_alone` is a transition itself, also where no condition changes by it.
    """

    weight: Weight
    reason: str
    message: str
    stands_alone: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a pass.

    `conditions` and `fields` name what they change: a condition or status field that
    is not named stays, a field that is None goes, a condition in `withdrawn` goes. What is
    `transient` will pass by itself; it is not written over a Ready that is True, so that a
    restart leaves no trace. `because` is the reason of Stalled or Reconciling where it says
    more than that of Ready. What `warns` is a failure: it is told as a warning although it comes
    again by itself.
    What `is_quiet` changes Ready without an event.
    """

    ready: Verdict | None
    stalled: bool = False
    reconciling: bool = False
    conditions: tuple[Condition, ...] = ()
    withdrawn: frozenset[str] = frozenset()
    fields: Mapping[str, JSON] = field(default_factory=dict)
    requeue_after: float | None = None
    backoff: bool = False
    transient: bool = False
    events: tuple[OutcomeEvent, ...] = ()
    because: str = ""
    warns: bool = False
    is_quiet: bool = False

    def __post_init__(self) -> None:
        types = [condition.type for condition in self.conditions]
        if SUMMARY_TYPES.intersection(types) or SUMMARY_TYPES & self.withdrawn:
            raise ValueError("Ready, Reconciling and Stalled are said by ready, not by conditions")
        if len(set(types)) != len(types):
            raise ValueError(f"conditions names a type twice: {sorted(types)}")
        if self.stalled and self.reconciling:
            object.__setattr__(self, "reconciling", False)

    @classmethod
    def gone(cls) -> Outcome:
        """The object is no longer there: nothing to report, nothing to look at again."""
        return cls(ready=None)

    @classmethod
    def postponed(cls, seconds: float) -> Outcome:
        """Nothing was looked at, nothing is reported: come back in `seconds`."""
        return cls(ready=None, requeue_after=seconds)

    @classmethod
    def suspended(cls, message: str, *, events: tuple[OutcomeEvent, ...] = ()) -> Outcome:
        """Nothing is done on purpose; Ready keeps what it last said."""
        return cls(ready=Verdict(None, "Suspended", message), events=events)

    @property
    def failure(self) -> str:
        """What is wrong where a person or a retry is needed; empty while it only takes time."""
        verdict = self.ready
        if verdict is None or verdict.status != "False":
            return ""
        fails = self.stalled or self.backoff or self.warns
        return f"{verdict.reason}: {verdict.message}" if fails else ""

    @property
    def is_gone(self) -> bool:
        return self.ready is None

    @property
    def is_postponed(self) -> bool:
        return self.ready is None and self.requeue_after is not None


def join_outcomes(first: Outcome, *later: Outcome) -> Outcome:
    """One outcome out of several gates: the gravest speaks, of equals the first.

    Conditions and fields of later gates win over those of earlier ones with the same
    name; the shortest wait wins.
    """
    gates = (first, *later)
    gravest = max(gates, key=_gravity)
    waits = [gate.requeue_after for gate in gates if gate.requeue_after is not None]
    conditions = {row.type: row for gate in gates for row in gate.conditions}
    return Outcome(
        ready=gravest.ready,
        stalled=gravest.stalled,
        reconciling=gravest.reconciling,
        conditions=tuple(conditions.values()),
        withdrawn=frozenset().union(*(gate.withdrawn for gate in gates)) - conditions.keys(),
        fields={name: value for gate in gates for name, value in gate.fields.items()},
        requeue_after=min(waits, default=None),
        backoff=any(gate.backoff for gate in gates),
        transient=gravest.transient,
        events=tuple(event for gate in gates for event in gate.events),
        because=gravest.because,
        warns=gravest.warns,
        is_quiet=gravest.is_quiet,
    )


def _gravity(outcome: Outcome) -> int:
    if outcome.is_gone:
        return 4
    if outcome.stalled:
        return 3
    if outcome.reconciling:
        return 2
    return 0 if outcome.ready is not None and outcome.ready.status == "True" else 1
