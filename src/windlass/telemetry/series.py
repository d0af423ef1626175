"""Counters, gauges, histograms whose label children are looked up only once.

Label values are given by position, in the declared order. Every child is made here,
so the cache is the complete list of series, and forgetting some of them is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram

M = TypeVar("M", Counter, Gauge, Histogram)


class Series(Generic[M]):
    """One metric with all its children."""

    def __init__(self, metric: M, labels: tuple[str, ...]) -> None:
        self._metric: M = metric
        self._labels = labels
        self._children: dict[tuple[str, ...], M] = {}

    def child(self, values: tuple[str, ...]) -> M:
        found = self._children.get(values)
        return found if found is not None else self._adopt(values)

    def forget(self, match: Mapping[str, str]) -> None:
        """Remove the series whose labels have these values; others are left alone."""
        if not match.keys() <= set(self._labels):
            return
        wanted = {self._labels.index(label): value for label, value in match.items()}
        for values in list(self._children):
            if all(values[place] == value for place, value in wanted.items()):
                del self._children[values]
                self._metric.remove(*values)

    def _adopt(self, values: tuple[str, ...]) -> M:
        if len(values) != len(self._labels):
            raise ValueError(f"labels are {self._labels}, {len(values)} values were given")
        made: M = self._metric.labels(*values) if values else self._metric
        self._children[values] = made
        return made


class Count(Series[Counter]):
    """A counter."""

    def inc(self, *labels: str, amount: float = 1.0) -> None:
        self.child(labels).inc(amount)


class Level(Series[Gauge]):
    """A gauge."""

    def set(self, value: float, *labels: str) -> None:
        self.child(labels).set(value)

    def inc(self, *labels: str, amount: float = 1.0) -> None:
        self.child(labels).inc(amount)

    def dec(self, *labels: str, amount: float = 1.0) -> None:
        self.child(labels).dec(amount)


class Spread(Series[Histogram]):
    """A histogram."""

    def observe(self, value: float, *labels: str) -> None:
        self.child(labels).observe(value)
