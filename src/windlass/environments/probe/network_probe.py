"""Measures whether the network of a cluster enforces the NetworkPolicies of an Environment.

A server, a neighbor in its namespace, a stranger in another one. Both callers call all the
time; the policies are created and deleted, and the verdict comes from the callers' logs.

A log has a numbered line per call. Whether a pod is Ready would be cheaper to
read, but a pod also stops being so when its node is lost or its program is missing, and that
would pass for enforcement. A line proves that a call was made, and how it ended; where
the lines stop coming, nothing is concluded.

Callers start after the server, because they are given its pod address: Services are left out
on purpose, since whether policies apply to their address or the pod's is each plugin's own choice.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass.base.clock import Clock
from windlass.base.errors import Stalled
from windlass.environments.owned_cache import NETWORK_POLICIES
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
from windlass.objects.names import GVR, Object

_PODS = GVR("", "v1", "pods")
_POLL_SECONDS = 0.3
_TAIL = "tailLines=20"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found, on which nodes, and which namespaces it could not remove."""

    results: tuple[DirectionResult, ...]
    nodes: Mapping[str, str]
    leftover_namespaces: tuple[str, ...]


class NetworkProbe:
    """One measurement; `seconds` is how long it waits for pods, and for each change."""

    def __init__(
        self, api: Api, clock: Clock, *, image: str, seconds: float, tell: Callable[[str], None]
    ) -> None:
        self._api = api
        self._clock = clock
        self._image = image
        self._seconds = seconds
        self._report = tell

    async def run(self) -> ProbeResult:
        """Measure both directions; afterwards the namespaces are gone."""
        keeper = ProbeNamespaceManager(self._api, self._clock, self._report)
        async with keeper.create(secrets.token_hex(4)) as places:
            nodes = await self._start_pods(places)
            self._report("the pods run; waiting until the server is reached without a fence")
            around: dict[Direction, str] = {"ingress": places.server, "egress": places.stranger}
            listening = _CallLogs(self._api, self._clock, places, self._seconds)
            findings = [
                await self._measure(listening, direction, place)
                for direction, place in around.items()
            ]
        return ProbeResult(tuple(findings), nodes, tuple(places.leftovers))

    async def _start_pods(self, places: ProbeNamespaces) -> dict[str, str]:
        """Run all three pods; the node of each."""
        word = secrets.token_hex(8)
        self._report(f"starting pods in namespaces {places.server} and {places.stranger}")
        server = probe_objects.server_pod(places.server, self._image, word)
        found = {probe_objects.SERVER: (await self._run([server]))[0]}
        callers = [
            probe_objects.caller_pod(
                name, place, self._image, word, found[probe_objects.SERVER].address
            )
            for name, place in _caller_namespaces(places).items()
        ]
        found |= zip(_caller_namespaces(places), await self._run(callers), strict=True)
        return {name: standing.node for name, standing in found.items()}

    async def _run(self, pods: list[Object]) -> list[RunningPod]:
        for pod in pods:
            try:
                await self._api.create(_PODS, pod, field_manager=FIELD_MANAGER)
            except Forbidden as error:
                raise missing_right("create pods in namespaces of its own", error) from error
        deadline = self._clock.monotonic() + self._seconds
        return [await self._running(pod["metadata"], deadline) for pod in pods]

    async def _running(self, metadata: Object, deadline: float) -> RunningPod:
        name = metadata["name"]
        while True:
            pod = await self._api.get(_PODS, name, metadata["namespace"])
            found = probe_objects.running_pod(pod)
            if found is not None:
                return found
            trouble = probe_objects.pod_problem(pod)
            if trouble is not None and not trouble.may_heal:
                raise Stalled(trouble.reason, clean(trouble.message))
            if self._clock.monotonic() >= deadline:
                text = clean(trouble.message) if trouble else f"pod {name}: no node has taken it up"
                reason = trouble.reason if trouble else "PodNotRunning"
                raise Stalled(reason, f"no pod ran within {self._seconds:g} s: {text}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _measure(
        self, listening: _CallLogs, direction: Direction, place: str
    ) -> DirectionResult:
        """Open, fenced, open again; what cannot be judged any more is not waited for."""
        before = await listening.wait_until("open")
        if not before.is_open:
            return enforcement.judge(direction, before)
        fence = probe_objects.isolation_policies(place)
        await self._create_policies(fence)
        self._report(f"{direction}: the fence is up; waiting until it is in force")
        fenced = await listening.wait_until("shut")
        await self._delete_policies(fence)
        after = await listening.wait_until("open") if fenced.is_isolated else None
        return enforcement.judge(direction, before, fenced, after)

    async def _create_policies(self, fence: list[Object]) -> None:
        try:
            for policy in fence:
                await self._api.create(NETWORK_POLICIES, policy, field_manager=FIELD_MANAGER)
        except Forbidden as error:
            raise missing_right("create networkpolicies in namespaces of its own", error) from error

    async def _delete_policies(self, fence: list[Object]) -> None:
        try:
            for policy in fence:
                metadata = policy["metadata"]
                with contextlib.suppress(NotFound):
                    await self._api.delete(
                        NETWORK_POLICIES, metadata["name"], metadata["namespace"]
                    )
        except Forbidden as error:
            raise missing_right("delete networkpolicies in namespaces of its own", error) from error


class _CallLogs:
    """What the callers tell, and how long until they tell what is waited for."""

    def __init__(self, api: Api, clock: Clock, places: ProbeNamespaces, seconds: float) -> None:
        self._api = api
        self._clock = clock
        self._namespaces = _caller_namespaces(places)
        self._seconds = seconds
        self._errors: dict[Caller, str] = {}

    async def wait_until(self, wanted: Reachability) -> ProbeObservation:
        """Wait until the stranger fares so and the neighbour gets through, or give up.

        Only calls count that were made after their caller was first heard in this wait.
        """
        begun = self._clock.monotonic()
        heard: dict[Caller, int] = {}
        turned: float | None = None
        while True:
            made = {name: await self._calls(name, heard) for name in PORTS}
            elapsed = self._clock.monotonic() - begun
            ways = {name: enforcement.reachability(calls) for name, calls in made.items()}
            if not enforcement.has_flipped(made["stranger"], wanted):
                turned = None
            elif turned is None:
                turned = elapsed
            is_so = ways == {"stranger": wanted, "neighbour": "open"}
            if is_so or elapsed >= self._seconds:
                seconds = turned if is_so and turned is not None else elapsed
                troubles = "; ".join(self._errors.values())
                return ProbeObservation(ways["stranger"], ways["neighbour"], seconds, troubles)
            await asyncio.sleep(_POLL_SECONDS)

    async def _calls(self, name: Caller, heard: dict[Caller, int]) -> tuple[ProbeCall, ...]:
        """The calls after the one that is noted in `heard`; the first look notes it."""
        path = api.object_path(_PODS, name, self._namespaces[name], "log")
        try:
            text = await self._api.text(f"{path}?{_TAIL}")
        except Forbidden as error:
            raise missing_right("read the logs of its pods (get pods/log)", error) from error
        except ApiError as error:
            self._errors[name] = f"the log of {name} could not be read: {error.message}"
            return ()
        self._errors.pop(name, None)
        made = enforcement.parse_calls(text)
        mark = heard.setdefault(name, made[-1].number if made else 0)
        return tuple(call for call in made if call.number > mark)


def _caller_namespaces(places: ProbeNamespaces) -> dict[Caller, str]:
    return {"stranger": places.stranger, "neighbour": places.server}
