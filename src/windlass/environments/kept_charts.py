"""What helm made of charts, kept so that the same inputs give the same objects.

A chart may draw passwords by lot. Rendered again, after a restart say, it would give other
ones to what already runs with the first. So the output stands in a Secret of the namespace
it is for, before anything of it is applied, under the hash of its inputs; only other inputs
are rendered anew. One output is kept, the last that may be applied: what is refused leaves
that of what runs where it is. What is too large for a Secret is kept for as long as the
operator lives.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import zlib
from dataclasses import dataclass

from windlass.base import failpoint
from windlass.environments.decide import manifests, owned_objects
from windlass.environments.decide.marks import Marks, owner_uid
from windlass.environments.holdings import SECRETS
from windlass.kube.api import Api
from windlass.kube.errors import NotFound
from windlass.objects.json import Object

NAME = "windlass-release-chart"
MOST_BYTES = 900 << 10

_INPUTS = "inputs"
_OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class _Kept:
    """Some output, packed, and the hash of what it was made from."""

    inputs: str
    packed: bytes

    @property
    def fits(self) -> bool:
        return len(self.packed) <= MOST_BYTES


class KeptCharts:
    """The last output of every namespace."""

    def __init__(self, api: Api, *, field_manager: str) -> None:
        self._api = api
        self._field_manager = field_manager
        self._kept: dict[str, _Kept] = {}

    async def get(self, place: str, owner: Marks, inputs: str) -> bytes | None:
        """What was made of these inputs for `place`, if it is still known."""
        kept = self._kept.get(place) or await self._stored(place, owner)
        if kept is None or kept.inputs != inputs:
            return None
        output = await asyncio.to_thread(_unpacked, kept.packed)
        if output is not None:
            self._kept[place] = kept
        return output

    async def keep(self, place: str, owner: Marks, inputs: str, output: bytes) -> bool:
        """Keep what was made, if it is not kept yet; whether a restart will find it."""
        known = self._kept.get(place)
        if known is not None and known.inputs == inputs:
            return known.fits
        # No time of packing in it: the same output is the same bytes.
        kept = _Kept(inputs, await asyncio.to_thread(gzip.compress, output, mtime=0))
        if kept.fits:
            obj = _secret(place, owner, kept)
            failpoint.reach("environments.chart.before")
            await self._api.apply(SECRETS, obj, field_manager=self._field_manager)
            failpoint.reach("environments.chart.after")
        self._kept[place] = kept
        return kept.fits

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._kept.pop(place, None)

    async def _stored(self, place: str, owner: Marks) -> _Kept | None:
        try:
            found = await self._api.get(SECRETS, NAME, place)
        except NotFound:
            return None
        data = found.get("data") or {}
        if owner_uid(found) != owner.uid:
            return None
        return _Kept(
            _decoded(data.get(_INPUTS)).decode("ascii", "replace"), _decoded(data.get(_OUTPUT))
        )


def _secret(place: str, owner: Marks, kept: _Kept) -> Object:
    data = {_INPUTS: kept.inputs.encode(), _OUTPUT: kept.packed}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return owned_objects.release(place, owner, NAME, encoded)


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except ValueError:
        return b""


def _unpacked(packed: bytes) -> bytes | None:
    """The output; None for bytes that somebody spoiled or that would never end."""
    try:
        engine = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        output = engine.decompress(packed, manifests.MOST_BYTES + 1)
    except zlib.error:
        return None
    return output if engine.eof and len(output) <= manifests.MOST_BYTES else None
