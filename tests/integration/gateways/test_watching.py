"""How an agent learns what it should do."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.support.gateways.fleet import MANAGER, ROLE_BINDINGS, ROLES, Fleet
from tests.support.processes.polling import eventually
from windlass.gateways.agent.metadata_watch import MetadataWatch
from windlass.gateways.wire import agent_objects
from windlass.kube.connection import Connection
from windlass.objects.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster]

_RBAC = "rbac.authorization.k8s.io"


async def _allow(fleet: Fleet, user: str) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    about = {"name": "agent", "namespace": fleet.namespace}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": about, "rules": [rule]}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "agent"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
    await fleet.admin.create(ROLES, role, field_manager=MANAGER)
    await fleet.admin.create(ROLE_BINDINGS, binding, field_manager=MANAGER)


async def test_rights_that_come_after_the_pod_are_noticed_soon(
    cluster: LocalCluster, fleet: Fleet
) -> None:
    """A gateway is not held back for half a minute because its agent was quicker than we."""
    told: list[dict[str, str] | None] = []
    name, user = agent_objects.metadata_name("site"), f"agent-{fleet.namespace}"
    about = {"name": name, "namespace": fleet.namespace}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"a": "b"}}
    await fleet.admin.create(CONFIG_MAPS, body, field_manager=MANAGER)
    async with Connection.open(kubeconfig=cluster.user_kubeconfig(user)) as connection:
        watch = MetadataWatch(connection, fleet.namespace, "site", told.append)
        running = asyncio.create_task(watch.run())

        async def refused() -> bool:
            return watch._is_disconnected

        async def heard() -> bool:
            return {"a": "b"} in told

        await eventually(refused, "a refusal")
        await _allow(fleet, user)
        await eventually(heard, "the metadata")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
