"""Writes the objects owned by an IgnitionSync: ConfigMaps, Role and RoleBinding.

Every write goes through `ensure`, which applies only what differs from the desired object
and remembers the response until the cache has it. Objects of pods that are gone are deleted
by uid, so one that was created again in between stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from windlass.base import failpoint
from windlass.gateways.controller.gateway_cache import (
    CONFIG_MAPS,
    ROLE_BINDINGS,
    ROLES,
    GatewayCache,
)
from windlass.gateways.status.pod_discovery import Discovery
from windlass.gateways.wire import agent_objects
from windlass.gateways.wire.agent_objects import FIELD_MANAGER, ObjectOwner
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, NotFound
from windlass.objects.names import GVR, Key, Object
from windlass.runtime.owned import OwnedObjects

_MAX_CONCURRENT_WRITES = 8


class OwnedWriter:
    """The writes of all passes."""

    def __init__(self, api: Api, cache: GatewayCache) -> None:
        self._api = api
        self._cache = cache
        self._owned = OwnedObjects(api, FIELD_MANAGER)

    async def ensure_status_objects(self, owner: ObjectOwner, discovery: Discovery) -> None:
        """An object to report through for every agent."""
        wanted = [
            agent_objects.config_map(owner, agent_objects.status_name(pod.uid))
            for pod in discovery.reporters
        ]
        missing = [one for one in wanted if not self._is_up_to_date(CONFIG_MAPS, one)]
        for start in range(0, len(missing), _MAX_CONCURRENT_WRITES):
            some = missing[start : start + _MAX_CONCURRENT_WRITES]
            work = (self.ensure(CONFIG_MAPS, one) for one in some)
            for done in await asyncio.gather(*work, return_exceptions=True):
                if isinstance(done, BaseException):
                    raise done

    async def delete_stale_status_objects(
        self, owner: ObjectOwner, discovery: Discovery, kept: Mapping[str, Object]
    ) -> None:
        """Delete the status objects of pods that are gone (GDS-6)."""
        wanted = {agent_objects.status_name(pod.uid) for pod in discovery.reporters}
        wanted |= {agent_objects.summary_name(owner.name), agent_objects.metadata_name(owner.name)}
        for name, obj in kept.items():
            if name not in wanted and agent_objects.is_status_object(obj, owner):
                await self.delete(CONFIG_MAPS, obj)

    async def ensure_agent_role(self, owner: ObjectOwner, discovery: Discovery) -> None:
        """The rights of the agents; the Role first, for a binding to it means nothing before."""
        names = (agent_objects.status_name(pod.uid) for pod in discovery.reporters)
        await self.ensure(ROLES, agent_objects.agent_role(owner, names))
        await self.ensure(
            ROLE_BINDINGS, agent_objects.agent_role_binding(owner, discovery.service_accounts)
        )

    async def publish_config_map(
        self, owner: ObjectOwner, name: str, data: Mapping[str, str]
    ) -> None:
        """One of the ConfigMaps that only we write."""
        await self.ensure(CONFIG_MAPS, agent_objects.config_map(owner, name, data))

    async def ensure(self, gvr: GVR, wanted: Object) -> Object:
        """`wanted` on the server; nothing is written where it is so already."""
        live = self._current_object(gvr, wanted)
        if live is not None and self._owned.is_as_wanted(wanted, live):
            return live
        writing = self._owned.ensure(gvr, wanted, live)
        return await self._cache.record_write(gvr, _object_key(wanted), writing)

    async def delete(self, gvr: GVR, obj: Object) -> None:
        """Exactly this object, not another of its name."""
        place, uid = _object_key(obj), obj["metadata"]["uid"]
        failpoint.reach("gateways.delete.before")
        try:
            deleting = self._api.delete(gvr, place.name, place.namespace, uid=uid)
            await self._cache.record_delete(gvr, place, deleting)
        except (NotFound, Conflict):
            return
        failpoint.reach("gateways.delete.after")

    def current_objects(self, gvr: GVR, names: Iterable[str], namespace: str) -> dict[str, Object]:
        """Owned objects as they now are, our writes of this pass included."""
        found = ((name, self._cache.get_owned(gvr, namespace, name)) for name in names)
        return {name: obj for name, obj in found if obj is not None}

    def _current_object(self, gvr: GVR, wanted: Object) -> Object | None:
        meta = wanted["metadata"]
        return self._cache.get_owned(gvr, meta["namespace"], meta["name"])

    def _is_up_to_date(self, gvr: GVR, wanted: Object) -> bool:
        return self._owned.is_as_wanted(wanted, self._current_object(gvr, wanted))


def _object_key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])
