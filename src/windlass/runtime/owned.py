"""Writes objects that we own, and only when they are not as wanted.

One write path for every capability: server-side apply under the capability's manager, so
fields of others stay theirs. An object that is as wanted costs nothing, also right after a
restart, because the live object itself says what we own of it.
"""

from __future__ import annotations

from typing import Protocol

from windlass.base import failpoint
from windlass.objects import managed_fields
from windlass.objects.names import GVR, Object

_SECOND_LOOKS = 4096


class Applying(Protocol):
    """The part of `kube.api.Api` that owning needs."""

    async def apply(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object: ...


class Owned:
    """Objects applied as `manager`."""

    def __init__(self, api: Applying, manager: str) -> None:
        self._api = api
        self._manager = manager
        self._settled: dict[tuple[str, str], Object] = {}

    def is_as_wanted(self, wanted: Object, live: Object | None) -> bool:
        """Whether nothing of ours is missing in `live`."""
        if live is None:
            return False
        # What the server stores may differ in form from what was sent; then its own answer
        # to that very wish is the measure. And a version once compared need not be again.
        if self._settled.get(_version(live)) == wanted:
            return True
        if not managed_fields.is_up_to_date(wanted, live, self._manager):
            return False
        self._remember(live, wanted)
        return True

    async def ensure(self, gvr: GVR, wanted: Object, live: Object | None) -> Object:
        """`wanted` on the server; the object as it now is."""
        if live is not None and self.is_as_wanted(wanted, live):
            return live
        failpoint.reach("runtime.owned.before")
        written = await self._api.apply(gvr, wanted, field_manager=self._manager)
        failpoint.reach("runtime.owned.after")
        self._remember(written, wanted)
        return written

    def _remember(self, live: Object, wanted: Object) -> None:
        version = _version(live)
        if not all(version):
            return
        if version not in self._settled and len(self._settled) >= _SECOND_LOOKS:
            self._settled.pop(next(iter(self._settled)))
        self._settled[version] = wanted


def _version(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")
