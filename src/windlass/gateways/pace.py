"""How often the status of an IgnitionSync may be written.

Many agents report at the same time. A pass that would come too soon after the last write
is put off, so what came meanwhile is told in one write, and nothing is decided twice.
"""

from __future__ import annotations

from windlass.base.clock import Clock
from windlass.kube.api import Api
from windlass.objects.gvr import GVR
from windlass.objects.json import Object
from windlass.objects.key import Key


class Pace:
    """Stands between a reporter and the API server, and notes when it wrote."""

    def __init__(self, api: Api, clock: Clock, *, interval_seconds: float) -> None:
        self._api = api
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._written: dict[Key, float] = {}

    def rest_seconds(self, key: Key) -> float:
        """How long the status must be left alone yet."""
        written = self._written.get(key)
        if written is None:
            return 0.0
        return max(0.0, written + self._interval_seconds - self._clock.monotonic())

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)

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
        self._written[Key(namespace, name)] = self._clock.monotonic()
        return written
