"""Adding and removing our finalizer beside those of other controllers."""

from __future__ import annotations

import pytest

from windlass.kube.errors import Conflict, NotFound
from windlass.objects.names import GVR, Object
from windlass.runtime import finalizer

KIND = GVR("g", "v1", "things")


class Server:
    """Records the patches that it gets, or responds with an error."""

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


def object_at_version_7(*finalizers: str) -> Object:
    """An object at version 7."""
    metadata = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    return {"metadata": {**metadata, "finalizers": list(finalizers)}}


async def _add(server: Server, obj: Object) -> None:
    await finalizer.add_finalizer(server, KIND, obj, "ours", field_manager="m")


async def test_finalizers_of_others_stay() -> None:
    """Ours is appended and removed at the resourceVersion that was read."""
    server = Server()
    await _add(server, object_at_version_7("theirs"))
    await finalizer.remove_finalizer(
        server, KIND, object_at_version_7("a", "ours", "b"), "ours", field_manager="m"
    )
    assert [patch["finalizers"] for patch in server.patches] == [["theirs", "ours"], ["a", "b"]]
    assert {(patch["uid"], patch["resourceVersion"]) for patch in server.patches} == {("u", "7")}


async def test_nothing_is_written_twice() -> None:
    """A present finalizer is not added, an absent one not removed."""
    server = Server()
    await _add(server, object_at_version_7("ours"))
    await finalizer.remove_finalizer(
        server, KIND, object_at_version_7("theirs"), "ours", field_manager="m"
    )
    assert not server.patches


async def test_a_conflict_is_not_an_error() -> None:
    """The write in between triggers another reconcile; a deleted object needs none."""
    await _add(Server(Conflict(409, "Conflict", "modified")), object_at_version_7())
    gone = Server(NotFound(404, "NotFound", "gone"))
    await finalizer.remove_finalizer(
        gone, KIND, object_at_version_7("ours"), "ours", field_manager="m"
    )
    busy = Server(Conflict(409, "Conflict", "modified"))
    with pytest.raises(Conflict):
        await finalizer.remove_finalizer(
            busy, KIND, object_at_version_7("ours"), "ours", field_manager="m"
        )
