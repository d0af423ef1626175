"""How kstatus readers judge an object: the oracle of the status summary tests."""

from __future__ import annotations

from typing import Any, Literal

Judgement = Literal["Current", "InProgress", "Failed"]


def judge(generation: int, status: dict[str, Any]) -> Judgement:
    """The rules in their order: generation, Reconciling, Stalled, then Ready."""
    if status.get("observedGeneration", generation) != generation:
        return "InProgress"
    statuses = {row["type"]: row["status"] for row in status.get("conditions", [])}
    if statuses.get("Reconciling") == "True":
        return "InProgress"
    if statuses.get("Stalled") == "True":
        return "Failed"
    return "Current" if statuses.get("Ready", "True") == "True" else "InProgress"
