"""Watches the ConfigMap in which the controller publishes metadata for agents (SIG-1).

A watch, no polling. A missing ConfigMap is reported to the listener as None, one that cannot be
decoded is logged; while the API server is unreachable, the last metadata stays in force.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
import structlog

from windlass.gateways.wire import agent_objects
from windlass.kube.connection import Connection
from windlass.kube.reflector import (
    Interrupted,
    Observed,
    Scope,
    SnapshotComplete,
    SnapshotStarted,
    reflect,
)
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.resources import CONFIG_MAPS

_REFLECTOR_SETTINGS = ReflectorSettings(forbidden_initial=0.5, forbidden_ceiling=30.0)
"""A new pod's agent is forbidden to watch until the controller has granted it access."""

_log: Any = structlog.get_logger(__name__)


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(_ConfigMap)

MetadataListener = Callable[[dict[str, str] | None], None]
"""Called with the keys of the ConfigMap; with None when it does not exist."""


class MetadataWatch:
    """A watch on the metadata of one agent."""

    def __init__(
        self, connection: Connection, namespace: str, cr_name: str, on_metadata: MetadataListener
    ) -> None:
        self._connection = connection
        self._scope = Scope(CONFIG_MAPS, namespace, name=agent_objects.metadata_name(cr_name))
        self._on_metadata = on_metadata
        # The ConfigMap was observed since the last snapshot began.
        self._exists = False
        # The watch failed and this was logged; reset by the next event.
        self._is_disconnected = False

    async def run(self) -> None:
        """Call the listener for every change until cancelled."""
        async with aclosing(reflect(self._connection, self._scope, _REFLECTOR_SETTINGS)) as items:
            async for item in items:
                if isinstance(item, SnapshotStarted):
                    self._exists = False
                elif isinstance(item, Observed):
                    self._observed(item)
                elif isinstance(item, SnapshotComplete) and not self._exists:
                    self._on_metadata(None)
                elif isinstance(item, Interrupted):
                    self._interrupted(item)

    def _observed(self, item: Observed) -> None:
        self._is_disconnected = False
        if item.type == "DELETED":
            self._exists = False
            self._on_metadata(None)
            return
        self._exists = True
        try:
            self._on_metadata(_decoder.decode(item.object).data or {})
        except (msgspec.DecodeError, UnicodeDecodeError):
            _log.warning("invalid metadata ConfigMap", configmap=str(self._scope))

    def _interrupted(self, item: Interrupted) -> None:
        # These end every watch now and then; others are logged once per outage.
        if item.reason in ("closed", "idle", "expired") or self._is_disconnected:
            return
        self._is_disconnected = True
        _log.warning("metadata watch failed, retrying", reason=item.reason, error=item.message)
