"""Deletes an IgnitionSync: agents are notified, their rights and the finalizer removed (DEL-1).

Nothing here waits for an agent, for Git or for a Secret, and nothing but the removal of
the finalizer can block the deletion: what fails for good is left to the garbage collector,
which deletes all owned objects anyway. Gateways keep their files.
"""

from __future__ import annotations

from typing import Any

import structlog

from windlass.api.kinds.ignitionsync import FINALIZER
from windlass.api.kinds.registry import IGNITION_SYNCS
from windlass.base.clock import Clock
from windlass.gateways.controller.gateway_cache import ROLE_BINDINGS
from windlass.gateways.controller.owned_writer import OwnedWriter
from windlass.gateways.controller.snapshot import Snapshot
from windlass.gateways.wire import agent_objects, metadata_builder
from windlass.gateways.wire.agent_objects import FIELD_MANAGER
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Throttled, Unavailable
from windlass.objects.names import Key
from windlass.runtime import finalizer
from windlass.runtime.outcome import Outcome

TRANSIENT_RETRY_SECONDS = 20.0

_log: Any = structlog.get_logger(__name__)


class IgnitionSyncDeletion:
    """The ends of all IgnitionSyncs."""

    def __init__(self, api: Api, hands: OwnedWriter, clock: Clock) -> None:
        self._api = api
        self._writer = hands
        self._clock = clock
        self._started_at: dict[Key, float] = {}

    async def reconcile(self, seen: Snapshot) -> Outcome:
        """One pass over an object that is being deleted."""
        if not finalizer.has_finalizer(seen.object, FINALIZER):
            self._started_at.pop(seen.key, None)
            return Outcome.gone()
        since = self._started_at.setdefault(seen.key, self._clock.monotonic())
        try:
            await self._notify_and_revoke(seen)
        except ApiError as error:
            passing = isinstance(error, Throttled | Unavailable)
            if passing and self._clock.monotonic() - since < TRANSIENT_RETRY_SECONDS:
                raise
            _log.warning("the end was not told", sync=str(seen.key), error=str(error))
        await finalizer.remove_finalizer(
            self._api, IGNITION_SYNCS, seen.object, FINALIZER, field_manager=FIELD_MANAGER
        )
        self._started_at.pop(seen.key, None)
        return Outcome.gone()

    async def _notify_and_revoke(self, seen: Snapshot) -> None:
        if seen.published_data:
            name = agent_objects.metadata_name(seen.key.name)
            await self._writer.publish_config_map(
                seen.owner, name, metadata_builder.terminating_data(seen.published_data)
            )
        if seen.binding is not None:
            await self._writer.delete(ROLE_BINDINGS, seen.binding)
