"""Events that the real API server accepts."""

from __future__ import annotations

import pytest

from windlass.kube.api import Api
from windlass.objects.resources import EVENTS
from windlass.runtime.events import EventRecorder, ObjectRef

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("message", ["short", "€" * 2000, ""], ids=["short", "long", "empty"])
async def test_events_pass_validation(api: Api, namespace: str, message: str) -> None:
    """Long names, long notes and empty ones are stored; the same transition once."""
    ref = ObjectRef("v1", "ConfigMap", namespace, "a" * 253, "b1b1")
    recorder = EventRecorder(api, "windlass.dev/test")
    for _ in range(2):
        await recorder.record(ref, "Warning", "AccessDenied", message, transition="7")
    [event] = [it for it in await api.list(EVENTS, namespace) if it["regarding"]["uid"] == "b1b1"]
    assert len(event.get("note", "").encode()) <= 1024
    assert event["reportingController"] == "windlass.dev/test"


async def test_cluster_scoped_objects_have_events_too(api: Api, namespace: str) -> None:
    """Their events lie in the namespace default."""
    ref = ObjectRef("v1", "Namespace", "", namespace, "c2c2")
    await EventRecorder(api, "windlass.dev/test").record(ref, "Normal", "Ready", "m")
    listed = [
        it for it in await api.list(EVENTS, "default") if it["regarding"]["name"] == namespace
    ]
    assert len(listed) == 1
