"""The lifecycle of the objects of one kind, and the user behind each write.

Created in three ways, changed in six, scaled where that is served, attempted in vain
(no-op, dry run, conflict, refusal), raced over and deleted. The truth is what the API
server answered to the writer: the new resourceVersion.
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
    """A user with a certificate."""

    name: str
    api: Api


@dataclass
class GroundTruth:
    """Who really did what, by what the API server answered."""

    writers: dict[tuple[str, str], str] = field(default_factory=dict)
    deleters: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    refused: int = 0

    def record_write(self, user: str, obj: Object) -> None:
        metadata = obj["metadata"]
        self.writers[metadata["uid"], metadata["resourceVersion"]] = user


class ObjectLifecycle:
    """Writes to the objects of one kind, by several users in turn."""

    def __init__(self, sample: Sample, writers: Sequence[Writer]) -> None:
        self.truth = GroundTruth()
        self._sample = sample
        self._gvr = sample.served.gvr
        self._numbers = itertools.count(1)
        self._turns = itertools.cycle(writers)
        self._writers = writers
        self.names = frozenset(writer.name for writer in writers)

    async def run(self) -> None:
        await self._plain_lifecycle()
        await self._apply_lifecycle()
        if not self._sample.fixed_names:
            await self._delete(await self._write(self._create("", generate=True)))
        for other in self._sample.other_versions:
            await self._write_in_other_version(replace(self._sample, served=other))

    async def _plain_lifecycle(self) -> None:
        created = await self._write(self._create("plain"))
        await self._write(self._merge(created))
        await self._write(self._patch(created))
        await self._write(self._apply("plain"))
        await self._attempt_without_effect(created)
        await self._write(self._replace(created))
        await self._scale(created)
        await self._race(created)
        await self._delete(created)

    async def _apply_lifecycle(self) -> None:
        held = {"finalizers": ["example.org/hold"]}
        created = await self._write(self._apply("applied", **held))
        await self._write(self._apply("applied", **held))
        await self._delete(created)
        await self._attempt(self._merge_patch(created, {"metadata": {"finalizers": None}}))

    async def _write_in_other_version(self, other: Sample) -> None:
        """The same kind written in a version that is not the one watched."""
        created = await self._write(self._create("foreign"))
        path = (other.served.gvr, created["metadata"]["name"])
        seen = await self._writers[0].api.get(*path, self._sample.namespace)

        async def create(api: Api, number: int) -> Object:
            body = other.build_from(sanitize.sanitize_object(seen), "abroad", number)
            return await api.create(other.served.gvr, body, field_manager=_MANAGER)

        await self._write(self._merge(created, other))
        await self._write(self._merge(created, other))
        other_version = await self._write(create)
        await self._delete(created)
        await self._delete(other_version)

    async def _attempt_without_effect(self, created: Object) -> None:
        """Attempts that change nothing: the version they name is that of the next real write."""
        number = next(self._numbers) - 1
        again = self._sample.build("plain", number)
        other = self._sample.build("plain", number + 500)
        for writer in self._writers:
            with suppress(ApiError):
                await writer.api.apply(self._gvr, again, field_manager=_MANAGER)
        writer = next(self._turns)
        with suppress(ApiError):
            await writer.api.apply(self._gvr, other, field_manager=_MANAGER, dry_run=True)
        stale = sanitize.sanitize_object(created)
        stale["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
        stale["metadata"].setdefault("annotations", {})["example.org/stale"] = "yes"
        with suppress(Conflict):
            await writer.api.replace(self._gvr, stale, field_manager=_MANAGER)
            raise AssertionError(f"{self._sample.label}: a stale replace was accepted")
        self.truth.tried += len(self._writers) + 2

    async def _scale(self, created: Object) -> None:
        name, namespace = created["metadata"]["name"], self._sample.namespace
        try:
            await self._writers[0].api.get(self._gvr, name, namespace, subresource="scale")
        except NotFound:
            return

        async def scale(api: Api, number: int) -> Object:
            patch: Object = {"spec": {"replicas": number % 3}}
            return await api.merge_patch(
                self._gvr, name, patch, namespace, field_manager=_MANAGER, subresource="scale"
            )

        await self._write(scale)
        await self._write(scale)

    async def _race(self, created: Object) -> None:
        """Concurrent writes: the loser is admitted again by the server's own retry."""
        await asyncio.gather(
            *(
                self._write_once(writer, self._merge(created))
                for writer in (*self._writers, *self._writers)
            )
        )

    async def _delete(self, created: Object) -> None:
        """Delete; who first made the object terminate did it, whatever the answer was.

        Some kinds, pods among them, are deleted in two steps that are admitted one by one.
        A refusal of the second does not undo the first.
        """
        name, uid = created["metadata"]["name"], created["metadata"]["uid"]

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
            body = self._sample.build(role, number)
            if generate:
                del body["metadata"]["name"]
                body["metadata"]["generateName"] = "generated-"
            return await api.create(self._gvr, body, field_manager=_MANAGER)

        return create

    def _apply(self, role: str, **metadata: JSON) -> Write:
        async def apply(api: Api, number: int) -> Object:
            body = self._sample.build(role, number)
            body["metadata"] |= metadata
            return await api.apply(self._gvr, body, field_manager=_MANAGER)

        return apply

    def _merge(self, created: Object, sample: Sample | None = None) -> Write:
        async def merge(api: Api, number: int) -> Object:
            patch: Object = {"metadata": {"annotations": {"example.org/merged": str(number)}}}
            return await self._merge_patch(created, patch, sample)(api, number)

        return merge

    def _merge_patch(self, created: Object, patch: Object, sample: Sample | None = None) -> Write:
        gvr = (sample or self._sample).served.gvr
        name, namespace = created["metadata"]["name"], self._sample.namespace
        return lambda api, _: api.merge_patch(gvr, name, patch, namespace, field_manager=_MANAGER)

    def _patch(self, created: Object) -> Write:
        name, namespace = created["metadata"]["name"], self._sample.namespace

        async def patched(api: Api, number: int) -> Object:
            path = "/metadata/annotations/example.org~1patched"
            patch: list[Object] = [{"op": "add", "path": path, "value": f"n{number}"}]
            return await api.json_patch(self._gvr, name, patch, namespace, field_manager=_MANAGER)

        return patched

    def _replace(self, created: Object) -> Write:
        async def replaced(api: Api, number: int) -> Object:
            found = await api.get(self._gvr, created["metadata"]["name"], self._sample.namespace)
            found["metadata"].setdefault("annotations", {})["example.org/replaced"] = str(number)
            return await api.replace(self._gvr, found, field_manager=_MANAGER)

        return replaced

    async def _write(self, write: Write) -> Object:
        found: list[Object] = []

        async def keep(api: Api, number: int) -> Object:
            found[:] = [await write(api, number)]
            return found[0]

        self.truth.record_write(await self._attempt(keep), found[0])
        return found[0]

    async def _attempt(self, write: Write) -> str:
        """Who succeeded with `write`; after a refusal the other one tries, with other content."""
        for _ in range(_TRIES):
            writer = next(self._turns)
            if await self._try_write(writer, write) is not None:
                return writer.name
        raise AssertionError(f"{self._sample.label}: {_TRIES} attempts failed")

    async def _write_once(self, writer: Writer, write: Write) -> None:
        obj = await self._try_write(writer, write)
        if obj is not None:
            self.truth.record_write(writer.name, obj)

    async def _try_write(self, writer: Writer, write: Write) -> Object | None:
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
