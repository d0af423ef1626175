"""Measures whether the network of a cluster enforces the NetworkPolicies of an Environment.

`windlass check --network-probe` runs it. There is a server, a neighbor in its namespace, and a
stranger in another one. Both callers call without a pause; the policies are created and deleted,
and the verdict (`enforcement`) comes from the callers' logs.

A log has a numbered line per call. Whether a pod is Ready would be cheaper to read, but a pod
also stops being Ready when its node is lost or its program is missing, and that would pass for
enforcement. A line proves that a call was made, and how it ended; where no more lines come,
nothing is concluded.

Rules for the two namespaces
1. They carry the label of probes and the id of their run, which is also part of their names, from
   their first write on. What a run created is found by that, also where the answer to a call was
   lost. An interruption waits for the answer: a namespace may still be created after its call was
   abandoned.
2. A run deletes its own at its end, and those of others once they are older than any probe may
   become by the API server's clock: the others were killed. Deletion names the uid.
3. Cleaning up raises no error of ours, so that it hides no other one; what remains is reported by
   name, also where cleaning up is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from windlass.base import failpoint, tasks
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, WindlassError
from windlass.environments.probe import enforcement
from windlass.environments.probe.enforcement import (
    Caller,
    Direction,
    DirectionResult,
    ProbeCall,
    ProbeObservation,
    Reachability,
)
from windlass.kube import api as kube_api
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Conflict, Forbidden, NotFound, clean
from windlass.objects.names import GVR, Object
from windlass.objects.resources import NAMESPACES, NETWORK_POLICIES, PODS, SERVICE_ACCOUNTS

T = TypeVar("T")
_FIELD_MANAGER = "windlass-check"
_REMOVAL_SECONDS = 60.0
_POLL_SECONDS = 0.3
_STEADY_SECONDS = 10.0
"""How much longer a reachability is observed that is unsteady at the end of a wait."""


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
        namespaces = ProbeNamespaces(self._api, self._clock, self._report, secrets.token_hex(4))
        async with namespaces.create():
            callers: dict[Caller, str] = {
                "stranger": namespaces.stranger,
                "neighbour": namespaces.server,
            }
            nodes = await self._start_pods(namespaces.server, callers)
            self._report("pods are running; waiting for connections without policies")
            logs = CallLogs(self._api, self._clock, callers, self._seconds)
            # The policies go around the server for ingress, around the caller for egress.
            ingress = await self._measure(logs, "ingress", namespaces.server)
            egress = await self._measure(logs, "egress", namespaces.stranger)
        return ProbeResult((ingress, egress), nodes, namespaces.leftovers)

    async def _start_pods(self, namespace: str, callers: Mapping[Caller, str]) -> dict[str, str]:
        """Start the server in `namespace`, then its callers; returns the node of each."""
        token = secrets.token_hex(8)
        self._report(f"starting pods in namespaces {' and '.join(sorted(set(callers.values())))}")
        # Callers are given the pod's own address. Whether policies apply to the address of a
        # Service or to that of its pods differs between network plugins.
        (server,) = await self._run([enforcement.server_pod(namespace, self._image, token)])
        address = server["status"]["podIP"]
        calling = await self._run(
            [
                enforcement.caller_pod(name, where, self._image, token, address)
                for name, where in callers.items()
            ]
        )
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName") or "" for pod in (server, *calling)
        }

    async def _run(self, pods: list[Object]) -> list[Object]:
        """Create pods; returns them once all are running."""
        for pod in pods:
            await _create(self._api, PODS, pod)
        deadline = self._clock.monotonic() + self._seconds
        return [await self._wait_for(pod["metadata"], deadline) for pod in pods]

    async def _wait_for(self, metadata: Object, deadline: float) -> Object:
        while True:
            pod = await self._api.get(PODS, metadata["name"], metadata["namespace"])
            if enforcement.is_running(pod):
                return pod
            problem = enforcement.pod_problem(pod)
            if problem is not None and not problem.may_heal:
                raise Stalled(problem.reason, clean(problem.message))
            if self._clock.monotonic() >= deadline:
                reason = problem.reason if problem else "PodNotRunning"
                text = clean(problem.message) if problem else "not started yet"
                waited = f"pod {metadata['name']} is not running after {self._seconds:g} s"
                raise Stalled(reason, f"{waited}: {text}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _measure(
        self, logs: CallLogs, direction: Direction, namespace: str
    ) -> DirectionResult:
        """Observe without, with and again without policies; stop where no verdict is possible."""
        before = await logs.wait_until("open")
        if not before.is_open:
            return enforcement.judge(direction, before)
        policies = enforcement.isolation_policies(namespace)
        for policy in policies:
            await _create(self._api, NETWORK_POLICIES, policy)
        self._report(f"{direction}: policies created; waiting until they are in force")
        isolated = await logs.wait_until("shut")
        for policy in policies:
            request = self._api.delete(NETWORK_POLICIES, policy["metadata"]["name"], namespace)
            with contextlib.suppress(NotFound):
                await _permitted("delete networkpolicies in its namespaces", request)
        after = await logs.wait_until("open") if isolated.is_isolated else None
        return enforcement.judge(direction, before, isolated, after)


class CallLogs:
    """Reads the callers' logs, and waits until they show an expected reachability."""

    def __init__(
        self, api: Api, clock: Clock, callers: Mapping[Caller, str], seconds: float
    ) -> None:
        self._api = api
        self._clock = clock
        self._callers = callers  # with the namespace of each
        self._seconds = seconds
        # The last error of each log that could not be read, until it can be.
        self._errors: dict[Caller, str] = {}

    async def wait_until(self, expected: Reachability) -> ProbeObservation:
        """Wait until the stranger's calls end as `expected` and the neighbor's connect.

        After `seconds` the last observation is returned as it is, and an unsteady one as soon as
        the calls end alike again: one lost call at that moment says nothing. Only calls count
        that follow the newest line of the first read: older ones belong to the state before.
        """
        started, baseline = self._clock.monotonic(), dict[Caller, int]()
        flipped_after: float | None = None
        while True:
            stranger = await self._calls("stranger", baseline)
            neighbor = enforcement.reachability(await self._calls("neighbour", baseline))
            elapsed = self._clock.monotonic() - started
            if not enforcement.has_flipped(stranger, expected):
                flipped_after = None
            elif flipped_after is None:
                flipped_after = elapsed
            reached = enforcement.reachability(stranger)
            is_reached = (reached, neighbor) == (expected, "open")
            is_unsteady = "unsteady" in (reached, neighbor)
            patience = self._seconds + (_STEADY_SECONDS if is_unsteady else 0.0)
            if is_reached or elapsed >= patience:
                seconds = flipped_after if is_reached and flipped_after is not None else elapsed
                return ProbeObservation(
                    reached, neighbor, seconds, "; ".join(self._errors.values())
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _calls(self, name: Caller, baseline: dict[Caller, int]) -> tuple[ProbeCall, ...]:
        """The calls after the one in `baseline`, which the first read of a wait sets."""
        path = kube_api.object_path(PODS, name, self._callers[name], "log")
        request = self._api.text(f"{path}?tailLines=20")
        try:
            text = await _permitted("read the logs of its pods (get pods/log)", request)
        except ApiError as error:
            self._errors[name] = f"cannot read the log of pod {name}: {error.message}"
            return ()
        self._errors.pop(name, None)
        calls = enforcement.parse_calls(text)
        first = baseline.setdefault(name, calls[-1].number if calls else 0)
        return tuple(call for call in calls if call.number > first)


class ProbeNamespaces:
    """The namespaces of one run: `server`, which is also the neighbor's, and `stranger`."""

    def __init__(self, api: Api, clock: Clock, report: Callable[[str], None], run: str) -> None:
        self._api = api
        self._clock = clock
        self._report = report
        self._run = run
        self.server, self.stranger = enforcement.namespace_names(run)
        # Those that could not be removed; known at the end.
        self.leftovers: tuple[str, ...] = ()

    @asynccontextmanager
    async def create(self) -> AsyncIterator[None]:
        """Both namespaces exist for as long as the block runs."""
        requested: list[str] = []
        try:
            for name in (self.server, self.stranger):
                # Before the call: its answer may be lost (rule 1).
                requested.append(name)
                own = await self._create(name, requested)
            await self._remove_old_runs(own)
            yield
        finally:
            await self._remove_own(requested)

    async def _create(self, name: str, requested: list[str]) -> Object:
        failpoint.reach("environments.probe.namespace.before")
        desired = enforcement.namespace_object(name, self._run)
        request = self._api.create(NAMESPACES, desired, field_manager=_FIELD_MANAGER)
        try:
            created = await tasks.finish(asyncio.ensure_future(request))
        except ApiError as error:
            # The server refused the call, so there is nothing to remove.
            if 400 <= error.status < 500:
                requested.remove(name)
            if isinstance(error, Forbidden):
                raise _missing_permission("create namespaces", error) from error
            raise
        failpoint.reach("environments.probe.namespace.after")
        await _create(self._api, SERVICE_ACCOUNTS, enforcement.service_account(name))
        return created

    async def _remove_old_runs(self, own: Object) -> None:
        """Delete namespaces of killed runs; a failure is reported and ends nothing."""
        try:
            leftovers, active = enforcement.other_runs(await self._list(), own)
            for live in leftovers:
                self._report(f"deleting namespace {live['metadata']['name']} of an aborted probe")
                await self._delete(live)
        except ApiError as error:
            self._report(f"cannot delete namespaces of aborted probes: {error.message}")
            return
        for live in active:
            name = live["metadata"]["name"]
            self._report(
                f"namespace {name} belongs to another running probe; "
                f"if that was killed: kubectl delete namespace {name}"
            )

    async def _remove_own(self, remaining: list[str]) -> None:
        """Delete the namespaces of this run; what remains is reported, also when interrupted."""
        why, deadline = "the deletion was interrupted", self._clock.monotonic() + _REMOVAL_SECONDS
        if remaining:
            self._report(f"deleting {' and '.join(remaining)}")
        try:
            while remaining and self._clock.monotonic() < deadline:
                try:
                    own = [
                        live for live in await self._list() if enforcement.run_id(live) == self._run
                    ]
                    remaining, why = (
                        [live["metadata"]["name"] for live in own],
                        "it is still terminating",
                    )
                    for live in own:
                        await self._delete(live)
                except WindlassError as error:
                    why = error.message
                    if isinstance(error, Forbidden):
                        break
                if remaining:
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            self.leftovers = tuple(remaining)
            for name in remaining:
                text = f"namespace {name} still exists: {why}; kubectl delete namespace {name}"
                self._report(text)

    async def _list(self) -> list[Object]:
        """The namespaces of all probes."""
        return await self._api.list(NAMESPACES, label_selector=enforcement.SELECTOR)

    async def _delete(self, live: Object) -> None:
        metadata = live["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        failpoint.reach("environments.probe.delete.before")
        with contextlib.suppress(NotFound, Conflict):
            await self._api.delete(NAMESPACES, metadata["name"], uid=metadata["uid"])
            failpoint.reach("environments.probe.delete.after")


async def _create(api: Api, gvr: GVR, obj: Object) -> None:
    request = api.create(gvr, obj, field_manager=_FIELD_MANAGER)
    await _permitted(f"create {gvr.resource} in its namespaces", request)


async def _permitted(what: str, request: Awaitable[T]) -> T:
    """The answer to `request`; raises Stalled where a role or an admission policy denies it."""
    try:
        return await request
    except Forbidden as error:
        raise _missing_permission(what, error) from error


def _missing_permission(what: str, error: Forbidden) -> Stalled:
    return Stalled(
        "Forbidden", f"missing permission: the probe must be allowed to {what}: {error.message}"
    )
