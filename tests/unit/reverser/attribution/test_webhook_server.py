"""The queue of the webhook process: what its heartbeats say of records that still wait."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.support.reverser import forged_reviews
from tests.unit.runtime.fakes import LoopClock
from windlass.objects.names import GVR
from windlass.reverser.attribution import webhook_frames
from windlass.reverser.attribution.webhook_frames import (
    HeartbeatFrame,
    LostFrame,
    RecordFrame,
    WebhookFrame,
)
from windlass.reverser.attribution.webhook_record import RecordSettings
from windlass.reverser.attribution.webhook_server import (
    LARGE_BYTES,
    LATE_SECONDS,
    QUEUE_BYTES,
    QUEUE_LIMIT,
    AdmissionWebhook,
)
from windlass.web import admission
from windlass.web.admission import AdmissionRequest

pytestmark = pytest.mark.looptime


class SentFrames:
    """The controller's end of the pair."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, content: bytes) -> None:
        self.content += content

    async def drain(self) -> None:
        """It reads everything at once."""

    async def take(self) -> list[WebhookFrame]:
        """The frames since the last call."""
        reader = asyncio.StreamReader()
        reader.feed_data(self.content)
        reader.feed_eof()
        self.content, frames = b"", list[WebhookFrame]()
        while (frame := await webhook_frames.read_webhook_frame(reader)) is not None:
            frames.append(frame)
        return frames


def _webhook() -> tuple[AdmissionWebhook, SentFrames]:
    sent = SentFrames()
    writer = cast("asyncio.StreamWriter", sent)
    return AdmissionWebhook(writer, RecordSettings(b"", frozenset()), LoopClock()), sent


def _request(value: str = "") -> AdmissionRequest:
    config_map = {"metadata": {"name": "one", "namespace": "ns", "uid": "u"}, "data": {"a": value}}
    maps = GVR("", "v1", "configmaps")
    return admission.parse(forged_reviews.admission_review("alice", maps, None, config_map))


async def test_a_heartbeat_names_the_oldest_request_without_a_record() -> None:
    """A change that was received later must not be judged yet."""
    webhook, sent = _webhook()
    enqueued_at = LoopClock().monotonic()
    webhook.enqueue(_request())
    await asyncio.sleep(0.1)
    webhook.enqueue(_request())
    webhook.send_heartbeat()
    assert await sent.take() == [HeartbeatFrame(LoopClock().monotonic(), enqueued_at)]


async def test_a_heartbeat_follows_when_every_request_has_its_record() -> None:
    """So a controller that asked while requests waited need not ask again."""
    webhook, sent = _webhook()
    sending = asyncio.create_task(webhook.send_records())
    webhook.enqueue(_request())
    webhook.enqueue(_request())
    await asyncio.sleep(0.1)
    sending.cancel()
    assert [type(frame) for frame in await sent.take()] == [RecordFrame, RecordFrame]
    sending = asyncio.create_task(webhook.send_records())
    webhook.enqueue(_request())
    webhook.enqueue(_request())
    webhook.answer_probe()
    await asyncio.sleep(0.1)
    sending.cancel()
    _, first, second, heartbeat = await sent.take()
    assert isinstance(first, RecordFrame)
    assert isinstance(second, RecordFrame)
    assert isinstance(heartbeat, HeartbeatFrame)
    assert heartbeat.recorded_until == heartbeat.time


async def test_losses_are_reported_before_the_heartbeat_that_covers_them() -> None:
    """Requests above the limit of the queue leave no record, and the controller knows."""
    webhook, sent = _webhook()
    for _ in range(QUEUE_LIMIT + 1):
        webhook.enqueue(_request())
    webhook.record_unreadable()
    webhook.send_heartbeat()
    lost, heartbeat = await sent.take()
    assert isinstance(lost, LostFrame)
    assert lost.calls == 2
    assert isinstance(heartbeat, HeartbeatFrame)


async def test_a_call_that_is_being_read_holds_the_heartbeat_back() -> None:
    """The API server may have given it up, and stored the write that it is about."""
    webhook, sent = _webhook()
    webhook.enqueue(_request())
    webhook.oldest_open_call = lambda: -1.0
    webhook.send_heartbeat()
    assert await sent.take() == [HeartbeatFrame(LoopClock().monotonic(), -1.0)]


async def test_large_requests_that_wait_keep_no_others_back() -> None:
    """They leave a record that contradicts, but that is compared with no change."""
    webhook, sent = _webhook()
    webhook.enqueue(_request("x" * LARGE_BYTES))
    webhook.enqueue(_request())
    await asyncio.sleep(LATE_SECONDS + 0.1)
    webhook.enqueue(_request("x" * LARGE_BYTES))
    sending = asyncio.create_task(webhook.send_records())
    await asyncio.sleep(0.1)
    sending.cancel()
    records = [frame for frame in await sent.take() if isinstance(frame, RecordFrame)]
    assert [record.content is not None for record in records] == [False, True, True]


async def test_the_queue_is_bounded_in_bytes() -> None:
    """What is above is a loss that the controller knows of, not a process that is killed."""
    webhook, sent = _webhook()
    large = _request("x" * (QUEUE_BYTES // 4))
    for _ in range(6):
        webhook.enqueue(large)
    webhook.send_heartbeat()
    lost, _ = await sent.take()
    assert isinstance(lost, LostFrame)
    assert lost.calls == 2
