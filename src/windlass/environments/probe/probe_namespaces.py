"""Creates the two namespaces of a network probe, and deletes them whatever happens.

Rules
1. Names are chosen here, and known before the call that creates them: a call whose answer was
   lost is cleaned up after like any other. An interruption waits for that answer, because a
   namespace may still be created after its call was abandoned.
2. A namespace is deleted only if its labels and its name show that a probe created it: this run's
   own at its end, another run's once it is older than any probe may become. Deletion names its
   uid.
3. Cleaning up raises no error of ours, so that it hides no other one; namespaces that remain
   are reported by name, also where cleaning up is interrupted.
4. A killed run deletes nothing; the next runs report its namespaces and delete them by rule 2.

`network_probe` is the only caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from windlass.base import failpoint, tasks
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, WindlassError
from windlass.environments.probe import probe_objects
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Conflict, Forbidden, NotFound
from windlass.objects.names import Object
from windlass.objects.resources import NAMESPACES, SERVICE_ACCOUNTS

FIELD_MANAGER = "windlass-check"

_REMOVAL_SECONDS = 60.0
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class ProbeNamespaces:
    """The two namespaces of one run."""

    run: str  # random id
    leftovers: list[str] = field(default_factory=list)  # filled at the end: not removed

    @property
    def server(self) -> str:
        return probe_objects.namespace_names(self.run)[0]

    @property
    def stranger(self) -> str:
        return probe_objects.namespace_names(self.run)[1]


class ProbeNamespaceManager:
    """Creates and removes the namespaces of one run; `report` prints progress."""

    def __init__(self, api: Api, clock: Clock, report: Callable[[str], None]) -> None:
        self._api = api
        self._clock = clock
        self._report = report

    @asynccontextmanager
    async def create(self, run: str) -> AsyncIterator[ProbeNamespaces]:
        """Both namespaces, for as long as the block runs."""
        namespaces = ProbeNamespaces(run)
        to_remove: list[str] = []
        try:
            for name in (namespaces.server, namespaces.stranger):
                # Before the call: its answer may be lost (rule 1).
                to_remove.append(name)
                own = await self._create_namespace(name, run, to_remove)
            await self._remove_old_runs(own)
            yield namespaces
        finally:
            await self._remove_all(namespaces, to_remove)

    async def _create_namespace(self, name: str, run: str, to_remove: list[str]) -> Object:
        failpoint.reach("environments.probe.namespace.before")
        try:
            desired = probe_objects.namespace_object(name, run)
            request = self._api.create(NAMESPACES, desired, field_manager=FIELD_MANAGER)
            created = await tasks.finish(asyncio.ensure_future(request))
        except ApiError as error:
            # The server refused the call, so there is nothing to remove.
            if 400 <= error.status < 500:
                to_remove.remove(name)
            if isinstance(error, Forbidden):
                raise missing_right("create namespaces", error) from error
            raise
        failpoint.reach("environments.probe.namespace.after")
        try:
            account = probe_objects.service_account(name)
            await self._api.create(SERVICE_ACCOUNTS, account, field_manager=FIELD_MANAGER)
        except Forbidden as error:
            raise missing_right("create serviceaccounts in its namespaces", error) from error
        return created

    async def _remove_old_runs(self, own: Object) -> None:
        """Delete namespaces of killed runs; a failure is reported and ends nothing."""
        try:
            namespaces = await self._api.list(NAMESPACES, label_selector=probe_objects.SELECTOR)
            leftovers, active = probe_objects.other_runs(namespaces, own)
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

    async def _remove_all(self, namespaces: ProbeNamespaces, to_remove: list[str]) -> None:
        """Delete the namespaces, and report those that remain, also when interrupted."""
        remaining = dict.fromkeys(to_remove, "the deletion was interrupted")
        if to_remove:
            self._report(f"deleting {' and '.join(to_remove)}")
        try:
            await asyncio.gather(
                *(self._remove(name, namespaces.run, remaining) for name in to_remove)
            )
        finally:
            namespaces.leftovers.extend(remaining)
            for name, why in remaining.items():
                text = f"namespace {name} still exists: {why}; kubectl delete namespace {name}"
                self._report(text)

    async def _remove(self, name: str, run: str, remaining: dict[str, str]) -> None:
        """Delete one namespace; it leaves `remaining` once it is gone, else gets a reason there."""
        deadline = self._clock.monotonic() + _REMOVAL_SECONDS
        while self._clock.monotonic() < deadline:
            try:
                if await self._is_gone(name, run):
                    del remaining[name]
                    return
                remaining[name] = "it is still terminating"
            except WindlassError as error:
                remaining[name] = error.message
                if isinstance(error, Forbidden):
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _is_gone(self, name: str, run: str) -> bool:
        """Whether a namespace of this run is gone; one that exists is deleted."""
        try:
            live = await self._api.get(NAMESPACES, name)
        except NotFound:
            return True
        if probe_objects.run_id(live) != run:
            return True  # another one of the same name (rule 2)
        if not live["metadata"].get("deletionTimestamp"):
            await self._delete(live)
        return False

    async def _delete(self, live: Object) -> None:
        failpoint.reach("environments.probe.delete.before")
        metadata = live["metadata"]
        try:
            await self._api.delete(NAMESPACES, metadata["name"], uid=metadata["uid"])
        except (NotFound, Conflict):
            return
        failpoint.reach("environments.probe.delete.after")


def missing_right(what: str, error: Forbidden) -> Stalled:
    """The error for a missing right, or for an admission policy that denies a call."""
    return Stalled(
        "Forbidden", f"missing permission: the probe must be allowed to {what}: {error.message}"
    )
