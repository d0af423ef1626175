"""The frames that the controller and its webhook process exchange.

They pass through an unnamed socket pair, so no other process can write to it. A frame is four
bytes of length and one MessagePack value. Times are readings of the machine's monotonic clock,
which both processes share.
"""

from __future__ import annotations

import asyncio
import struct

import msgspec

_LENGTH = struct.Struct(">I")
_MAX_FRAME_BYTES = 16 << 20


class ConfigureFrame(msgspec.Struct, frozen=True, tag="configure"):
    """Sent by the controller, first and whenever it changes: how to serve and to hash."""

    certificate_pem: bytes
    """Serving certificate."""
    key_pem: bytes
    """Its private key."""
    client_ca_pem: bytes
    """CA that client certificates are verified with."""
    digest_key: bytes
    """Key of the digests of sensitive objects."""
    sensitive: list[str]
    """Types whose content is hashed with the key, beside Secrets, as `[group/]resource`."""
    paths: list[str]
    """URL paths that are answered."""


class ProbeFrame(msgspec.Struct, frozen=True, tag="probe"):
    """Sent by the controller: send a heartbeat at once, and one when no request waits."""


class ServingFrame(msgspec.Struct, frozen=True, tag="serving"):
    """The webhook answers admission requests from now on."""

    time: float


class RecordFrame(msgspec.Struct, frozen=True, tag="witnessed"):
    """One admission request; whether the write happened is not known here."""

    time: float
    """When the request was received, monotonic."""
    user: str
    """userInfo.username."""
    email: str
    """E-mail claim; empty without one."""
    display_name: str
    """Display name claim; empty without one."""
    operation: str
    """operation of the AdmissionReview, such as UPDATE."""
    group: str
    """API group of the object."""
    version: str
    """API version of the request."""
    resource: str
    """Plural name of the type."""
    subresource: str
    """Empty for the object itself."""
    namespace: str
    """metadata.namespace of the object; empty for cluster-scoped ones."""
    name: str
    """metadata.name of the object."""
    uid: str
    """metadata.uid of object or oldObject; never empty."""
    old_resource_version: str
    """resourceVersion of oldObject; empty for a create."""
    content: bytes | None
    """Digest of the clean object; None for deletes and for scale."""
    replicas: int | None
    """spec.replicas of a scale request; else None."""


class LostFrame(msgspec.Struct, frozen=True, tag="lost"):
    """Requests between `start` and `end` left no record; `calls` of them were counted."""

    start: float
    end: float
    calls: int


class HeartbeatFrame(msgspec.Struct, frozen=True, tag="beat"):
    """The webhook runs."""

    time: float
    """When it was sent, monotonic."""
    recorded_until: float
    """Of requests answered before, the record was sent, or they were reported as lost."""


class AnsweredFrame(msgspec.Struct, frozen=True, tag="answered"):
    """How many requests were answered since the last such frame, with the seconds of each."""

    calls: int
    seconds: list[float]


ControllerFrame = ConfigureFrame | ProbeFrame
WebhookFrame = ServingFrame | RecordFrame | LostFrame | HeartbeatFrame | AnsweredFrame

_encoder = msgspec.msgpack.Encoder()
_webhook_decoder: msgspec.msgpack.Decoder[WebhookFrame] = msgspec.msgpack.Decoder(WebhookFrame)
_controller_decoder: msgspec.msgpack.Decoder[ControllerFrame] = msgspec.msgpack.Decoder(
    ControllerFrame
)


def encode_frame(frame: ControllerFrame | WebhookFrame) -> bytes:
    """The bytes of a frame: length and body."""
    body = _encoder.encode(frame)
    return _LENGTH.pack(len(body)) + body


async def read_webhook_frame(reader: asyncio.StreamReader) -> WebhookFrame | None:
    """The next frame of the webhook process; None when it has ended."""
    body = await _read_frame(reader)
    return None if body is None else _webhook_decoder.decode(body)


async def read_controller_frame(reader: asyncio.StreamReader) -> ControllerFrame | None:
    """The next frame of the controller; None when it has ended."""
    body = await _read_frame(reader)
    return None if body is None else _controller_decoder.decode(body)


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > _MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {length} bytes exceeds the limit")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
