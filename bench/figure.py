"""One measured line of the report, and the two ways to print all of them.

A figure is what was measured; its goal is how large it may be or must at least be. A
goal that was missed is shown, never raised: a benchmark fails only when it cannot measure.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit for a figure in the figure's unit."""

    limit: float
    is_ceiling: bool = True

    def met_by(self, value: float) -> bool:
        return value <= self.limit if self.is_ceiling else value >= self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.is_ceiling else '>='} {self.limit:g}"


def at_most(limit: float) -> Goal:
    """The figure may be as large as `limit`."""
    return Goal(limit)


def at_least(limit: float) -> Goal:
    """The figure must reach `limit`."""
    return Goal(limit, is_ceiling=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, in words and as the one number that the goal is about."""

    row: str
    what: str
    ours: str
    value: float
    unit: str
    other: str = ""
    goal: Goal | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return self.goal.met_by(self.value) if self.goal else None

    def document(self) -> dict[str, object]:
        """The figure as plain values."""
        return {
            "row": self.row,
            "what": self.what,
            "ours": self.ours,
            "other": self.other,
            "figure": round(self.value, 4),
            "unit": self.unit,
            "goal": str(self.goal) if self.goal else None,
            "met": self.met,
            "note": self.note,
        }

    def cells(self) -> tuple[str, ...]:
        goal = f"{self.goal} {self.unit}" if self.goal else "-"
        met = {True: "yes", False: "NO", None: "-"}[self.met]
        shown = f"{self.value:.3g} {self.unit}"
        return self.row, self.what, self.ours, self.other or "-", shown, goal, met


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all values lie, by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def print_json(figures: Sequence[Figure], seconds: float) -> None:
    """All figures as one JSON document on stdout."""
    rows = [figure.document() for figure in figures]
    print(json.dumps({"seconds": round(seconds, 1), "figures": rows}, indent=2))


def print_table(figures: Sequence[Figure]) -> None:
    """All figures as one table on stdout, with the notes below it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("ROW", "WHAT", "OURS", "OTHER", "FIGURE", "GOAL", "MET"):
        table.add_column(heading, no_wrap=True)
    for figure in figures:
        table.add_row(*figure.cells())
    # A pipe has no width; a table squeezed into 80 columns would lose its ends there.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(table)
    for figure in figures:
        if figure.note:
            console.print(f"{figure.row}: {figure.what}: {figure.note}", style="dim", markup=False)
