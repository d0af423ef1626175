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
        self._hands = hands
        self._clock = clock
        self._since: dict[Key, float] = {}

    async def say(self, seen: Snapshot) -> Outcome:
        """One pass over an object that is being deleted."""
        if not finalizer.has_finalizer(seen.object, FINALIZER):
            self._since.pop(seen.key, None)
            return Outcome.gone()
        since = self._since.setdefault(seen.key, self._clock.monotonic())
        try:
            await self._part(seen)
        except ApiError as error:
            passing = isinstance(error, Throttled | Unavailable)
            if passing and self._clock.monotonic() - since < TRANSIENT_RETRY_SECONDS:
                raise
            _log.warning("the end was not told", sync=str(seen.key), error=str(error))
        await finalizer.remove_finalizer(
            self._api, IGNITION_SYNCS, seen.object, FINALIZER, field_manager=FIELD_MANAGER
        )
        self._since.pop(seen.key, None)
        return Outcome.gone()

    async def _part(self, seen: Snapshot) -> None:
        if seen.told:
            name = agent_objects.metadata_name(seen.key.name)
            await self._hands.tell(seen.owner, name, metadata_builder.terminating_data(seen.told))
        if seen.binding is not None:
            await self._hands.delete(ROLE_BINDINGS, seen.binding)
