"""What the rights say and what the rooms do, told in two places, is the same."""

from __future__ import annotations

from windlass.api.install import cluster_roles, operator_policies, rbac
from windlass.api.install.operator_policy_bounds import ENVIRONMENT_UID, NAMESPACE_TYPE
from windlass.api.kinds import ignitionsync
from windlass.environments import owned_objects, ownership
from windlass.environments.bundle import kinds
from windlass.gateways.wire import agent_objects


def test_the_marks_of_namespaces() -> None:
    """The fence looks for the marks that the operator sets."""
    assert ownership.UID == ENVIRONMENT_UID
    assert ownership.NAMESPACE_TYPE == NAMESPACE_TYPE
    assert ownership.ENVIRONMENT_TYPE == operator_policies.ENVIRONMENT_TYPE


def test_the_bindings_inside_a_namespace() -> None:
    """The operator binds the roles that it may bind, under names that it may write."""
    assert owned_objects.APPLIER_NAME == cluster_roles.APPLIER
    assert owned_objects.MANAGER_NAME == cluster_roles.MANAGER_BINDING


def test_the_applier_may_write_every_kind_of_a_bundle() -> None:
    """Exactly the kinds that a bundle may hold are in the role it is applied with."""
    ((role,),) = (
        documents
        for name, documents in rbac.documents_by_file().items()
        if name == "environment-applier"
    )
    granted = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    wanted = {(allowed.gvr.group, allowed.gvr.resource) for allowed in kinds.ALLOWED_KINDS.values()}
    assert granted == wanted


def test_names_of_what_is_kept_for_gateways() -> None:
    """The fence lets the names pass that the gateways capability gives."""
    names = (
        agent_objects.metadata_name("x"),
        agent_objects.summary_name("x"),
        agent_objects.status_name("0123-4567-89ab"),
        agent_objects.role_name("x"),
    )
    assert all(name.startswith(ignitionsync.OWNED_PREFIX) for name in names)
