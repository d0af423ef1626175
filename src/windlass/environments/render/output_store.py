"""Stores the last output of a chart in a Secret, so that the same inputs give the same objects.

A chart may generate passwords. Rendered again, after a restart for example, it would give other
ones to what already runs with the first. So the output is stored in a Secret of its namespace,
before anything of it is applied, with the hash of its inputs: the same inputs are not
rendered again, and other ones take generated values from it (`generated_values`). One
output is kept, the last that may be applied: what is refused leaves that of what runs where
it is. What is too large for a Secret is kept for as long as the operator lives.

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

from windlass.base import failpoint
from windlass.environments import owned_objects
from windlass.environments.owned_cache import SECRETS
from windlass.environments.ownership import Ownership, owner_uid
from windlass.environments.render import manifests
from windlass.kube.api import Api
from windlass.kube.errors import NotFound
from windlass.objects.names import Object

NAME = "windlass-release-chart"
MOST_BYTES = 900 << 10

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
class _StoredOutput:
    """An output, packed."""

    inputs: str
    packed: bytes
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return len(self.packed) <= MOST_BYTES


class OutputStore:
    """The last output of every namespace."""

    def __init__(self, api: Api, *, field_manager: str) -> None:
        self._api = api
        self._field_manager = field_manager
        self._outputs: dict[str, _StoredOutput] = {}

    async def get(self, place: str, owner: Ownership) -> ChartOutput | None:
        """The output that was applied last in `place`, if it is still known."""
        kept = self._outputs.get(place) or await self._read_secret(place, owner)
        text = await asyncio.to_thread(_unpack, kept.packed) if kept is not None else None
        if kept is None or text is None:
            return None
        self._outputs[place] = kept
        return ChartOutput(kept.inputs, text, kept.notes)

    async def store(self, place: str, owner: Ownership, output: ChartOutput) -> bool:
        """Keep an output, if it is not kept yet; whether a restart will find it."""
        known = self._outputs.get(place)
        if known is not None and known.inputs == output.inputs:
            return known.fits
        # No time of packing in it: the same output is the same bytes.
        packed = await asyncio.to_thread(gzip.compress, output.text, mtime=0)
        kept = _StoredOutput(output.inputs, packed, output.notes)
        if kept.fits:
            obj = _secret(place, owner, kept)
            failpoint.reach("environments.chart.before")
            await self._api.apply(SECRETS, obj, field_manager=self._field_manager)
            failpoint.reach("environments.chart.after")
        self._outputs[place] = kept
        return kept.fits

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._outputs.pop(place, None)

    async def _read_secret(self, place: str, owner: Ownership) -> _StoredOutput | None:
        try:
            found = await self._api.get(SECRETS, NAME, place)
        except NotFound:
            return None
        data = found.get("data") or {}
        if owner_uid(found) != owner.uid:
            return None
        return _StoredOutput(
            _decode_base64(data.get(_INPUTS_KEY)).decode("ascii", "replace"),
            _decode_base64(data.get(_OUTPUT_KEY)),
            _decode_notes(_decode_base64(data.get(_NOTES_KEY))),
        )


def _secret(place: str, owner: Ownership, kept: _StoredOutput) -> Object:
    notes = msgspec.json.encode(kept.notes)
    data = {_INPUTS_KEY: kept.inputs.encode(), _OUTPUT_KEY: kept.packed, _NOTES_KEY: notes}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return owned_objects.release_secret(place, owner, NAME, encoded)


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
    """The output; None for bytes that somebody spoiled or that would never end."""
    try:
        engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        output = engine.decompress(packed, manifests.MOST_BYTES + 1)
    except zlib.error:
        return None
    return output if engine.eof and len(output) <= manifests.MOST_BYTES else None
