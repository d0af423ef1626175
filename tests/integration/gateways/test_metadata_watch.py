"""How an agent watches its metadata."""

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
    metadata = {"name": "agent", "namespace": fleet.namespace}
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "agent"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
    await fleet.admin.create(ROLES, role, field_manager=MANAGER)
    await fleet.admin.create(ROLE_BINDINGS, binding, field_manager=MANAGER)


async def test_rights_granted_after_the_start_are_noticed_soon(
    cluster: LocalCluster, fleet: Fleet
) -> None:
    """A gateway is not delayed for half a minute because its agent started before its rights."""
    received: list[dict[str, str] | None] = []
    name, user = agent_objects.metadata_name("site"), f"agent-{fleet.namespace}"
    metadata = {"name": name, "namespace": fleet.namespace}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    await fleet.admin.create(CONFIG_MAPS, body, field_manager=MANAGER)
    async with Connection.open(kubeconfig=cluster.user_kubeconfig(user)) as connection:
        watch = MetadataWatch(connection, fleet.namespace, "site", received.append)
        running = asyncio.create_task(watch.run())

        async def is_refused() -> bool:
            return watch._is_disconnected

        async def is_received() -> bool:
            return {"a": "b"} in received

        await eventually(is_refused, "a refusal")
        await _allow(fleet, user)
        await eventually(is_received, "the metadata")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
