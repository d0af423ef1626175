"""Rights with which a bundle is applied: those of one account in one namespace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.environments.environment_harness import CONFIG_MAPS, POLICIES, EnvironmentHarness
from windlass.api.install.installation import Installation
from windlass.environments.isolation.operator_policy import OperatorPolicyCheck
from windlass.environments.owned_objects import applier_user
from windlass.kube.api import Api
from windlass.kube.errors import Forbidden
from windlass.objects.names import GVR

pytestmark = pytest.mark.cluster

_BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings")
_ACCOUNTS = GVR("", "v1", "serviceaccounts")


def _object(api_version: str, kind: str, name: str, namespace: str, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _binding(namespace: str, role: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return _object(
        f"{group}/v1",
        "RoleBinding",
        "windlass-applier",
        namespace,
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": role},
        subjects=[{"apiGroup": group, "kind": "User", "name": "windlass-operator"}],
    )


async def test_the_operator_policy_is_detected_by_its_refusal(tenant: EnvironmentHarness) -> None:
    """The installed policy is detected; one that is not installed is not."""
    for install, is_installed in ((Installation(), True), (Installation("another"), False)):
        check = OperatorPolicyCheck(
            Api(tenant.connection),
            operator=tenant.settings.operator,
            install=install,
            field_manager="test",
        )
        if is_installed:
            # The API server takes up a new policy about once a second.
            async with asyncio.timeout(30):
                await check.wait()
        assert await check._is_refused() is is_installed


@pytest.mark.scenario("E120")
async def test_the_applier_is_limited_to_its_namespace(
    tenant: EnvironmentHarness, other_namespace: str
) -> None:
    """It writes objects of bundles there; no RBAC, no policies, nothing in other namespaces."""
    async with tenant.running():
        await tenant.apply(tenant.project(), tenant.environment())
        await tenant.phase("Ready")
        namespace = await tenant.environment_namespace()
    applier = Api(tenant.connection, acting_as=applier_user(namespace))
    allowed = _object("v1", "ConfigMap", "mine", namespace, data={"a": "b"})
    await applier.apply(CONFIG_MAPS, allowed, field_manager="test")
    policy = _object(
        "networking.k8s.io/v1", "NetworkPolicy", "open", namespace, spec={"podSelector": {}}
    )
    elsewhere = _object("v1", "ConfigMap", "theirs", other_namespace)
    for gvr, obj in (
        (POLICIES, policy),
        (_BINDINGS, _binding(namespace, "cluster-admin")),
        (CONFIG_MAPS, elsewhere),
    ):
        with pytest.raises(Forbidden):
            await applier.apply(gvr, obj, field_manager="test")
    accounts = {row["metadata"]["name"] for row in await tenant.api.list(_ACCOUNTS, namespace)}
    assert "windlass-applier" not in accounts
