"""One table of metrics per capability: name, type, labels, meaning.

Each line of a `Table` declares a metric and gives it a typed attribute. Labels never
carry object names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from windlass.telemetry.series import Count, Level, Spread

S = TypeVar("S", Count, Level, Spread)

WORK_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Declared(Generic[S]):
    """A line of the table; on an instance of Metrics it is the live metric."""

    kind: type[S]
    name: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @overload
    def __get__(self, instance: None, owner: type) -> Declared[S]: ...

    @overload
    def __get__(self, instance: Table, owner: type) -> S: ...

    def __get__(self, instance: Table | None, owner: type) -> Declared[S] | S:
        return self if instance is None else instance.built(self)


def count(name: str, help: str, *labels: str) -> Declared[Count]:  # noqa: A002
    """A line of a counter."""
    return Declared(Count, name, labels, help)


def level(name: str, help: str, *labels: str) -> Declared[Level]:  # noqa: A002
    """A line of a gauge."""
    return Declared(Level, name, labels, help)


def spread(
    name: str,
    help: str,  # noqa: A002
    *labels: str,
    buckets: tuple[float, ...],
) -> Declared[Spread]:
    """A line of a histogram."""
    return Declared(Spread, name, labels, help, buckets)


class Table:
    """The metrics that a class declares, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Each series would otherwise be exposed twice, once as its birth time.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        lines = table(type(self))
        self._built: dict[str, Any] = {line.name: _build(line, registry) for line in lines}

    def built(self, line: Declared[S]) -> S:
        live: S = self._built[line.name]
        return live

    def forget(self, **labels: str) -> None:
        """Remove every series that has these labels with these values."""
        for series in self._built.values():
            series.forget(labels)


def table(kind: type[Table]) -> tuple[Declared[Any], ...]:
    """Every metric that `kind` declares, in the order of the table."""
    return tuple(line for line in vars(kind).values() if isinstance(line, Declared))


def _build(line: Declared[Any], registry: CollectorRegistry) -> Count | Level | Spread:
    if line.kind is Count:
        return Count(Counter(line.name, line.help, line.labels, registry=registry), line.labels)
    if line.kind is Level:
        return Level(Gauge(line.name, line.help, line.labels, registry=registry), line.labels)
    histogram = Histogram(
        line.name, line.help, line.labels, registry=registry, buckets=line.buckets
    )
    return Spread(histogram, line.labels)
