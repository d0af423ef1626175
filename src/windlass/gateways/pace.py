"""The rate limit of status writes per IgnitionSync.

Many agents report at the same time. A reconcile that would write too soon after the last ones
is postponed, so what came meanwhile takes one write, and nothing is decided twice. Two writes
may follow each other at once: the new commit, and that its gateway has it.
"""

from __future__ import annotations

from windlass.base.clock import Clock, RateLimit
from windlass.kube.api import Api
from windlass.objects.names import GVR, Key, Object

_BURST = 2


class Pace:
    """Stands between a reporter and the API server, and notes when it wrote."""

    def __init__(self, api: Api, clock: Clock, *, interval_seconds: float) -> None:
        self._api = api
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._limits: dict[Key, RateLimit] = {}

    def rest_seconds(self, key: Key) -> float:
        """How long the status must be left alone yet."""
        limit = self._limits.get(key)
        return limit.wait_seconds(self._clock.monotonic()) if limit is not None else 0.0

    def forget(self, key: Key) -> None:
        self._limits.pop(key, None)

    async def get(self, gvr: GVR, name: str, namespace: str = "") -> Object:
        return await self._api.get(gvr, name, namespace)

    async def merge_patch(
        self,
        gvr: GVR,
        name: str,
        patch: Object,
        namespace: str = "",
        *,
        field_manager: str,
        subresource: str = "",
    ) -> Object:
        written = await self._api.merge_patch(
            gvr, name, patch, namespace, field_manager=field_manager, subresource=subresource
        )
        key = Key(namespace, name)
        limit = self._limits.setdefault(key, RateLimit(self._interval_seconds, _BURST))
        limit.count(self._clock.monotonic())
        return written
