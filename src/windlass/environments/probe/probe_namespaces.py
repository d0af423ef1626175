"""Creates the two namespaces of a network probe, and deletes them whatever happens.

Rules
1. Names are chosen here, and known before the call that creates them: a call whose answer was
   lost is cleaned up after like any other. An interruption waits for that answer, because a
   namespace may come to be after its call was given up.
2. A namespace is deleted only if its labels and its name show that a probe created it: this run's
   own at its end, another run's once it is older than any probe may become. Deletion names its
   uid.
3. Cleaning up raises no error of ours, so that it hides no other one; what stays behind is
   reported by name, also where cleaning up is interrupted.
4. A killed run deletes nothing; its namespaces are named by the next runs and go by rule 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from windlass.base import failpoint, tasks
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, WindlassError
from windlass.environments.owned_cache import NAMESPACES, SERVICE_ACCOUNTS
from windlass.environments.probe import probe_objects
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Conflict, Forbidden, NotFound
from windlass.objects.names import Object

FIELD_MANAGER = "windlass-check"

_REMOVAL_SECONDS = 60.0
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class ProbeNamespaces:
    """The two namespaces; after the end `left` names those that could not be removed."""

    run: str
    leftovers: list[str] = field(default_factory=list)

    @property
    def server(self) -> str:
        return probe_objects.namespace_names(self.run)[0]

    @property
    def stranger(self) -> str:
        return probe_objects.namespace_names(self.run)[1]


class ProbeNamespaceManager:
    """Makes and removes the namespaces of one run; `tell` is what a person reads meanwhile."""

    def __init__(self, api: Api, clock: Clock, tell: Callable[[str], None]) -> None:
        self._api = api
        self._clock = clock
        self._report = tell

    @asynccontextmanager
    async def create(self, run: str) -> AsyncIterator[ProbeNamespaces]:
        """Both namespaces, for as long as the block runs."""
        held = ProbeNamespaces(run)
        begun: list[str] = []
        try:
            for name in (held.server, held.stranger):
                begun.append(name)
                own = await self._create_namespace(name, run, begun)
            await self._remove_old_runs(own)
            yield held
        finally:
            await self._remove_all(held, begun)

    async def _create_namespace(self, name: str, run: str, begun: list[str]) -> Object:
        failpoint.reach("environments.probe.namespace.before")
        try:
            wanted = probe_objects.namespace_object(name, run)
            creating = self._api.create(NAMESPACES, wanted, field_manager=FIELD_MANAGER)
            made = await tasks.finish(asyncio.ensure_future(creating))
        except ApiError as error:
            if 400 <= error.status < 500:
                begun.remove(name)
            if isinstance(error, Forbidden):
                raise missing_right("create namespaces", error) from error
            raise
        failpoint.reach("environments.probe.namespace.after")
        try:
            account = probe_objects.service_account(name)
            await self._api.create(SERVICE_ACCOUNTS, account, field_manager=FIELD_MANAGER)
        except Forbidden as error:
            raise missing_right("create serviceaccounts in namespaces of its own", error) from error
        return made

    async def _remove_old_runs(self, own: Object) -> None:
        """Remove what killed runs left behind; whether that works decides nothing."""
        try:
            found = await self._api.list(NAMESPACES, label_selector=probe_objects.SELECTOR)
            left, fresh = probe_objects.other_runs(found, own)
            for live in left:
                self._report(f"removing namespace {live['metadata']['name']} of a probe that died")
                await self._delete(live)
        except ApiError as error:
            self._report(f"namespaces of earlier probes may be left: {error.message}")
            return
        for live in fresh:
            name = live["metadata"]["name"]
            self._report(
                f"namespace {name} belongs to another probe and is left alone; "
                f"if that one was killed: kubectl delete namespace {name}"
            )

    async def _remove_all(self, held: ProbeNamespaces, begun: list[str]) -> None:
        """Remove what was begun; what stays is told, whatever happens meanwhile."""
        stays = dict.fromkeys(begun, "nobody waited until it was gone")
        if begun:
            self._report(f"removing {' and '.join(begun)}")
        try:
            await asyncio.gather(*(self._remove(name, held.run, stays) for name in begun))
        finally:
            held.leftovers.extend(stays)
            for name, why in stays.items():
                text = f"namespace {name} is left behind: {why}; kubectl delete namespace {name}"
                self._report(text)

    async def _remove(self, name: str, run: str, stays: dict[str, str]) -> None:
        """Delete one of our namespaces; `stays` forgets it once it is gone, or says why not."""
        deadline = self._clock.monotonic() + _REMOVAL_SECONDS
        while self._clock.monotonic() < deadline:
            try:
                if await self._is_gone(name, run):
                    del stays[name]
                    return
                stays[name] = "it is still being deleted"
            except WindlassError as error:
                stays[name] = error.message
                if isinstance(error, Forbidden):
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _is_gone(self, name: str, run: str) -> bool:
        """Whether one of our namespaces is not there; one that is there is told to go."""
        try:
            live = await self._api.get(NAMESPACES, name)
        except NotFound:
            return True
        if probe_objects.run_id(live) != run:
            return True
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
    """The error of a right that is missing, or of a policy of the cluster that says no."""
    return Stalled("Forbidden", f"the probe has to {what}, and may not: {error.message}")
