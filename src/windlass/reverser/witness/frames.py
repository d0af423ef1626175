"""What the controller and its witness say to each other.

Both ends hold one end of a socket pair that has no name, so nobody else can speak
on it. A frame is four bytes of length and one MessagePack value. Times are readings
of the machine's monotonic clock, which both processes share.
"""

from __future__ import annotations

import asyncio
import struct

import msgspec

_LENGTH = struct.Struct(">I")
_LARGEST = 16 << 20


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    """First word of the controller: how to serve, and how to hash without showing content."""

    certificate_pem: bytes
    key_pem: bytes
    client_ca_pem: bytes
    digest_key: bytes
    sensitive: list[str]
    paths: list[str]


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """The witness answers admission calls from now on."""

    time: float


class Witnessed(msgspec.Struct, frozen=True, tag="witnessed"):
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


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """Calls between `start` and `end` left no record."""

    start: float
    end: float
    calls: int


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """The witness is awake: whatever it was asked before this, it has seen."""

    time: float


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """How many calls were answered since the last such word, with the time each took."""

    calls: int
    seconds: list[float]


FromWitness = Serving | Witnessed | Lost | Beat | Answered

_encoder = msgspec.msgpack.Encoder()
_from_witness: msgspec.msgpack.Decoder[FromWitness] = msgspec.msgpack.Decoder(FromWitness)
_configure: msgspec.msgpack.Decoder[Configure] = msgspec.msgpack.Decoder(Configure)


def encode(message: Configure | FromWitness) -> bytes:
    """The frame that carries `message`."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


async def read_from_witness(reader: asyncio.StreamReader) -> FromWitness | None:
    """The next word of the witness; None when it is gone."""
    body = await _read_frame(reader)
    return None if body is None else _from_witness.decode(body)


async def read_configure(reader: asyncio.StreamReader) -> Configure | None:
    """The next word of the controller; None when it is gone."""
    body = await _read_frame(reader)
    return None if body is None else _configure.decode(body)


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > _LARGEST:
            raise ValueError(f"a frame of {length} bytes is larger than any word of ours")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
