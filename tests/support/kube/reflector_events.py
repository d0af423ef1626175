"""Events of a reflector, collected until a condition holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from tests.support.processes.polling import DEADLINE_SECONDS
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    ReflectorEvent,
    SnapshotAbandoned,
    SnapshotComplete,
    SnapshotStarted,
)
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR, Object

CONFIGMAPS = GVR("", "v1", "configmaps")
QUICK = ReflectorSettings(
    idle_seconds=30.0,
    backoff_initial=0.01,
    backoff_ceiling=0.05,
    forbidden_initial=0.02,
    forbidden_ceiling=0.05,
)

Item = TypeVar("Item")


def config_map(name: str, namespace: str, **data: str) -> Object:
    """A ConfigMap manifest."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


async def collect_until(
    items: AsyncIterator[ReflectorEvent], is_enough: Callable[[ReflectorEvent], bool]
) -> list[ReflectorEvent]:
    """The events of a reflector, up to the first one for which `is_enough` holds."""
    events: list[ReflectorEvent] = []
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            async for item in items:
                events.append(item)
                if is_enough(item):
                    return events
    except TimeoutError:
        raise AssertionError(f"not enough: {summary(events)}") from None
    raise AssertionError(f"ended: {summary(events)}")


async def collect_until_synced(items: AsyncIterator[ReflectorEvent]) -> list[ReflectorEvent]:
    """Up to the end of a complete snapshot."""
    return await collect_until(items, lambda item: isinstance(item, SnapshotComplete))


async def collect_until_changed(
    items: AsyncIterator[ReflectorEvent], name: str, kind: str | None = None
) -> list[ReflectorEvent]:
    """Up to the first change of the object called `name`."""
    return await collect_until(
        items,
        lambda item: (
            isinstance(item, Observed) and object_name(item) == name and kind in {None, item.type}
        ),
    )


def object_name(item: Observed) -> str:
    """The name of the observed object."""
    return str(json.loads(item.object)["metadata"]["name"])


def changes_to(items: list[ReflectorEvent], *names: str) -> list[Observed]:
    """The observed changes of these objects; controllers create others in every namespace."""
    seen = (item for item in items if isinstance(item, Observed))
    return [item for item in seen if object_name(item) in names]


def interruptions(items: list[ReflectorEvent]) -> list[Interrupted]:
    """The interruptions among the events of a reflector."""
    return [item for item in items if isinstance(item, Interrupted)]


def snapshot_count(items: list[ReflectorEvent]) -> int:
    """How many snapshots a reflector began."""
    return sum(isinstance(item, SnapshotStarted) for item in items)


def live_names(items: list[ReflectorEvent]) -> set[str]:
    """The objects of the last complete snapshot and the changes after it."""
    live: set[str] = set()
    fresh: set[str] = set()
    for item in items:
        match item:
            case SnapshotStarted():
                fresh = set()
            case SnapshotComplete():
                live = fresh
            case Observed(initial=True):
                _count(fresh, item)
            case Observed():
                _count(live, item)
    return live - {"kube-root-ca.crt"}


def summary(items: list[ReflectorEvent]) -> list[str]:
    """One line per event, for the message of a failing test."""
    lines = []
    for item in items:
        match item:
            case Observed(type=kind, initial=initial):
                lines.append(f"{kind}{'*' if initial else ''} {object_name(item)}")
            case Interrupted(reason=reason, message=message):
                lines.append(f"Interrupted {reason}: {message[:60]}")
            case SnapshotAbandoned(cause=cause):
                lines.append(f"SnapshotAbandoned {cause[:60]}")
            case _:
                lines.append(type(item).__name__)
    return lines


def _count(names: set[str], item: Observed) -> None:
    if item.type == "DELETED":
        names.discard(object_name(item))
    else:
        names.add(object_name(item))
