"""How kstatus readers judge an object: the oracle of the summariser's tests."""

from __future__ import annotations

from typing import Any, Literal

Judgement = Literal["Current", "InProgress", "Failed"]


def judge(generation: int, status: dict[str, Any]) -> Judgement:
    """The rules in their order: generation, Reconciling, Stalled, then Ready."""
    if status.get("observedGeneration", generation) != generation:
        return "InProgress"
    said = {row["type"]: row["status"] for row in status.get("conditions", [])}
    if said.get("Reconciling") == "True":
        return "InProgress"
    if said.get("Stalled") == "True":
        return "Failed"
    return "Current" if said.get("Ready", "True") == "True" else "InProgress"
