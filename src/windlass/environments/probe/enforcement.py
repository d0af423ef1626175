"""The verdict whether a cluster enforces NetworkPolicies, from the calls of a network probe.

A `server` listens. A `neighbour` from its own namespace and a `stranger` from another call
it again and again. For each direction the policies of an Environment are created, for ingress
in the namespace of the server, for egress in that of the stranger, and deleted again.

| Before | Isolated: stranger | Isolated: neighbor | After | Verdict |
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
"""Number of calls in a row that have to end alike; a single one may be lost on any network."""

_LINE = re.compile(r"([0-9]{1,9}) (open|shut)")
_SETTING = "--environments-network-enforcement"
_ADVICE: dict[EnforcementVerdict, str] = {
    "Enforced": f"network policies are enforced: {_SETTING}=assume (the default) is right",
    "NotEnforced": "network policies are not enforced, so Environments are not isolated: set "
    f"{_SETTING}=absent, which refuses untrusted Environments",
    "Inconclusive": "the result is inconclusive: repeat the probe; until it reports Enforced, set "
    f"{_SETTING}=absent",
}


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """One call from the log of its caller."""

    number: int  # ascending per caller
    connected: bool


@dataclass(frozen=True, slots=True)
class ProbeObservation:
    """Reachability of the server at the end of a wait."""

    stranger: Reachability
    neighbor: Reachability
    seconds: float  # until the stranger's calls ended as expected, or the whole wait
    error: str = ""  # why the log of a caller could not be read

    @property
    def is_open(self) -> bool:
        """Whether both callers connect."""
        return self.stranger == self.neighbor == "open"

    @property
    def is_isolated(self) -> bool:
        """Whether the policies hold: the neighbor connects, the stranger does not."""
        return self.stranger == "shut" and self.neighbor == "open"


@dataclass(frozen=True, slots=True)
class DirectionResult:
    """The verdict for one direction."""

    direction: Direction
    verdict: EnforcementVerdict
    message: str
    seconds: float | None = None  # until the policies were in force; None unless Enforced


def parse_calls(log: str) -> tuple[ProbeCall, ...]:
    """The calls in a caller's log; a truncated line is skipped."""
    matches = (_LINE.fullmatch(line.strip()) for line in log.splitlines())
    return tuple(ProbeCall(int(match[1]), match[2] == "open") for match in matches if match)


def reachability(calls: Sequence[ProbeCall]) -> Reachability:
    """The reachability that the last STEADY_CALLS show."""
    connected = [call.connected for call in calls[-STEADY_CALLS:]]
    if len(connected) < STEADY_CALLS:
        return "silent"
    if all(connected):
        return "open"
    return "unsteady" if any(connected) else "shut"


def has_flipped(calls: Sequence[ProbeCall], expected: Reachability) -> bool:
    """Whether the very last call ended as expected, steady or not yet."""
    return bool(calls) and calls[-1].connected is (expected == "open")


def judge(
    direction: Direction,
    before: ProbeObservation,
    isolated: ProbeObservation | None = None,
    after: ProbeObservation | None = None,
) -> DirectionResult:
    """The verdict of the table above."""
    if not before.is_open or isolated is None:
        return _unclear(direction, before, f"without policies {_describe(before)}")
    if isolated.stranger == "open":
        text = f"the stranger can connect {isolated.seconds:.1f} s after the policies were created"
        return DirectionResult(direction, "NotEnforced", text)
    if not isolated.is_isolated:
        return _unclear(direction, isolated, f"with policies {_describe(isolated)}")
    if after is None or not after.is_open:
        observed = _describe(after) if after else "nothing was measured"
        return _unclear(direction, after, f"after the policies were deleted {observed}")
    text = f"the stranger is blocked, in force within {isolated.seconds:.1f} s"
    return DirectionResult(direction, "Enforced", text, isolated.seconds)


def overall_verdict(results: Iterable[DirectionResult]) -> EnforcementVerdict:
    """The verdict for the cluster: Enforced only if it is in both directions."""
    verdicts = {result.direction: result.verdict for result in results}
    if "NotEnforced" in verdicts.values():
        return "NotEnforced"
    enforced = all(verdicts.get(direction) == "Enforced" for direction in DIRECTIONS)
    return "Enforced" if enforced else "Inconclusive"


def advice(verdict: EnforcementVerdict) -> str:
    """The setting to use with this verdict."""
    return _ADVICE[verdict]


def _unclear(
    direction: Direction, observation: ProbeObservation | None, text: str
) -> DirectionResult:
    error = f" ({observation.error})" if observation is not None and observation.error else ""
    return DirectionResult(direction, "Inconclusive", f"{text}{error}")


_TEXTS: dict[Reachability, str] = {
    "open": "can connect",
    "shut": "cannot connect",
    "unsteady": "can connect sometimes",
    "silent": "logs no calls",
}


def _describe(observation: ProbeObservation) -> str:
    return (
        f"the stranger {_TEXTS[observation.stranger]} and "
        f"the neighbor {_TEXTS[observation.neighbor]} "
        f"after {observation.seconds:.1f} s"
    )
