"""`Outcome`: the result of reconciling one object, and when to reconcile it again.

Reconcilers return it, `runtime.reporter` writes it; an outcome itself writes nothing. `Ready` is
always set, `Stalled` and `Reconciling` exclude each other and Stalled wins, so no later gate can
turn "a person must act" back into "wait a little".
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
    """The Ready condition; status None keeps the status that Ready has."""

    status: Status | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class OutcomeEvent:
    """An event to record when this outcome changes the conditions of the object.

    One that `stands_alone` is a transition itself, also where it changes no condition.
    """

    weight: Weight
    reason: str
    message: str
    stands_alone: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of reconciling one object; conditions and fields it does not name stay."""

    ready: Verdict | None
    """The Ready condition; None: the object is gone or was not reconciled, nothing is written."""
    stalled: bool = False
    """Whether a person has to act before a retry can help."""
    reconciling: bool = False
    """Whether it becomes ready without a person; never together with `stalled`."""
    conditions: tuple[Condition, ...] = ()
    """Conditions to set, beside Ready, Reconciling and Stalled."""
    withdrawn: frozenset[str] = frozenset()
    """Types of conditions to remove."""
    fields: Mapping[str, JSON] = field(default_factory=dict)
    """Status fields to set; None removes one."""
    requeue_after: float | None = None
    """Seconds until the next reconcile; None: at the next change."""
    backoff: bool = False
    """Whether it is retried after the backoff of its key."""
    transient: bool = False
    """Whether it passes without help: then it is not written over a Ready that is True, so that a
    restart of the controller leaves no trace."""
    events: tuple[OutcomeEvent, ...] = ()
    """Events to record if the status changes."""
    because: str = ""
    """The reason of Stalled or Reconciling; empty: that of Ready."""
    warns: bool = False
    """Whether it is a failure, recorded as a Warning although it is retried."""
    is_quiet: bool = False
    """Whether Ready changes without an event."""

    def __post_init__(self) -> None:
        types = [condition.type for condition in self.conditions]
        if SUMMARY_TYPES.intersection(types) or SUMMARY_TYPES & self.withdrawn:
            raise ValueError("Ready, Reconciling and Stalled are set by ready, not by conditions")
        if len(set(types)) != len(types):
            raise ValueError(f"conditions names a type twice: {sorted(types)}")
        if self.stalled and self.reconciling:
            object.__setattr__(self, "reconciling", False)

    @classmethod
    def gone(cls) -> Outcome:
        """The outcome of an object that no longer exists: no status, no requeue."""
        return cls(ready=None)

    @classmethod
    def postponed(cls, seconds: float) -> Outcome:
        """The outcome of a reconcile that was not started: no status, again in `seconds`."""
        return cls(ready=None, requeue_after=seconds)

    @classmethod
    def suspended(cls, message: str, *, events: tuple[OutcomeEvent, ...] = ()) -> Outcome:
        """The outcome of a suspended object; Ready keeps its status."""
        return cls(ready=Verdict(None, "Suspended", message), events=events)

    @property
    def failure(self) -> str:
        """Reason and message where a person or a retry is needed; empty during progress."""
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
