"""A clock of the running loop, and an API server that fits into a dictionary."""

from __future__ import annotations

import asyncio
import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from windlass.kube.reflector import Observed
from windlass.objects.names import GVR

START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """The virtual time of the running loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())


class ManualClock:
    """A clock that tests set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


class FakeApi:
    """Objects by key, with versions; `faults` are raised first, `latency` is slept first."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.patches: list[dict[str, Any]] = []
        self.faults: list[ApiError] = []
        self.latency = 0.0
        self.answer_latency = 0.0
        self.version = 0

    async def get(self, gvr: GVR, name: str, namespace: str = "") -> dict[str, Any]:
        await self._begin("get", name)
        return copy.deepcopy(self._find(gvr, name, namespace))

    async def create(self, gvr: GVR, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        assert field_manager
        metadata = obj["metadata"]
        await self._begin("create", metadata["name"])
        key = (gvr.resource, metadata.get("namespace", ""), metadata["name"])
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{key} exists")
        return await self._store(key, obj)

    async def replace(self, gvr: GVR, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        assert field_manager
        metadata = obj["metadata"]
        await self._begin("replace", metadata["name"])
        known = self._find(gvr, metadata["name"], metadata.get("namespace", ""))
        self._check(known, metadata.get("resourceVersion"))
        key = (gvr.resource, metadata.get("namespace", ""), metadata["name"])
        return await self._store(key, obj)

    async def merge_patch(
        self,
        gvr: GVR,
        name: str,
        patch: dict[str, Any],
        namespace: str = "",
        *,
        field_manager: str,
        subresource: str = "",
    ) -> dict[str, Any]:
        assert field_manager
        assert subresource == "status"
        await self._begin("patch", name)
        known = self._find(gvr, name, namespace)
        self._check(known, patch["metadata"].get("resourceVersion"))
        self.patches.append(patch)
        changed = {**known, "status": merged(known.get("status"), patch["status"])}
        return await self._store((gvr.resource, namespace, name), changed)

    def put(self, gvr: GVR, obj: dict[str, Any]) -> dict[str, Any]:
        """A write by another client."""
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        stored = {**copy.deepcopy(obj), "metadata": metadata}
        key = (gvr.resource, metadata.get("namespace", ""), metadata["name"])
        self.objects[key] = stored
        return copy.deepcopy(stored)

    async def _begin(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.faults:
            raise self.faults.pop(0)

    async def _store(self, key: tuple[str, str, str], obj: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = stored
        if self.answer_latency:
            await asyncio.sleep(self.answer_latency)
        return copy.deepcopy(stored)

    def _find(self, gvr: GVR, name: str, namespace: str) -> dict[str, Any]:
        try:
            return self.objects[gvr.resource, namespace, name]
        except KeyError:
            raise NotFound(404, "NotFound", f"no {name}") from None

    def _check(self, known: dict[str, Any], version: str | None) -> None:
        if version is not None and known["metadata"]["resourceVersion"] != version:
            raise Conflict(409, "Conflict", "written meanwhile")


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as the API server does it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def thing(
    name: str, version: int | str = 1, *, namespace: str = "ns", uid: str = "", **fields: Any
) -> dict[str, Any]:
    """An object as the API server would send it."""
    return {
        "apiVersion": "example.dev/v1",
        "kind": "Thing",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "generation": 1,
        },
        **fields,
    }


def observed(
    name: str, version: int = 1, *, change: str = "ADDED", initial: bool = False, **fields: Any
) -> Observed:
    """A watch item with such an object."""
    raw = json.dumps(thing(name, version, **fields)).encode()
    return Observed(change, raw, initial)  # type: ignore[arg-type]
