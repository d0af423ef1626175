"""The life that the objects of one kind live, and who really did what to them.

Created in three ways, changed in six, scaled where that is served, attempted in vain
(no-op, dry run, conflict, refusal), raced over and deleted. The truth is what the API
server answered to whoever wrote: the new resourceVersion.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tests.support.kube.rejecting_webhook import REFUSED
from tests.support.reverser.attribution_samples import Sample
from windlass.kube.api import Api
from windlass.kube.errors import ApiError, Conflict, NotFound
from windlass.objects.names import JSON, Object
from windlass.reverser.content import sanitize

_MANAGER = "experiment"
_TRIES = 8
Write = Callable[[Api, int], Awaitable[Object]]


@dataclass(frozen=True)
class Writer:
    """Somebody with a certificate."""

    name: str
    api: Api


@dataclass
class GroundTruth:
    """Who really did what, by what the API server answered."""

    writers: dict[tuple[str, str], str] = field(default_factory=dict)
    deleters: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    refused: int = 0

    def wrote(self, user: str, obj: Object) -> None:
        metadata = obj["metadata"]
        self.writers[metadata["uid"], metadata["resourceVersion"]] = user


class ObjectLifecycle:
    """What happens to the objects of one kind."""

    def __init__(self, sample: Sample, people: Sequence[Writer]) -> None:
        self.truth = GroundTruth()
        self._sample = sample
        self._gvr = sample.served.gvr
        self._numbers = itertools.count(1)
        self._turns = itertools.cycle(people)
        self._people = people
        self.names = frozenset(one.name for one in people)

    async def lived(self) -> None:
        await self._plain()
        await self._applied()
        if not self._sample.fixed_names:
            await self._delete(await self._done(self._create("", generate=True)))
        for other in self._sample.other_versions:
            await self._foreign(replace(self._sample, served=other))

    async def _plain(self) -> None:
        born = await self._done(self._create("plain"))
        await self._done(self._merge(born))
        await self._done(self._patch(born))
        await self._done(self._apply("plain"))
        await self._in_vain(born)
        await self._done(self._replace(born))
        await self._scaled(born)
        await self._raced(born)
        await self._delete(born)

    async def _applied(self) -> None:
        held = {"finalizers": ["example.org/hold"]}
        born = await self._done(self._apply("applied", **held))
        await self._done(self._apply("applied", **held))
        await self._delete(born)
        await self._attempt(self._merge_of(born, {"metadata": {"finalizers": None}}))

    async def _foreign(self, other: Sample) -> None:
        """The same kind written in a version that is not the one watched."""
        born = await self._done(self._create("foreign"))
        path = (other.served.gvr, born["metadata"]["name"])
        seen = await self._people[0].api.get(*path, self._sample.namespace)

        async def create(api: Api, number: int) -> Object:
            body = other.like(sanitize.sanitize_object(seen), "abroad", number)
            return await api.create(other.served.gvr, body, field_manager=_MANAGER)

        await self._done(self._merge(born, other))
        await self._done(self._merge(born, other))
        abroad = await self._done(create)
        await self._delete(born)
        await self._delete(abroad)

    async def _in_vain(self, born: Object) -> None:
        """Attempts that change nothing: the version they name is that of the next real write."""
        number = next(self._numbers) - 1
        again = self._sample.named("plain", number)
        other = self._sample.named("plain", number + 500)
        for writer in self._people:
            with suppress(ApiError):
                await writer.api.apply(self._gvr, again, field_manager=_MANAGER)
        writer = next(self._turns)
        with suppress(ApiError):
            await writer.api.apply(self._gvr, other, field_manager=_MANAGER, dry_run=True)
        stale = sanitize.sanitize_object(born)
        stale["metadata"]["resourceVersion"] = born["metadata"]["resourceVersion"]
        stale["metadata"].setdefault("annotations", {})["example.org/stale"] = "yes"
        with suppress(Conflict):
            await writer.api.replace(self._gvr, stale, field_manager=_MANAGER)
            raise AssertionError(f"{self._sample.label}: a stale replace was accepted")
        self.truth.tried += len(self._people) + 2

    async def _scaled(self, born: Object) -> None:
        name, space = born["metadata"]["name"], self._sample.namespace
        try:
            await self._people[0].api.get(self._gvr, name, space, subresource="scale")
        except NotFound:
            return

        async def scale(api: Api, number: int) -> Object:
            patch: Object = {"spec": {"replicas": number % 3}}
            return await api.merge_patch(
                self._gvr, name, patch, space, field_manager=_MANAGER, subresource="scale"
            )

        await self._done(scale)
        await self._done(scale)

    async def _raced(self, born: Object) -> None:
        """Both write at once: whoever loses is admitted again by the server's own retry."""
        await asyncio.gather(
            *(self._try(one, self._merge(born)) for one in (*self._people, *self._people))
        )

    async def _delete(self, born: Object) -> None:
        """Delete; who first made the object terminate did it, whatever the answer was.

        Some kinds, pods among them, are deleted in two steps that are admitted one by one.
        A refusal of the second does not undo the first.
        """
        name, uid = born["metadata"]["name"], born["metadata"]["uid"]

        async def delete(api: Api, number: int) -> Object:
            try:
                await api.delete(self._gvr, name, self._sample.namespace)
            except ApiError:
                found = await api.get(self._gvr, name, self._sample.namespace)
                if "deletionTimestamp" in found["metadata"]:
                    return {}
                raise
            return {}

        self.truth.deleters[uid] = await self._attempt(delete)

    def _create(self, role: str, *, generate: bool = False) -> Write:
        async def create(api: Api, number: int) -> Object:
            body = self._sample.named(role, number)
            if generate:
                del body["metadata"]["name"]
                body["metadata"]["generateName"] = "generated-"
            return await api.create(self._gvr, body, field_manager=_MANAGER)

        return create

    def _apply(self, role: str, **metadata: JSON) -> Write:
        async def apply(api: Api, number: int) -> Object:
            body = self._sample.named(role, number)
            body["metadata"] |= metadata
            return await api.apply(self._gvr, body, field_manager=_MANAGER)

        return apply

    def _merge(self, born: Object, sample: Sample | None = None) -> Write:
        async def merge(api: Api, number: int) -> Object:
            patch: Object = {"metadata": {"annotations": {"example.org/merged": str(number)}}}
            return await self._merge_of(born, patch, sample)(api, number)

        return merge

    def _merge_of(self, born: Object, patch: Object, sample: Sample | None = None) -> Write:
        gvr = (sample or self._sample).served.gvr
        name, space = born["metadata"]["name"], self._sample.namespace
        return lambda api, _: api.merge_patch(gvr, name, patch, space, field_manager=_MANAGER)

    def _patch(self, born: Object) -> Write:
        name, space = born["metadata"]["name"], self._sample.namespace

        async def patched(api: Api, number: int) -> Object:
            path = "/metadata/annotations/example.org~1patched"
            patch: list[Object] = [{"op": "add", "path": path, "value": f"n{number}"}]
            return await api.json_patch(self._gvr, name, patch, space, field_manager=_MANAGER)

        return patched

    def _replace(self, born: Object) -> Write:
        async def replaced(api: Api, number: int) -> Object:
            found = await api.get(self._gvr, born["metadata"]["name"], self._sample.namespace)
            found["metadata"].setdefault("annotations", {})["example.org/replaced"] = str(number)
            return await api.replace(self._gvr, found, field_manager=_MANAGER)

        return replaced

    async def _done(self, write: Write) -> Object:
        found: list[Object] = []

        async def keep(api: Api, number: int) -> Object:
            found[:] = [await write(api, number)]
            return found[0]

        self.truth.wrote(await self._attempt(keep), found[0])
        return found[0]

    async def _attempt(self, write: Write) -> str:
        """Who succeeded with `write`; after a refusal the other one tries, with other content."""
        for _ in range(_TRIES):
            writer = next(self._turns)
            if await self._tried(writer, write) is not None:
                return writer.name
        raise AssertionError(f"{self._sample.label}: {_TRIES} attempts failed")

    async def _try(self, writer: Writer, write: Write) -> None:
        obj = await self._tried(writer, write)
        if obj is not None:
            self.truth.wrote(writer.name, obj)

    async def _tried(self, writer: Writer, write: Write) -> Object | None:
        self.truth.tried += 1
        try:
            return await write(writer.api, next(self._numbers))
        except Conflict:
            return None
        except ApiError as error:
            if REFUSED not in error.message:
                raise AssertionError(f"{self._sample.label}: {error}") from error
            self.truth.refused += 1
            return None
