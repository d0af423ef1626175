"""Writes the objects owned by an IgnitionSync: ConfigMaps, Role and RoleBinding.

Every write goes through `ensure`, which applies only what differs from the desired object
and remembers the response until the cache has it. Objects of pods that are gone are deleted
by uid, so one that was created again in between stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from windlass.base import failpoint
from windlass.gateways.controller.gateway_cache import GatewayCache
from windlass.gateways.status.pod_discovery import Discovery
from windlass.gateways.wire import agent_objects
from windlass.gateways.wire.agent_objects import FIELD_MANAGER, ObjectOwner
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, NotFound
from windlass.objects.names import GVR, Key, Object
from windlass.objects.resources import CONFIG_MAPS, ROLE_BINDINGS, ROLES
from windlass.runtime.owned import OwnedObjects

_MAX_CONCURRENT_WRITES = 8


class OwnedWriter:
    """Writes owned objects for all reconciles, through the cache that remembers each write."""

    def __init__(self, api: Api, cache: GatewayCache) -> None:
        self._api = api
        self._cache = cache
        self._owned = OwnedObjects(api, FIELD_MANAGER)

    async def ensure_status_objects(self, owner: ObjectOwner, discovery: Discovery) -> None:
        """Create a status ConfigMap for every agent that lacks one."""
        desired = [
            agent_objects.config_map(owner, agent_objects.status_name(pod.uid))
            for pod in discovery.reporters
        ]
        missing = [
            config_map for config_map in desired if not self._is_up_to_date(CONFIG_MAPS, config_map)
        ]
        for start in range(0, len(missing), _MAX_CONCURRENT_WRITES):
            batch = missing[start : start + _MAX_CONCURRENT_WRITES]
            writes = (self.ensure(CONFIG_MAPS, config_map) for config_map in batch)
            for result in await asyncio.gather(*writes, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result

    async def delete_stale_status_objects(
        self, owner: ObjectOwner, discovery: Discovery, live: Mapping[str, Object]
    ) -> None:
        """Delete the status objects of pods that are gone (GDS-6)."""
        needed = {agent_objects.status_name(pod.uid) for pod in discovery.reporters}
        needed |= {agent_objects.summary_name(owner.name), agent_objects.metadata_name(owner.name)}
        for name, obj in live.items():
            if name not in needed and agent_objects.is_status_object(obj, owner):
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
        """Apply a ConfigMap that only the controller writes: metadata or summary."""
        await self.ensure(CONFIG_MAPS, agent_objects.config_map(owner, name, data))

    async def ensure(self, gvr: GVR, desired: Object) -> Object:
        """Apply `desired` unless the live object matches it; return the live object."""
        live = self._current_object(gvr, desired)
        if live is not None and self._owned.is_up_to_date(desired, live):
            return live
        write = self._owned.ensure(gvr, desired, live)
        return await self._cache.record_write(gvr, _object_key(desired), write)

    async def delete(self, gvr: GVR, obj: Object) -> None:
        """Delete exactly this object, by uid, not another of its name."""
        key, uid = _object_key(obj), obj["metadata"]["uid"]
        failpoint.reach("gateways.delete.before")
        try:
            request = self._api.delete(gvr, key.name, key.namespace, uid=uid)
            await self._cache.record_delete(gvr, key, request)
        except (NotFound, Conflict):
            return
        failpoint.reach("gateways.delete.after")

    def current_objects(self, gvr: GVR, names: Iterable[str], namespace: str) -> dict[str, Object]:
        """Live owned objects by name, the writes of this reconcile included."""
        objects = ((name, self._cache.get_owned(gvr, namespace, name)) for name in names)
        return {name: obj for name, obj in objects if obj is not None}

    def _current_object(self, gvr: GVR, desired: Object) -> Object | None:
        meta = desired["metadata"]
        return self._cache.get_owned(gvr, meta["namespace"], meta["name"])

    def _is_up_to_date(self, gvr: GVR, desired: Object) -> bool:
        return self._owned.is_up_to_date(desired, self._current_object(gvr, desired))


def _object_key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])
