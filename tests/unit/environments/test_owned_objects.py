"""Every object that the operator itself keeps in an Environment's namespace."""

from __future__ import annotations

import pytest

from tests.support.environments.manifests import OWNER
from windlass.api.install.environment_objects import NAMESPACE_TYPE
from windlass.environments import owned_objects, ownership
from windlass.environments.isolation import quota
from windlass.environments.isolation.quota import ContainerBounds
from windlass.environments.owned_objects import OperatorAccount
from windlass.objects.names import Object

NAMESPACE = "env-shop-pr-1"
HARD = quota.hard_limits(quota.trusted_amounts({}, {}, {}))
OBJECTS = [
    owned_objects.manager_binding(
        NAMESPACE, OWNER, "role", OperatorAccount("system:serviceaccount:ops:op")
    ),
    owned_objects.applier_binding(NAMESPACE, OWNER, "role"),
    owned_objects.default_service_account(NAMESPACE, OWNER),
    owned_objects.limit_range(
        NAMESPACE, OWNER, quota.container_limit_range(ContainerBounds(), HARD)
    ),
    owned_objects.resource_quota(NAMESPACE, OWNER, HARD),
    owned_objects.network_policy(NAMESPACE, OWNER, "default-policy", {"podSelector": {}}),
    owned_objects.config_map(NAMESPACE, OWNER, "windlass-inventory", {"a": "b"}),
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: obj["kind"])
def test_every_object_has_the_ownership_labels(obj: Object) -> None:
    """In the namespace, with labels and annotations that agree."""
    assert obj["metadata"]["namespace"] == NAMESPACE
    assert ownership.owner_uid(obj) == OWNER.uid
    assert ownership.owner_key(obj) == (OWNER.namespace, OWNER.name)
    assert obj["metadata"]["labels"][ownership.MANAGED_BY] == "windlass"


def test_the_namespace_is_complete_in_its_first_write() -> None:
    """Whose it is and how its pods are held; there is no moment without."""
    metadata = owned_objects.namespace(NAMESPACE, OWNER, "baseline")["metadata"]
    assert ownership.owner_uid({"metadata": metadata}) == OWNER.uid
    assert metadata["labels"][NAMESPACE_TYPE] == "environment"
    held = {name: value for name, value in metadata["labels"].items() if "pod-security" in name}
    assert held == {
        f"pod-security.kubernetes.io/{level}{suffix}": value
        for level in ("enforce", "warn", "audit")
        for suffix, value in (("", "baseline"), ("-version", "latest"))
    }


def test_the_default_account_has_no_token() -> None:
    """Pods that name no account run as this one."""
    account = owned_objects.default_service_account(NAMESPACE, OWNER)
    assert account["metadata"]["name"] == "default"
    assert account["automountServiceAccountToken"] is False


def test_the_applier_exists_in_its_binding_only() -> None:
    """It is acted as; an object of this name would let pods run as it."""
    binding = owned_objects.applier_binding(NAMESPACE, OWNER, "appliers")
    assert binding["roleRef"]["name"] == "appliers"
    [subject] = binding["subjects"]
    assert subject == {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "windlass-applier"}
    assert (
        owned_objects.applier_user(NAMESPACE)
        == f"system:serviceaccount:{NAMESPACE}:windlass-applier"
    )
    assert binding["roleRef"]["kind"] == "ClusterRole"


@pytest.mark.parametrize(
    ("username", "subject"),
    [
        (
            "system:serviceaccount:ops:windlass",
            {"kind": "ServiceAccount", "namespace": "ops", "name": "windlass"},
        ),
        ("admin", {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "admin"}),
        (
            "system:serviceaccount:odd",
            {
                "kind": "User",
                "apiGroup": "rbac.authorization.k8s.io",
                "name": "system:serviceaccount:odd",
            },
        ),
    ],
)
def test_the_operator_is_bound_as_the_server_knows_it(username: str, subject: Object) -> None:
    """In a cluster it is a ServiceAccount, on a local cluster a user."""
    binding = owned_objects.manager_binding(NAMESPACE, OWNER, "role", OperatorAccount(username))
    assert binding["subjects"] == [subject]


def test_the_limit_range_has_one_row_for_containers() -> None:
    """With defaults, default requests and maxima."""
    [row] = owned_objects.limit_range(
        NAMESPACE, OWNER, quota.container_limit_range(ContainerBounds(), HARD)
    )["spec"]["limits"]
    assert row["type"] == "Container"
    assert row.keys() == {"type", "default", "defaultRequest", "max"}
