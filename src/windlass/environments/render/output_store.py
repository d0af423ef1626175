"""Stores the last output of a chart in a Secret, so that the same inputs give the same objects.

A chart may generate passwords. Rendered again, after a restart for example, it would give other
ones to what already runs with the first. So the output is stored in a Secret of its namespace,
before anything of it is applied, with the hash of its inputs: the same inputs are not
rendered again, and other ones take generated values from it (`generated_values`). One output
per namespace is stored, the last that may be applied: a refused one does not replace it. An
output that is too large for a Secret is kept in memory for as long as the operator runs.

    data      inputs   hash of what the chart was rendered from
              output   text as `helm template` prints it, gzip
              notes    JSON list of what differs with every render; absent in older Secrets
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import zlib
from dataclasses import dataclass

import msgspec

from windlass.api.install.environment_objects import RELEASE_PREFIX
from windlass.base import failpoint
from windlass.environments import owned_objects
from windlass.environments.ownership import Ownership, owner_uid
from windlass.environments.render import manifests
from windlass.kube.api import Api
from windlass.kube.errors import NotFound
from windlass.objects.names import Object
from windlass.objects.resources import SECRETS

NAME = f"{RELEASE_PREFIX}chart"
MOST_BYTES = 900 << 10
"""Largest compressed output that is stored; the data of a Secret may have 1 MiB."""

_INPUTS_KEY = "inputs"
_OUTPUT_KEY = "output"
_NOTES_KEY = "notes"


@dataclass(frozen=True, slots=True)
class ChartOutput:
    """The objects of a chart as text.

    inputs: hash of what the chart was rendered from
    notes: what differs with every render, for `status.unsupported`
    """

    inputs: str
    text: bytes
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """An output as its Secret holds it."""

    inputs: str
    packed: bytes  # gzip
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether a Secret can hold it."""
        return len(self.packed) <= MOST_BYTES


@dataclass(slots=True)
class OutputMemory:
    """The last output of one namespace: read from its Secret, written to it, or too large."""

    stored: StoredOutput | None = None


class OutputStore:
    """Stores the last output of every namespace in its Secret."""

    def __init__(self, api: Api, *, field_manager: str) -> None:
        self._api = api
        self._field_manager = field_manager

    async def get(
        self, namespace: str, owner: Ownership, memory: OutputMemory
    ) -> ChartOutput | None:
        """The output that was applied last in `namespace`; None if there is none to read."""
        stored = memory.stored or await self._read_secret(namespace, owner)
        text = await asyncio.to_thread(_unpack, stored.packed) if stored is not None else None
        if stored is None or text is None:
            return None
        memory.stored = stored
        return ChartOutput(stored.inputs, text, stored.notes)

    async def store(
        self, namespace: str, owner: Ownership, output: ChartOutput, memory: OutputMemory
    ) -> bool:
        """Store an output unless it is stored already; whether it survives a restart."""
        if memory.stored is not None and memory.stored.inputs == output.inputs:
            return memory.stored.fits
        # Without a timestamp: the same output gives the same bytes, and no write.
        packed = await asyncio.to_thread(gzip.compress, output.text, mtime=0)
        stored = StoredOutput(output.inputs, packed, output.notes)
        if stored.fits:
            obj = _secret(namespace, owner, stored)
            failpoint.reach("environments.chart.before")
            await self._api.apply(SECRETS, obj, field_manager=self._field_manager)
            failpoint.reach("environments.chart.after")
        memory.stored = stored
        return stored.fits

    async def _read_secret(self, namespace: str, owner: Ownership) -> StoredOutput | None:
        try:
            secret = await self._api.get(SECRETS, NAME, namespace)
        except NotFound:
            return None
        data = secret.get("data") or {}
        if owner_uid(secret) != owner.uid:
            return None  # of an earlier Environment with the same name, or copied
        return StoredOutput(
            _decode_base64(data.get(_INPUTS_KEY)).decode("ascii", "replace"),
            _decode_base64(data.get(_OUTPUT_KEY)),
            _decode_notes(_decode_base64(data.get(_NOTES_KEY))),
        )


def _secret(namespace: str, owner: Ownership, stored: StoredOutput) -> Object:
    notes = msgspec.json.encode(stored.notes)
    data = {_INPUTS_KEY: stored.inputs.encode(), _OUTPUT_KEY: stored.packed, _NOTES_KEY: notes}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return owned_objects.release_secret(namespace, owner, NAME, encoded)


def _decode_base64(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except ValueError:
        return b""


def _decode_notes(notes: bytes) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(notes, type=tuple[str, ...])
    except msgspec.DecodeError:
        return ()


def _unpack(packed: bytes) -> bytes | None:
    """The decompressed output; None for bytes that are damaged, or larger than any output."""
    try:
        decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        output = decompressor.decompress(packed, manifests.MOST_BYTES + 1)
    except zlib.error:
        return None
    return output if decompressor.eof and len(output) <= manifests.MOST_BYTES else None
