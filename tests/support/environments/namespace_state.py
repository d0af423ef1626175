"""The objects in an Environment's namespace, in a form in which two of them can be compared."""

from __future__ import annotations

import json
from typing import Any

from tests.support.environments.environment_harness import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    POLICIES,
    QUOTAS,
    EnvironmentHarness,
)
from windlass.objects.names import GVR
from windlass.objects.resources import LIMIT_RANGES, ROLE_BINDINGS, SERVICE_ACCOUNTS

KINDS = (
    QUOTAS,
    POLICIES,
    LIMIT_RANGES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    CONFIG_MAPS,
    GVR("", "v1", "services"),
    DEPLOYMENTS,
)

_INVENTORY = "windlass-inventory"
_DIFFERS = frozenset(
    {
        "catalyst.dev/applied-hash",
        "catalyst.dev/environment",
        "catalyst.dev/environment-name",
        "clusterIP",
        "clusterIPs",
        "creationTimestamp",
        "deployment.kubernetes.io/revision",
        "generation",
        "managedFields",
        "resourceVersion",
        "status",
        "uid",
    }
)


async def read_state(tenant: EnvironmentHarness, name: str) -> dict[str, Any]:
    """All objects, without what differs between any two Environments with the same spec."""
    environment = await tenant.get(name)
    namespace = environment["status"]["namespace"]
    names = {environment["metadata"]["uid"]: "UID", namespace: "NAMESPACE"}
    return {
        f"{gvr.resource}/{row['metadata']['name']}": _comparable(row, names)
        for gvr in KINDS
        for row in await tenant.api.list(gvr, namespace)
    }


def _comparable(row: dict[str, Any], names: dict[str, str]) -> Any:
    if row["metadata"]["name"] != _INVENTORY:
        return _replace_names(row, names)
    entries = json.loads(row["data"]["inventory"])
    return sorted((entry["kind"], entry["name"], bool(entry.get("uid"))) for entry in entries)


def _replace_names(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _replace_names(item, names) for key, item in value.items() if key not in _DIFFERS
        }
    if isinstance(value, list):
        return [_replace_names(item, names) for item in value]
    if isinstance(value, str):
        for name, common in names.items():
            value = value.replace(name, common)
    return value
