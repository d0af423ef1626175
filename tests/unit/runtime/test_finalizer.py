"""Our finalizer among those of others."""

from __future__ import annotations

import pytest

from windlass.kube.errors import Conflict, NotFound
from windlass.objects.names import GVR, Object
from windlass.runtime import finalizer

KIND = GVR("g", "v1", "things")


class Server:
    """Keeps the patches that it gets, or answers with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.patches: list[Object] = []
        self._error = error

    async def merge_patch(
        self, gvr: GVR, name: str, patch: Object, namespace: str = "", *, field_manager: str
    ) -> Object:
        if self._error is not None:
            raise self._error
        self.patches.append(patch["metadata"])
        return patch


def thing(*finalizers: str) -> Object:
    """An object at version 7."""
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    return {"metadata": {**metadata, "finalizers": list(finalizers)}}


async def _add(server: Server, obj: Object) -> None:
    await finalizer.add_finalizer(server, KIND, obj, "ours", field_manager="m")


async def test_those_of_others_stay() -> None:
    """Ours is put behind them and taken from among them, at the version that was seen."""
    server = Server()
    await _add(server, thing("theirs"))
    await finalizer.remove_finalizer(
        server, KIND, thing("a", "ours", "b"), "ours", field_manager="m"
    )
    assert [patch["finalizers"] for patch in server.patches] == [["theirs", "ours"], ["a", "b"]]
    assert {(patch["uid"], patch["resourceVersion"]) for patch in server.patches} == {("u", "7")}


async def test_nothing_is_written_twice() -> None:
    """What is there is not added, what is not there is not removed."""
    server = Server()
    await _add(server, thing("ours"))
    await finalizer.remove_finalizer(server, KIND, thing("theirs"), "ours", field_manager="m")
    assert not server.patches


async def test_a_newer_version_is_no_error() -> None:
    """Whoever wrote in between leads back here; one that is gone needs nothing."""
    await _add(Server(Conflict(409, "Conflict", "modified")), thing())
    gone = Server(NotFound(404, "NotFound", "gone"))
    await finalizer.remove_finalizer(gone, KIND, thing("ours"), "ours", field_manager="m")
    busy = Server(Conflict(409, "Conflict", "modified"))
    with pytest.raises(Conflict):
        await finalizer.remove_finalizer(busy, KIND, thing("ours"), "ours", field_manager="m")
