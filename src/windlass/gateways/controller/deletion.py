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
from windlass.gateways.controller.owned_writer import OwnedWriter
from windlass.gateways.controller.snapshot import Snapshot
from windlass.gateways.wire import agent_objects, metadata_builder
from windlass.gateways.wire.agent_objects import FIELD_MANAGER
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Throttled, Unavailable
from windlass.objects.names import Key
from windlass.objects.resources import ROLE_BINDINGS
from windlass.runtime import finalizer
from windlass.runtime.outcome import Outcome

TRANSIENT_RETRY_SECONDS = 20.0

_log: Any = structlog.get_logger(__name__)


class IgnitionSyncDeletion:
    """Reconciles IgnitionSyncs that have a deletionTimestamp."""

    def __init__(self, api: Api, writer: OwnedWriter, clock: Clock) -> None:
        self._api = api
        self._writer = writer
        self._clock = clock
        # Monotonic time of the first attempt per IgnitionSync; dropped with the finalizer,
        # and by `forget` where somebody else removed that.
        self._started_at: dict[Key, float] = {}

    async def reconcile(self, snapshot: Snapshot) -> Outcome:
        """Notify agents, revoke their rights, remove the finalizer."""
        if not finalizer.has_finalizer(snapshot.object, FINALIZER):
            self._started_at.pop(snapshot.key, None)
            return Outcome.gone()
        started_at = self._started_at.setdefault(snapshot.key, self._clock.monotonic())
        try:
            await self._notify_and_revoke(snapshot)
        except ApiError as error:
            is_transient = isinstance(error, Throttled | Unavailable)
            if is_transient and self._clock.monotonic() - started_at < TRANSIENT_RETRY_SECONDS:
                raise
            # The garbage collector does the rest; the finalizer must not block for good.
            _log.warning(
                "could not publish terminating state; continuing with deletion",
                sync=str(snapshot.key),
                error=str(error),
            )
        await finalizer.remove_finalizer(
            self._api, IGNITION_SYNCS, snapshot.object, FINALIZER, field_manager=FIELD_MANAGER
        )
        self._started_at.pop(snapshot.key, None)
        return Outcome.gone()

    def forget(self, key: Key) -> None:
        """Drop what is known of an IgnitionSync that is gone; the next of its name starts anew."""
        self._started_at.pop(key, None)

    async def _notify_and_revoke(self, snapshot: Snapshot) -> None:
        if snapshot.published_data:
            name = agent_objects.metadata_name(snapshot.key.name)
            await self._writer.publish_config_map(
                snapshot.owner, name, metadata_builder.terminating_data(snapshot.published_data)
            )
        if snapshot.binding is not None:
            await self._writer.delete(ROLE_BINDINGS, snapshot.binding)
