"""Measures whether the network of a cluster enforces the NetworkPolicies of an Environment.

`windlass check --network-probe` runs it. There is a server, a neighbor in its namespace, and a
stranger in another one. Both callers call without a pause; the policies are created and deleted,
and the verdict (`enforcement`) comes from the callers' logs.

A log has a numbered line per call. Whether a pod is Ready would be cheaper to read, but a pod
also stops being Ready when its node is lost or its program is missing, and that would pass for
enforcement. A line proves that a call was made, and how it ended; where no more lines come,
nothing is concluded.

Callers start after the server, because they are given its pod address. Services are not used:
whether policies apply to their address or to the pod's differs between network plugins.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass.base.clock import Clock
from windlass.base.errors import Stalled
from windlass.environments.probe import enforcement, probe_objects
from windlass.environments.probe.enforcement import (
    Direction,
    DirectionResult,
    ProbeCall,
    ProbeObservation,
    Reachability,
)
from windlass.environments.probe.probe_namespaces import (
    FIELD_MANAGER,
    ProbeNamespaceManager,
    ProbeNamespaces,
    missing_right,
)
from windlass.environments.probe.probe_objects import PORTS, Caller, RunningPod
from windlass.kube import api
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Forbidden, NotFound, clean
from windlass.objects.names import Object
from windlass.objects.resources import NETWORK_POLICIES, PODS

_POLL_SECONDS = 0.3
_TAIL = "tailLines=20"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe."""

    results: tuple[DirectionResult, ...]
    nodes: Mapping[str, str]  # node by pod name
    leftover_namespaces: tuple[str, ...]  # those that could not be removed


class NetworkProbe:
    """One measurement.

    `seconds` is how long it waits for pods, and for each change; `report` prints progress.
    """

    def __init__(
        self, api: Api, clock: Clock, *, image: str, seconds: float, report: Callable[[str], None]
    ) -> None:
        self._api = api
        self._clock = clock
        self._image = image
        self._seconds = seconds
        self._report = report

    async def run(self) -> ProbeResult:
        """Measure both directions, in namespaces that are removed afterwards."""
        manager = ProbeNamespaceManager(self._api, self._clock, self._report)
        async with manager.create(secrets.token_hex(4)) as namespaces:
            nodes = await self._start_pods(namespaces)
            self._report("pods are running; waiting for connections without policies")
            # Where the policies go: around the server for ingress, around the caller for egress.
            isolated: dict[Direction, str] = {
                "ingress": namespaces.server,
                "egress": namespaces.stranger,
            }
            logs = _CallLogs(self._api, self._clock, namespaces, self._seconds)
            results = [
                await self._measure(logs, direction, namespace)
                for direction, namespace in isolated.items()
            ]
        return ProbeResult(tuple(results), nodes, tuple(namespaces.leftovers))

    async def _start_pods(self, namespaces: ProbeNamespaces) -> dict[str, str]:
        """Start all three pods; returns the node of each."""
        token = secrets.token_hex(8)
        self._report(f"starting pods in namespaces {namespaces.server} and {namespaces.stranger}")
        server = probe_objects.server_pod(namespaces.server, self._image, token)
        running = {probe_objects.SERVER: (await self._run([server]))[0]}
        callers = [
            probe_objects.caller_pod(
                name, namespace, self._image, token, running[probe_objects.SERVER].address
            )
            for name, namespace in _caller_namespaces(namespaces).items()
        ]
        running |= zip(_caller_namespaces(namespaces), await self._run(callers), strict=True)
        return {name: pod.node for name, pod in running.items()}

    async def _run(self, pods: list[Object]) -> list[RunningPod]:
        for pod in pods:
            try:
                await self._api.create(PODS, pod, field_manager=FIELD_MANAGER)
            except Forbidden as error:
                raise missing_right("create pods in its namespaces", error) from error
        deadline = self._clock.monotonic() + self._seconds
        return [await self._running(pod["metadata"], deadline) for pod in pods]

    async def _running(self, metadata: Object, deadline: float) -> RunningPod:
        name = metadata["name"]
        while True:
            pod = await self._api.get(PODS, name, metadata["namespace"])
            running = probe_objects.running_pod(pod)
            if running is not None:
                return running
            problem = probe_objects.pod_problem(pod)
            if problem is not None and not problem.may_heal:
                raise Stalled(problem.reason, clean(problem.message))
            if self._clock.monotonic() >= deadline:
                text = clean(problem.message) if problem else "not started yet"
                reason = problem.reason if problem else "PodNotRunning"
                raise Stalled(
                    reason, f"pod {name} is not running after {self._seconds:g} s: {text}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _measure(
        self, logs: _CallLogs, direction: Direction, namespace: str
    ) -> DirectionResult:
        """Observe without, with and again without policies; stop where no verdict is possible."""
        before = await logs.wait_until("open")
        if not before.is_open:
            return enforcement.judge(direction, before)
        policies = probe_objects.isolation_policies(namespace)
        await self._create_policies(policies)
        self._report(f"{direction}: policies created; waiting until they are in force")
        isolated = await logs.wait_until("shut")
        await self._delete_policies(policies)
        after = await logs.wait_until("open") if isolated.is_isolated else None
        return enforcement.judge(direction, before, isolated, after)

    async def _create_policies(self, policies: list[Object]) -> None:
        try:
            for policy in policies:
                await self._api.create(NETWORK_POLICIES, policy, field_manager=FIELD_MANAGER)
        except Forbidden as error:
            raise missing_right("create networkpolicies in its namespaces", error) from error

    async def _delete_policies(self, policies: list[Object]) -> None:
        try:
            for policy in policies:
                metadata = policy["metadata"]
                with contextlib.suppress(NotFound):
                    await self._api.delete(
                        NETWORK_POLICIES, metadata["name"], metadata["namespace"]
                    )
        except Forbidden as error:
            raise missing_right("delete networkpolicies in its namespaces", error) from error


