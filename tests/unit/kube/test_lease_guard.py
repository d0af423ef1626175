"""A process without the lease sends no write."""

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
from windlass.kube.errors import LeaseNotHeld, Unavailable
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
def unreachable(tmp_path: Path) -> Connection:
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
async def test_a_lease_guard_stops_every_write(
    unreachable: Connection, write: Callable[[Api], Awaitable[object]]
) -> None:
    """No request is sent while the lease is not held; the plain connection has no guard."""
    is_ours = False
    async with unreachable:
        api = Api(unreachable.with_lease_guard(lambda: is_ours))
        with pytest.raises(LeaseNotHeld):
            await write(api)
        with pytest.raises(Unavailable):
            await write(Api(unreachable))
        is_ours = True
        with pytest.raises(Unavailable):
            await write(api)


async def test_reading_needs_no_lease(unreachable: Connection) -> None:
    """A standby may read."""
    async with unreachable:
        with pytest.raises(Unavailable):
            await Api(unreachable.with_lease_guard(lambda: False)).get(_MAPS, "a", "b")


async def test_no_part_of_a_candidate_may_write(unreachable: Connection) -> None:
    """All capabilities use the guarded connection; the election does not."""
    async with unreachable:
        role = ControllerRole(Settings(), unreachable, clock=SystemClock())
        for part in role._capabilities:
            assert not part._connection.may_write(), part.name
        assert unreachable.may_write()


async def test_an_operator_starts_only_its_capabilities(unreachable: Connection) -> None:
    """A disabled capability is not started."""
    async with unreachable:
        for wanted in (("reverser",), ("gateways", "reverser", "environments")):
            settings = Settings(capabilities=wanted)
            role = ControllerRole(settings, unreachable, clock=SystemClock())
            assert tuple(part.name for part in role._capabilities) == wanted
