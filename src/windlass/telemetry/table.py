"""Metric tables: one class per capability declares name, type, labels and meaning.

Each line of a `MetricTable` declares a metric and gives it a typed attribute. Labels never carry
object names.

`Series` caches the label children of a metric. Label values are given by position, in the declared
order. Every child is made here, so the cache is the complete list of series, and forgetting some of
them is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

M = TypeVar("M", Counter, Gauge, Histogram)


class Series(Generic[M]):
    """One metric with all its children."""

    def __init__(self, metric: M, labels: tuple[str, ...]) -> None:
        self._metric: M = metric
        self._labels = labels
        self._children: dict[tuple[str, ...], M] = {}

    def child(self, values: tuple[str, ...]) -> M:
        known = self._children.get(values)
        return known if known is not None else self._add_child(values)

    def forget(self, match: Mapping[str, str]) -> None:
        """Remove the series whose labels have these values; others are left alone."""
        if not match.keys() <= set(self._labels):
            return
        positions = {self._labels.index(label): value for label, value in match.items()}
        for values in list(self._children):
            if all(values[position] == value for position, value in positions.items()):
                del self._children[values]
                self._metric.remove(*values)

    def _add_child(self, values: tuple[str, ...]) -> M:
        if len(values) != len(self._labels):
            raise ValueError(f"labels are {self._labels}, {len(values)} values were given")
        child: M = self._metric.labels(*values) if values else self._metric
        self._children[values] = child
        return child


class CounterSeries(Series[Counter]):
    """A counter."""

    def inc(self, *labels: str, amount: float = 1.0) -> None:
        self.child(labels).inc(amount)


class GaugeSeries(Series[Gauge]):
    """A gauge."""

    def set(self, value: float, *labels: str) -> None:
        self.child(labels).set(value)

    def inc(self, *labels: str, amount: float = 1.0) -> None:
        self.child(labels).inc(amount)

    def dec(self, *labels: str, amount: float = 1.0) -> None:
        self.child(labels).dec(amount)


class HistogramSeries(Series[Histogram]):
    """A histogram."""

    def observe(self, value: float, *labels: str) -> None:
        self.child(labels).observe(value)


S = TypeVar("S", CounterSeries, GaugeSeries, HistogramSeries)

WORK_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class DeclaredMetric(Generic[S]):
    """A line of the table; on an instance of MetricTable it is the live metric."""

    kind: type[S]
    name: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @overload
    def __get__(self, instance: None, owner: type) -> DeclaredMetric[S]: ...

    @overload
    def __get__(self, instance: MetricTable, owner: type) -> S: ...

    def __get__(self, instance: MetricTable | None, owner: type) -> DeclaredMetric[S] | S:
        return self if instance is None else instance.built(self)


def counter(name: str, help: str, *labels: str) -> DeclaredMetric[CounterSeries]:  # noqa: A002
    """A line of a counter."""
    return DeclaredMetric(CounterSeries, name, labels, help)


def gauge(name: str, help: str, *labels: str) -> DeclaredMetric[GaugeSeries]:  # noqa: A002
    """A line of a gauge."""
    return DeclaredMetric(GaugeSeries, name, labels, help)


def histogram(
    name: str,
    help: str,  # noqa: A002
    *labels: str,
    buckets: tuple[float, ...],
) -> DeclaredMetric[HistogramSeries]:
    """A line of a histogram."""
    return DeclaredMetric(HistogramSeries, name, labels, help, buckets)


class MetricTable:
    """The metrics that a class declares, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Each series would otherwise be exposed twice, once as its birth time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        lines = declared_metrics(type(self))
        self._built: dict[str, Any] = {line.name: _build(line, registry) for line in lines}

    def built(self, line: DeclaredMetric[S]) -> S:
        live: S = self._built[line.name]
        return live

    def forget(self, **labels: str) -> None:
        """Remove every series that has these labels with these values."""
        for series in self._built.values():
            series.forget(labels)


def declared_metrics(kind: type[MetricTable]) -> tuple[DeclaredMetric[Any], ...]:
    """Every metric that `kind` declares, in the order of the table."""
    return tuple(line for line in vars(kind).values() if isinstance(line, DeclaredMetric))


def _build(
    line: DeclaredMetric[Any], registry: CollectorRegistry
) -> CounterSeries | GaugeSeries | HistogramSeries:
    if line.kind is CounterSeries:
        return CounterSeries(
            Counter(line.name, line.help, line.labels, registry=registry), line.labels
        )
    if line.kind is GaugeSeries:
        return GaugeSeries(Gauge(line.name, line.help, line.labels, registry=registry), line.labels)
    histogram = Histogram(
        line.name, line.help, line.labels, registry=registry, buckets=line.buckets
    )
    return HistogramSeries(histogram, line.labels)
