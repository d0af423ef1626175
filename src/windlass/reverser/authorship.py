"""Who made the changes that wait, as far as witnesses can tell.

| When | Then |
|---|---|
| a window closes | every change without a proven author is judged |
| a change waited so long that all its records must have come | judged, and kept if proven |

The second matters where a window stays open, or a remote away, for longer than records
are kept (ATT-7). Sooner than that a verdict could still be contradicted by a record that
is on its way. An author once proven is kept through every retry.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.reverser.decide.attribution import Observation, Verdict
from windlass.reverser.folder import Gathered

Judge = Callable[[Observation], Verdict]
Verdicts = dict[Observation, Verdict]

SETTLE_SECONDS = 5.0
"""How long after a change its records, and those that contradict them, may still come."""


def judged(waiting: Gathered, judge: Judge) -> Verdicts:
    """The verdict on every observed change, by what is known now."""
    for arrival in waiting.arrivals:
        if arrival.observation is not None:
            _judge(waiting, arrival.observation, judge)
    return waiting.verdicts


def settles_at(waiting: Gathered) -> float:
    """When the next change has waited long enough for its verdict."""
    for at in range(waiting.settled, len(waiting.arrivals) if waiting.live else 0):
        observation = waiting.arrivals[at].observation
        if observation is not None:
            return observation.received + SETTLE_SECONDS
    return float("inf")


def settle(waiting: Gathered, judge: Judge, now: float) -> None:
    """Judge what has waited long enough."""
    while waiting.settled < len(waiting.arrivals):
        observation = waiting.arrivals[waiting.settled].observation
        if observation is not None:
            if now < observation.received + SETTLE_SECONDS:
                return
            _judge(waiting, observation, judge)
        waiting.settled += 1


def _judge(waiting: Gathered, observation: Observation, judge: Judge) -> None:
    known = waiting.verdicts.get(observation)
    if known is None or known.actor is None:
        waiting.verdicts[observation] = judge(observation)
