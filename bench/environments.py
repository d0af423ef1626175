"""Row `environments`: what the operator takes for twenty Environments at once, and for drift."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.figure import Figure, Goal, at_most, percentile
from bench.testbed import Testbed
from tests.support.environments.environment_harness import (
    CONFIG_MAP,
    ENVIRONMENTS,
    POLICIES,
    SERVICE,
    EnvironmentHarness,
    environment_harness,
)
from tests.support.git.http_server import running_git_server
from windlass.environments.controller import EnvironmentsController

COPIES = 20
OBJECTS = 8

_DEADLINE_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_POLICY = "default-policy"


@dataclass
class Times:
    """What each copy took, in seconds."""

    overhead: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    restored: list[float] = field(default_factory=list)


def measure(testbed: Testbed) -> Iterator[Figure]:
    """From a known commit to all objects applied, and from creation to Ready."""
    took = asyncio.run(_measure(testbed))
    assert len(took.overhead) == len(took.whole) == COPIES
    title = f"{COPIES} Environments of {OBJECTS} objects at once, p95 of"
    own = f"{title} commit known to all applied"
    yield _figure(own, took.overhead, "the operator's own time", goal=at_most(2))
    note = "one after the other; namespace, isolation and a quota in force included, no pods"
    yield _figure(f"{title} created to Ready", took.whole, note)
    title = f"a network policy of each of {COPIES} Environments opened by hand, p95 of"
    yield _figure(
        f"{title} edited to restored", took.restored, "one after the other", goal=at_most(5)
    )


def _figure(name: str, seconds: list[float], note: str, *, goal: Goal | None = None) -> Figure:
    p95 = percentile(seconds, 0.95)
    return Figure(
        "environments",
        name,
        f"{p95:.2f} s",
        p95,
        "s",
        goal=goal,
        note=f"p50 {percentile(seconds, 0.5):.2f} s; {note}",
    )


async def _measure(testbed: Testbed) -> Times:
    namespace = testbed.namespace("previews")
    directory = testbed.directory / "previews"
    directory.mkdir()
    with running_git_server(directory / "git") as git:
        async with environment_harness(testbed.cluster, namespace, git, directory) as tenant:
            maps = [CONFIG_MAP.replace("settings", f"settings-{n}") for n in range(OBJECTS - 1)]
            tenant.commit({"deploy/all.yaml": "---\n".join([*maps, SERVICE])})
            async with tenant.running(poll_seconds=600.0) as controller:
                await tenant.apply(tenant.project(), tenant.environment("warm"))
                await tenant.phase("Ready", "warm", seconds=60.0)
                with testbed.progress.step(f"environments: {COPIES} at once"):
                    took = await _all_at_once(tenant, controller)
                with testbed.progress.step(f"environments: {COPIES} opened by hand"):
                    for name in _names():
                        took.restored.append(await _restore(tenant, name))
                return took


async def _all_at_once(tenant: EnvironmentHarness, controller: EnvironmentsController) -> Times:
    took = Times()
    # The metric knows ranges only; its source knows each one.
    observed = controller._metrics.record_rollout
    controller._metrics.record_rollout = lambda seconds, mode: (  # type: ignore[method-assign]
        took.overhead.append(seconds),
        observed(seconds, mode),
    )[1]
    names = _names()
    began = time.perf_counter()
    await asyncio.gather(*(tenant.apply(tenant.environment(name)) for name in names))
    waiting = set(names)
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while waiting:
            # One list of all: twenty clients that poll would be measured too.
            rows = await tenant.api.list(ENVIRONMENTS, tenant.namespace)
            ready = {row["metadata"]["name"] for row in rows if _is_ready(row)} & waiting
            took.whole += [time.perf_counter() - began] * len(ready)
            waiting -= ready
            await asyncio.sleep(_LOOK_SECONDS)
    return took


def _names() -> list[str]:
    return [f"copy-{number}" for number in range(COPIES)]


async def _restore(tenant: EnvironmentHarness, name: str) -> float:
    """Seconds from a stored edit of the isolation of an Environment until it is undone."""
    namespace = await tenant.environment_namespace(name)
    before = (await tenant.api.get(POLICIES, _POLICY, namespace))["spec"]
    await tenant.patch(POLICIES, _POLICY, {"spec": {"ingress": [{}]}}, namespace)
    began = time.perf_counter()
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while (await tenant.api.get(POLICIES, _POLICY, namespace))["spec"] != before:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS / 10)
    return time.perf_counter() - began


def _is_ready(row: dict[str, object]) -> bool:
    status = row.get("status")
    return isinstance(status, dict) and status.get("phase") == "Ready"
