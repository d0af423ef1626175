"""The verdict whether a cluster enforces NetworkPolicies, from who reached whom.

A `server` listens. A `neighbour` from its own namespace and a `stranger` from another call
it again and again. For each direction the policies of an Environment are created, for ingress
around the server, for egress around the stranger, and deleted again.

| Before | Isolated: stranger | Isolated: neighbour | After | Verdict |
|---|---|---|---|---|
| not open | | | | Inconclusive: there was nothing to shut |
| open | open | | | NotEnforced |
| open | neither | | | Inconclusive |
| open | shut | not open | | Inconclusive: more is shut than the policies demand |
| open | shut | open | not open | Inconclusive: something else may have shut it |
| open | shut | open | open | Enforced |

Silence is never taken for shut: only calls count that were made and logged. A cluster
counts as enforcing only if it does so in both directions.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Direction = Literal["ingress", "egress"]
EnforcementVerdict = Literal["Enforced", "NotEnforced", "Inconclusive"]
Reachability = Literal["open", "shut", "unsteady", "silent"]

DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
STEADY_CALLS = 3
"""So many calls in a row have to end alike; a single one may be lost on any network."""

_LINE = re.compile(r"([0-9]{1,9}) (open|shut)")
_SETTING = "--environments-network-enforcement"
_ADVICE: dict[EnforcementVerdict, str] = {
    "Enforced": f"this cluster enforces network policies: {_SETTING}=assume, the default, is right",
    "NotEnforced": "this cluster does not enforce network policies, so nothing fences previews "
    f"in: set {_SETTING}=absent, which refuses untrusted Environments",
    "Inconclusive": "nothing is known about this cluster: repeat the measurement, and until it "
    f"says Enforced set {_SETTING}=absent",
}


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """One call, as its caller told it."""

    number: int
    connected: bool


@dataclass(frozen=True, slots=True)
class ProbeObservation:
    """How both callers fared at the end of a wait.

    `seconds` is how long it took until the stranger fared as was waited for, or the whole
    wait. `trouble` says why a caller could not be heard.
    """

    stranger: Reachability
    neighbor: Reachability
    seconds: float
    error: str = ""

    @property
    def is_open(self) -> bool:
        return self.stranger == self.neighbor == "open"

    @property
    def is_isolated(self) -> bool:
        return self.stranger == "shut" and self.neighbor == "open"


@dataclass(frozen=True, slots=True)
class DirectionResult:
    """What was found out about one direction; `seconds` until the fence was in force."""

    direction: Direction
    verdict: EnforcementVerdict
    message: str
    seconds: float | None = None


def parse_calls(log: str) -> tuple[ProbeCall, ...]:
    """The calls in a caller's log; a line that is cut off is none."""
    found = (_LINE.fullmatch(line.strip()) for line in log.splitlines())
    return tuple(ProbeCall(int(row[1]), row[2] == "open") for row in found if row)


def reachability(made: Sequence[ProbeCall]) -> Reachability:
    """How the last calls ended."""
    last = [call.connected for call in made[-STEADY_CALLS:]]
    if len(last) < STEADY_CALLS:
        return "silent"
    if all(last):
        return "open"
    return "unsteady" if any(last) else "shut"


def has_flipped(made: Sequence[ProbeCall], wanted: Reachability) -> bool:
    """Whether the very last call ended as wanted, steady or not yet."""
    return bool(made) and made[-1].connected is (wanted == "open")


def judge(
    direction: Direction,
    before: ProbeObservation,
    fenced: ProbeObservation | None = None,
    after: ProbeObservation | None = None,
) -> DirectionResult:
    """The verdict of the table above."""
    if not before.is_open or fenced is None:
        return _unclear(direction, before, f"without the fence {_describe(before)}")
    if fenced.stranger == "open":
        text = f"a stranger still gets through {fenced.seconds:.1f} s after the fence was put up"
        return DirectionResult(direction, "NotEnforced", text)
    if not fenced.is_isolated:
        return _unclear(direction, fenced, f"with the fence {_describe(fenced)}")
    if after is None or not after.is_open:
        told = _describe(after) if after else "nobody looked"
        return _unclear(direction, after, f"after the fence was taken down {told}")
    text = f"a stranger is kept out, in force within {fenced.seconds:.1f} s"
    return DirectionResult(direction, "Enforced", text, fenced.seconds)


def overall_verdict(findings: Iterable[DirectionResult]) -> EnforcementVerdict:
    """One word for the cluster: a hole in one direction is a hole."""
    verdicts = {finding.direction: finding.verdict for finding in findings}
    if "NotEnforced" in verdicts.values():
        return "NotEnforced"
    enforced = all(verdicts.get(direction) == "Enforced" for direction in DIRECTIONS)
    return "Enforced" if enforced else "Inconclusive"


def advice(verdict: EnforcementVerdict) -> str:
    """What to set."""
    return _ADVICE[verdict]


def _unclear(direction: Direction, sight: ProbeObservation | None, text: str) -> DirectionResult:
    trouble = f" ({sight.error})" if sight is not None and sight.error else ""
    return DirectionResult(direction, "Inconclusive", f"{text}{trouble}")


_TEXTS: dict[Reachability, str] = {
    "open": "gets through",
    "shut": "does not get through",
    "unsteady": "gets through at times",
    "silent": "says nothing",
}


def _describe(sight: ProbeObservation) -> str:
    return (
        f"the stranger {_TEXTS[sight.stranger]} and the neighbour {_TEXTS[sight.neighbor]} "
        f"after {sight.seconds:.1f} s"
    )
