"""The frames that the controller and its webhook process exchange.

Both ends hold one end of a socket pair that has no name, so no other process can write
to it. A frame is four bytes of length and one MessagePack value. Times are readings
of the machine's monotonic clock, which both processes share.
"""

from __future__ import annotations

import asyncio
import struct

import msgspec

_LENGTH = struct.Struct(">I")
_MAX_FRAME_BYTES = 16 << 20


class ConfigureFrame(msgspec.Struct, frozen=True, tag="configure"):
    """First word of the controller: how to serve, and how to hash without showing content."""

    certificate_pem: bytes
    key_pem: bytes
    client_ca_pem: bytes
    digest_key: bytes
    sensitive: list[str]
    paths: list[str]


class ServingFrame(msgspec.Struct, frozen=True, tag="serving"):
    """The witness answers admission calls from now on."""

    time: float


class RecordFrame(msgspec.Struct, frozen=True, tag="witnessed"):
    """Somebody asked for a write; whether it happened is not known here."""

    time: float
    user: str
    email: str
    display_name: str
    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uid: str
    old_resource_version: str
    content: bytes | None
    replicas: int | None


class LostFrame(msgspec.Struct, frozen=True, tag="lost"):
    """Calls between `start` and `end` left no record."""

    start: float
    end: float
    calls: int


class HeartbeatFrame(msgspec.Struct, frozen=True, tag="beat"):
    """The witness is awake: whatever it was asked before this, it has seen."""

    time: float


class AnsweredFrame(msgspec.Struct, frozen=True, tag="answered"):
    """How many calls were answered since the last such word, with the time each took."""

    calls: int
    seconds: list[float]


WebhookFrame = ServingFrame | RecordFrame | LostFrame | HeartbeatFrame | AnsweredFrame

_encoder = msgspec.msgpack.Encoder()
_webhook_decoder: msgspec.msgpack.Decoder[WebhookFrame] = msgspec.msgpack.Decoder(WebhookFrame)
_configure_decoder: msgspec.msgpack.Decoder[ConfigureFrame] = msgspec.msgpack.Decoder(
    ConfigureFrame
)


def encode_frame(frame: ConfigureFrame | WebhookFrame) -> bytes:
    """The frame that carries `message`."""
    body = _encoder.encode(frame)
    return _LENGTH.pack(len(body)) + body


async def read_webhook_frame(reader: asyncio.StreamReader) -> WebhookFrame | None:
    """The next word of the witness; None when it is gone."""
    body = await _read_frame(reader)
    return None if body is None else _webhook_decoder.decode(body)


async def read_configure_frame(reader: asyncio.StreamReader) -> ConfigureFrame | None:
    """The next word of the controller; None when it is gone."""
    body = await _read_frame(reader)
    return None if body is None else _configure_decoder.decode(body)


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > _MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {length} bytes is larger than any word of ours")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