class _CallLogs:
    """Reads the callers' logs, and waits until they show an expected reachability."""

    def __init__(self, api: Api, clock: Clock, namespaces: ProbeNamespaces, seconds: float) -> None:
        self._api = api
        self._clock = clock
        self._namespaces = _caller_namespaces(namespaces)
        self._seconds = seconds
        # The last error of each log that could not be read, until it can be.
        self._errors: dict[Caller, str] = {}

    async def wait_until(self, expected: Reachability) -> ProbeObservation:
        """Wait until the stranger's calls end as `expected` and the neighbor's connect.

        After `seconds` the last observation is returned as it is. Only calls count that follow
        the newest line of the first read: older ones belong to the state before.
        """
        started = self._clock.monotonic()
        baseline: dict[Caller, int] = {}
        flipped_after: float | None = None
        while True:
            calls_by_caller = {name: await self._calls(name, baseline) for name in PORTS}
            elapsed = self._clock.monotonic() - started
            reachability = {
                name: enforcement.reachability(calls) for name, calls in calls_by_caller.items()
            }
            if not enforcement.has_flipped(calls_by_caller["stranger"], expected):
                flipped_after = None
            elif flipped_after is None:
                flipped_after = elapsed
            is_reached = reachability == {"stranger": expected, "neighbour": "open"}
            if is_reached or elapsed >= self._seconds:
                seconds = flipped_after if is_reached and flipped_after is not None else elapsed
                errors = "; ".join(self._errors.values())
                return ProbeObservation(
                    reachability["stranger"], reachability["neighbour"], seconds, errors
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _calls(self, name: Caller, baseline: dict[Caller, int]) -> tuple[ProbeCall, ...]:
        """The calls after the one in `baseline`, which the first read of a wait sets."""
        path = api.object_path(PODS, name, self._namespaces[name], "log")
        try:
            text = await self._api.text(f"{path}?{_TAIL}")
        except Forbidden as error:
            raise missing_right("read the logs of its pods (get pods/log)", error) from error
        except ApiError as error:
            self._errors[name] = f"cannot read the log of pod {name}: {error.message}"
            return ()
        self._errors.pop(name, None)
        calls = enforcement.parse_calls(text)
        first = baseline.setdefault(name, calls[-1].number if calls else 0)
        return tuple(call for call in calls if call.number > first)


def _caller_namespaces(namespaces: ProbeNamespaces) -> dict[Caller, str]:
    return {"stranger": namespaces.stranger, "neighbour": namespaces.server}
