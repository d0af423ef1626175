"""The deletion of an IgnitionSync."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, Mock

import orjson
import pytest

from tests.support.gateways.fleet import AdvancingClock
from windlass.api.kinds.ignitionsync import FINALIZER
from windlass.gateways.controller.deletion import TRANSIENT_RETRY_SECONDS, IgnitionSyncDeletion
from windlass.gateways.controller.reconciler import Dependencies, IgnitionSyncReconciler
from windlass.gateways.wire import agent_objects
from windlass.git.settings import GitSettings
from windlass.kube.errors import Unavailable
from windlass.objects.names import Key

KEY = Key("plant", "site")


def _terminating_sync() -> bytes:
    metadata = {
        "name": KEY.name,
        "namespace": KEY.namespace,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [FINALIZER],
    }
    return orjson.dumps({"metadata": metadata})


def _reconciler(cache: Any, clock: AdvancingClock) -> IgnitionSyncReconciler:
    """A reconciler whose writes all fail for a while."""
    unavailable = AsyncMock(side_effect=Unavailable(503, "Unavailable", "no answer"))
    writer = Mock(publish_config_map=unavailable)
    dependencies = Dependencies(
        api=Mock(),
        cache=cache,
        writer=writer,
        ref_poller=Mock(),
        sources=Mock(),
        deletion=IgnitionSyncDeletion(Mock(), writer, clock),
        status_rate_limit=Mock(),
        metrics=Mock(),
        recorder=Mock(),
        clock=clock,
    )
    return IgnitionSyncReconciler(
        dependencies,
        git=GitSettings(),
        cluster_name="",
        protected_paths=(),
        operator_version="",
    )


async def test_a_later_sync_of_the_same_name_has_its_own_time_to_notify_agents() -> None:
    """Somebody removed the finalizer of the first one while its agents could not be notified."""
    published = {agent_objects.metadata_name(KEY.name): {"data": {"commit": "1"}}}
    cache = Mock(**{"list_owned.return_value": published, "get_owned.return_value": None})
    clock = AdvancingClock()
    reconciler = _reconciler(cache, clock)
    cache.get_sync.return_value = _terminating_sync()
    with pytest.raises(Unavailable):
        await reconciler.reconcile(KEY)
    cache.get_sync.return_value = None
    await reconciler.reconcile(KEY)
    clock.skipped += TRANSIENT_RETRY_SECONDS + 1
    cache.get_sync.return_value = _terminating_sync()
    with pytest.raises(Unavailable):
        await reconciler.reconcile(KEY)
