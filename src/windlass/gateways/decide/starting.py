"""When the gateway beside an agent may start (STA-1 to STA-4).

The first row that fits decides:

| what is known | the gateway |
|---|---|
| it answers already: only the agent was restarted | may run |
| the volume is another agent's, or not whole yet | waits |
| a pause or the end was told in so many words | may start |
| a synced tree, and it is the wanted one, or 20 s are over | may start |
| other files, and a first sync was tried, or 30 s are over | may start |
| nothing, a first sync was tried, and the policy is StartAnyway | may start |
| nothing | waits |

A gateway that was let through stays so: this is about starting only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TREE_SECONDS = 20.0
FILES_SECONDS = 30.0

Holdings = Literal["tree", "files", "nothing"]
"""What is on the volume: a tree that we synced, files of somebody else, or nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """All that the table looks at."""

    answers: bool = False
    is_whole: bool = False
    holds: Holdings = "nothing"
    at_target: bool = False
    was_tried: bool = False
    is_stopped: bool = False
    starts_anyway: bool = False
    waited_seconds: float = 0.0


def why_not(start: Start) -> str | None:
    """Why the gateway has to wait; None if it may start."""
    if start.answers:
        return None
    if not start.is_whole:
        return "the data volume is not ready: it is locked, or being made whole"
    if start.is_stopped:
        return None
    if start.holds == "tree":
        ready = start.at_target or start.waited_seconds >= TREE_SECONDS
        return None if ready else "the wanted commit is being fetched"
    if start.holds == "files":
        ready = start.was_tried or start.waited_seconds >= FILES_SECONDS
        return None if ready else "the first sync is being tried"
    if start.at_target or (start.was_tried and start.starts_anyway):
        return None
    return "there are no files yet: the first sync has to succeed"
