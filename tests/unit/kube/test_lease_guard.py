"""Who may not write sends nothing that changes anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from windlass.app.controller import ControllerRole
from windlass.app.settings import Settings
from windlass.base.clock import SystemClock
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import Fenced, Unavailable
from windlass.objects.names import GVR

_MAPS = GVR("", "v1", "configmaps")
_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}

WRITES: dict[str, Callable[[Api], Awaitable[object]]] = {
    "create": lambda api: api.create(_MAPS, _MAP, field_manager="test"),
    "replace": lambda api: api.replace(_MAPS, _MAP, field_manager="test"),
    "apply": lambda api: api.apply(_MAPS, _MAP, field_manager="test"),
    "merge": lambda api: api.merge_patch(_MAPS, "a", {}, "b", field_manager="test"),
    "patch": lambda api: api.json_patch(_MAPS, "a", [], "b", field_manager="test"),
    "delete": lambda api: api.delete(_MAPS, "a", "b"),
}


@pytest.fixture
def nowhere(tmp_path: Path) -> Connection:
    """A connection on which every request that is sent fails."""
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return Connection.open(kubeconfig=path)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_fence_stops_every_write(
    nowhere: Connection, write: Callable[[Api], Awaitable[object]]
) -> None:
    """No request leaves while the fence is closed; the bare connection is not fenced."""
    is_ours = False
    async with nowhere:
        api = Api(nowhere.fenced(lambda: is_ours))
        with pytest.raises(Fenced):
            await write(api)
        with pytest.raises(Unavailable):
            await write(Api(nowhere))
        is_ours = True
        with pytest.raises(Unavailable):
            await write(api)


async def test_reading_needs_no_lease(nowhere: Connection) -> None:
    """Who stands by may look."""
    async with nowhere:
        with pytest.raises(Unavailable):
            await Api(nowhere.fenced(lambda: False)).get(_MAPS, "a", "b")


async def test_no_part_of_a_candidate_may_write(nowhere: Connection) -> None:
    """All capabilities work through the fence; the election itself does not."""
    async with nowhere:
        role = ControllerRole(Settings(), nowhere, clock=SystemClock())
        for part in role._capabilities:
            assert not part._connection.may_write(), part.name
        assert nowhere.may_write()


async def test_an_operator_does_what_it_is_there_for(nowhere: Connection) -> None:
    """A capability that nobody wants is not begun."""
    async with nowhere:
        for wanted in (("reverser",), ("gateways", "reverser", "environments")):
            settings = Settings(capabilities=wanted)
            role = ControllerRole(settings, nowhere, clock=SystemClock())
            assert tuple(part.name for part in role._capabilities) == wanted
