"""Adds and removes our finalizer on an object.

Both write one field of one object at one version: if another client wrote in between, its write
wins and the next reconcile tries again. Finalizers of others stay in place.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from windlass.base import failpoint
from windlass.kube.errors import Conflict, NotFound
from windlass.objects.names import GVR, Object


class PatchClient(Protocol):
    """The part of `kube.api.Api` that finalizers need."""

    async def merge_patch(
        self, gvr: GVR, name: str, patch: Object, namespace: str = "", *, field_manager: str
    ) -> Object: ...


def has_finalizer(obj: Object, finalizer: str) -> bool:
    """Whether `obj` has `finalizer`."""
    return finalizer in _finalizers(obj)


async def add_finalizer(
    api: PatchClient, gvr: GVR, obj: Object, finalizer: str, *, field_manager: str
) -> None:
    """Add `finalizer` unless it is set; a newer version is left to the next reconcile."""
    if has_finalizer(obj, finalizer):
        return
    with contextlib.suppress(Conflict):
        await _write(api, gvr, obj, [*_finalizers(obj), finalizer], field_manager)


async def remove_finalizer(
    api: PatchClient, gvr: GVR, obj: Object, finalizer: str, *, field_manager: str
) -> None:
    """Remove `finalizer`; an object that is gone has none."""
    if not has_finalizer(obj, finalizer):
        return
    try:
        remaining = [name for name in _finalizers(obj) if name != finalizer]
        await _write(api, gvr, obj, remaining, field_manager)
    except NotFound:
        return


async def _write(
    api: PatchClient, gvr: GVR, obj: Object, finalizers: list[str], field_manager: str
) -> None:
    metadata = obj["metadata"]
    guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    failpoint.reach("runtime.finalizer.before")
    await api.merge_patch(
        gvr,
        metadata["name"],
        {"metadata": {**guard, "finalizers": finalizers}},
        metadata.get("namespace") or "",
        field_manager=field_manager,
    )
    failpoint.reach("runtime.finalizer.after")


def _finalizers(obj: Object) -> list[str]:
    return list((obj.get("metadata") or {}).get("finalizers") or [])
